"""How the last run of the daemon ended, as far as what it left behind tells: it may have had no time to say so itself.

`watchdog.run` in the data folder is a JSON document about the run, removed when it ends as it should. faulthandler
writes the stacks of all threads to `watchdog.stacks` when a signal such as SIGABRT ends the process. A disk that takes
neither keeps no daemon from running: then a warning is logged, and less is known after the run.
"""

import faulthandler
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import IO

import structlog

from orchestrator.formats.files import parsed, read_file, write_atomically
from orchestrator.formats.versioned import encode_versioned

log = structlog.get_logger()

FORMAT = 1
RUN_FILE, STACKS_FILE = "watchdog.run", "watchdog.stacks"
LONGEST_STACKS, LONGEST_WORDS = 9000, 500
"""Characters that are read of what an earlier run left."""
_ABORTED = "Fatal Python error: Aborted"


class Ending(StrEnum):
    """How a run ended that did not end as it should."""

    WATCHDOG = "the service manager's watchdog, or somebody else, aborted it (SIGABRT)"
    CRASHED = "the interpreter crashed"
    REBOOTED = "the machine was rebooted"
    KILLED = "it was killed, or an error ended it"


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRun:
    """A run that did not end as it should; `hangs` is what hung then, `stacks` are those of its threads, if known."""

    ending: Ending
    pid: int
    started_at: str
    hangs: str = ""
    stacks: str = ""

    def __str__(self) -> str:
        """Say it in a line."""
        return f"the last run ended unexpectedly: {self.ending}" + (f"; before, {self.hangs}" if self.hangs else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    pid: int
    boot_id: str
    started_at: str
    hangs: str = ""


class RunRecord:
    """The record of this run, which holds `last`: how the one before ended, None if it ended as it should."""

    def __init__(self, data_dir: Path, boot_id: str, now: Callable[[], datetime]) -> None:
        self._file, stacks = data_dir / RUN_FILE, data_dir / STACKS_FILE
        self._run = _Run(pid=os.getpid(), boot_id=boot_id, started_at=now().isoformat())
        self._writing = threading.Lock()
        self._stacks: IO[bytes] | None = None
        self._is_closed = False
        self.last: LastRun | None = None
        try:
            self.last = _ended(self._file, stacks, boot_id)
            stacks.unlink(missing_ok=True)
            self._stacks = stacks.open("xb", buffering=0)
            faulthandler.enable(self._stacks)
        except OSError as error:
            log.warning("stacks_not_recorded", file=str(stacks), reason=str(error))
        self._write()

    def note_hangs(self, words: str) -> None:
        """Record what hangs, empty if nothing does any more. Blocks for as long as the disk does."""
        with self._writing:
            if not self._is_closed:
                self._run = replace(self._run, hangs=words)
                self._write()

    def close(self) -> None:
        """Record that this run ended as it should."""
        faulthandler.disable()
        with self._writing:
            self._is_closed = True
            if self._stacks is not None:
                self._stacks.close()
            try:
                self._file.unlink(missing_ok=True)
            except OSError as error:
                log.warning("run_not_recorded", file=str(self._file), reason=str(error))

    def _write(self) -> None:
        try:
            write_atomically(self._file, encode_versioned(self._run, FORMAT), durable=False)
        except OSError as error:
            log.warning("run_not_recorded", file=str(self._file), reason=str(error))


def _ended(file: Path, stacks: Path, boot_id: str) -> LastRun | None:
    content = read_file(file)
    if content == b"":
        return None
    found = parsed(content or b"") or {}
    text = (read_file(stacks) or b"").decode("utf-8", "replace")[:LONGEST_STACKS]
    pid, hangs = found.get("pid"), found.get("hangs")
    if found.get("boot_id") != boot_id:
        ending = Ending.REBOOTED
    elif text.startswith(_ABORTED):
        ending = Ending.WATCHDOG
    else:
        ending = Ending.CRASHED if text else Ending.KILLED
    return LastRun(
        ending=ending,
        pid=pid if isinstance(pid, int) else 0,
        started_at=str(found.get("started_at", ""))[:LONGEST_WORDS],
        hangs=hangs[:LONGEST_WORDS] if isinstance(hangs, str) else "",
        stacks=text,
    )
