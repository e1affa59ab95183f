"""Telling people, by a command of their own that gets one notice as JSON on its standard input.

A notice is told once: a file named by its key, with what was told, is written after the command ended well. If the
daemon is killed between the two, the notice is told again. A command has so many seconds. When it ends, and when its
time is up, all that it started ends with it, also what put itself into a session of its own: it is known by a mark in
its environment. Its output is read to the end of its life, and only the last of it is kept. One command runs at a time,
so notices come in the order in which they were told.
"""

import asyncio
import json
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import structlog

from orchestrator.core.task.notice import Notice
from orchestrator.core.task.task import Task
from orchestrator.formats.codec import Json
from orchestrator.integrations.notification_payload import announcement
from orchestrator.processes.process_stats import kill_marked
from orchestrator.processes.spec import MARKER
from orchestrator.redaction.display import escape_text
from orchestrator.storage.task_files import TaskFiles
from orchestrator.workspaces.evaluation.judge import environment

log = structlog.get_logger()

FOLDER = "notices"
DEFAULT_LIMIT = 30.0
REAP_LIMIT = 5.0
"""Seconds; for a killed process to be gone."""

_KEPT_OUTPUT = 2048  # bytes; escaped, up to four times as many characters
_WHOLE_PIPE = 64 * 1024  # bytes that a pipe holds, pipe(7)
_TO_REACH_PEOPLE = frozenset({"DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR"})


class DeliveryResult(StrEnum):
    """What became of a notice."""

    SENT = "sent"
    ALREADY_SENT = "already_sent"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Whether people were told, and if not, why."""

    told: DeliveryResult
    reason: str = ""


class Notifier:
    """Runs the user's `notify_command`, program and arguments; `limit` in seconds, `base_env` is the daemon's own.

    ValueError for a command without a program: where nobody is to be told there is no notifier.
    """

    def __init__(
        self, command: tuple[str, ...], base_env: Mapping[str, str], files: TaskFiles, limit: float = DEFAULT_LIMIT
    ) -> None:
        self._program, *self._arguments = command
        self._files, self._limit = files, limit
        desktop = {name: value for name, value in base_env.items() if name in _TO_REACH_PEOPLE}
        self._env = environment(base_env) | desktop
        self._one_at_a_time = asyncio.Lock()

    async def tell(self, task: Task, notice: Notice) -> Answer:
        """Tell it, unless it was told before. What failed may be told again: nothing of it is remembered."""
        name = f"{FOLDER}/{notice.key}"
        async with self._one_at_a_time:
            if self._files.has(task.id, name):
                return Answer(told=DeliveryResult.ALREADY_SENT)
            document = announcement(task, notice)
            try:
                reason, output = await self._run(document, mark=Path(f"/dev/null/{task.id}/{name}"))
            except (OSError, ValueError) as error:
                said = error.strerror if isinstance(error, OSError) else str(error)
                reason, output = f"notify_command could not start {escape_text(self._program)}: {said}", ""
            if reason:
                log.warning("notice_not_sent", task=task.id, key=notice.key, reason=reason, output=output)
                return Answer(told=DeliveryResult.FAILED, reason=reason)
            self._remember(task, name, document)
            log.info("notice_sent", task=task.id, key=notice.key, kind=notice.kind.value)
            return Answer(told=DeliveryResult.SENT)

    async def _run(self, document: Mapping[str, Json], mark: Path) -> tuple[str, str]:
        """Why the command failed, empty if it did not, and the last of its output.

        OSError or ValueError if it cannot be started. `mark` is no folder of a task: the API would take the command,
        and whoever answers by it, for an agent.
        """
        with closing(_Output()) as output, _as_file(document) as stdin:
            process = await asyncio.create_subprocess_exec(
                self._program,
                *self._arguments,
                stdin=stdin,
                stdout=output.theirs,
                stderr=output.theirs,
                env=self._env | {MARKER: str(mark)},
                start_new_session=True,
            )
            try:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._limit):
                        await process.wait()
                code = process.returncode
            finally:
                await _end(process, mark)
            return self._meaning(code), output.last()

    def _remember(self, task: Task, name: str, document: Mapping[str, Json]) -> None:
        """Record a delivered notice; if that fails, the notice will be delivered again."""
        try:
            self._files.write(task.id, name, json.dumps(document).encode() + b"\n")
        except OSError as error:
            log.warning("notice_not_remembered", task=task.id, file=name, error=str(error))

    def _meaning(self, code: int | None) -> str:
        if code is None:
            return f"notify_command was not done after {self._limit:g} s and was stopped; let it be quicker"
        return f"notify_command failed with exit code {code}; the log has its output" if code else ""


@dataclass(slots=True)
class Messenger:
    """Tells people by whatever the settings name now; where that is nothing, nobody is to be told."""

    notifier: Notifier | None

    def use(self, notifier: Notifier | None) -> None:
        """Tell by this from now on."""
        self.notifier = notifier

    async def tell(self, task: Task, notice: Notice) -> str | None:
        """Why people were not told, which may be tried again; empty if they were, None if nobody is to be."""
        if self.notifier is None:
            return None
        return (await self.notifier.tell(task, notice)).reason


class _Output:
    """What a process writes, read as it comes, so that nobody waits for us; only the last is kept."""

    def __init__(self) -> None:
        self._ours, self.theirs = os.pipe()
        os.set_blocking(self._ours, False)
        self._kept = b""
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._ours, self._read)

    def last(self) -> str:
        """The end of it, fit to be shown."""
        self._read()
        return escape_text(self._kept.decode("utf-8", "replace").strip(), 4 * _KEPT_OUTPUT)

    def close(self) -> None:
        """Read no more."""
        self._loop.remove_reader(self._ours)
        os.close(self._ours)
        os.close(self.theirs)

    def _read(self) -> None:
        with suppress(BlockingIOError):
            self._kept = (self._kept + os.read(self._ours, _WHOLE_PIPE))[-_KEPT_OUTPUT:]


async def _end(process: asyncio.subprocess.Process, mark: Path) -> None:
    """End what is left of a command."""
    if process.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    killed = await asyncio.to_thread(kill_marked, mark)
    if killed:
        log.info("notify_command_swept", pids=killed)
    with suppress(TimeoutError):
        async with asyncio.timeout(REAP_LIMIT):
            await process.wait()


@contextmanager
def _as_file(document: Mapping[str, Json]) -> Iterator[int]:
    """An open file in memory that holds a document: whoever does not read it keeps nobody waiting."""
    descriptor = os.memfd_create("notice")
    try:
        with open(descriptor, "w", encoding="ascii", closefd=False) as file:
            json.dump(document, file)
            file.write("\n")
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)
