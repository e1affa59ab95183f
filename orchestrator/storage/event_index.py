"""The order of all decisions of all tasks: `<data>/events.idx`, one line for each, numbered from one.

A line is `number stamp task seq end`: the decision of which task it was, and where its line in that task's journal
ends. The decisions themselves are only in the journals. Lines are appended after their decisions were committed, once
for a burst of them or when somebody reads; decisions that are missing after a crash are found in the journals at the
next start and appended then. So a number means the same decision forever, and a restart neither loses nor repeats one.
Readers get only lines that are on disk, so that this also holds after a power cut. Without readers, nothing waits for
the disk.

Stamps never run backwards, even if the clock did, so that the index can be searched by time as well as by number.
"""

import errno
import os
import re
import stat
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import structlog

from orchestrator.errors import OrchestratorError
from orchestrator.formats.files import parsed
from orchestrator.storage.journal import NAME
from orchestrator.storage.records import Cursor

log = structlog.get_logger()

INDEX = "events.idx"
LONGEST = 512
"""Bytes; no line of the index is longer."""
BLOCK = 8 * 1024
"""Bytes of the index that are read at once."""

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_LINE = re.compile(rb"([0-9]{1,18}) ([0-9TZ:.-]{24}) ([^ \n]{1,255}) ([0-9]{1,18}) ([0-9]{1,18})\n")


class UnfitIndex(OrchestratorError):
    """The index cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexEntry:
    """A decision's place in the order; `end` is where its line in the task's journal ends, in bytes."""

    number: int
    stamp: str
    task: str
    seq: int
    end: int


class EventIndex:
    """The order of all decisions; written from the supervisor's event loop, read from any thread. Raises UnfitIndex."""

    def __init__(self, data_dir: Path, tasks_dir: Path) -> None:
        self.last = 0
        self._path, self._tasks_dir = data_dir / INDEX, tasks_dir
        self._stamp = ""
        self._unwritten: list[bytes] = []
        self._writing = threading.Lock()
        self._synced = 0
        try:
            missing = sorted(self._missing(self._known()))
        except OSError as error:
            message = f"{self._path} cannot be used: {error.strerror}; move it away and start the daemon again"
            raise UnfitIndex(message) from error
        for at, task, seq, end in missing:
            self.add(at, task, seq, end)
        self.flush()

    def add(self, at: str, task: str, seq: int, end: int) -> None:
        """Number a decision that was just committed; `flush` writes the number."""
        with self._writing:
            self.last, self._stamp = self.last + 1, max(self._stamp, at)
            self._unwritten.append(f"{self.last} {self._stamp} {task} {seq} {end}\n".encode())

    def flush(self) -> None:
        """Append what was added; if the disk refuses, it is written with the next flush."""
        with self._writing:
            if not self._unwritten:
                return
            try:
                with _opened(self._path) as file:
                    _append(file, b"".join(self._unwritten))
            except OSError as error:
                log.warning("index_not_written", error=str(error))
                return
            self._unwritten.clear()

    def after(self, number: int) -> Cursor:
        """Return the cursor behind the entry of that number; a negative number counts from the end."""
        wanted = max(0, self.last + number) if number < 0 else number
        return Cursor(number=wanted, at=self._first(lambda entry: entry.number > wanted)[0])

    def since(self, at: str) -> Cursor:
        """Return the cursor before the first entry of that time or later; the time is given as a stamp."""
        found, entry = self._first(lambda entry: entry.stamp >= at)
        return Cursor(number=entry.number - 1 if entry else self.last, at=found)

    def read(self, cursor: Cursor) -> tuple[list[IndexEntry], Cursor]:
        """Return some entries behind a cursor, none only at the end, and the cursor behind them. Blocks."""
        self.flush()
        with _opened(self._path) as file:
            size = os.fstat(file).st_size
            at = cursor.at if cursor.at <= size else self.after(cursor.number).at
            content = os.pread(file, BLOCK, at)
            content = content[: content.rfind(b"\n") + 1]
            if content and size > self._synced:
                os.fdatasync(file)
                self._synced = size
        entries = [_entry(match) for match in _LINE.finditer(content)]
        return entries, Cursor(number=entries[-1].number if entries else cursor.number, at=at + len(content))

    def _known(self) -> dict[str, int]:
        """Return where the last indexed decision of every task ends; cut the index off at the first damaged line."""
        ends: dict[bytes, bytes] = {}
        whole, match = 0, None
        with _opened(self._path) as file, open(file, "rb", closefd=False) as content:
            for line in content:
                found = _LINE.fullmatch(line)
                if found is None:
                    break
                ends[found[3]], match = found[5], found
                whole += len(line)
            os.ftruncate(file, whole)
        if match is not None:
            self.last, self._stamp = int(match[1]), match[2].decode()
        return {task.decode(): int(end) for task, end in ends.items()}

    def _missing(self, known: dict[str, int]) -> Iterator[tuple[str, str, int, int]]:
        """Yield the decisions in the journals that are not in the index, each task's in their own order."""
        for name in sorted(os.listdir(self._tasks_dir)):  # noqa: PTH208 - names alone
            if " " in name or not name.isprintable():
                continue  # not a task id
            path, begin, latest = f"{self._tasks_dir}/{name}/{NAME}", known.get(name, 0), ""
            if _size(path) > begin:
                for at, seq, end in _decisions(Path(path), name, begin):
                    latest = max(latest, at)
                    yield latest, name, seq, end

    def _first(self, fits: Callable[[IndexEntry], bool]) -> tuple[int, IndexEntry | None]:
        """Return where the first entry begins from which on all fit, and that entry; the end if there is none."""
        self.flush()
        with _opened(self._path) as file:
            size = os.fstat(file).st_size

            def fits_from(at: int) -> bool:
                _, entry = _line_from(file, at)
                return entry is None or fits(entry)

            return _line_from(file, bisect_left(range(size), True, key=fits_from))


def _append(file: int, content: bytes) -> None:
    """Write everything or nothing. Raises OSError."""
    size = os.fstat(file).st_size
    if os.write(file, content) < len(content):
        os.ftruncate(file, size)
        raise OSError(errno.ENOSPC, "the index could not be written completely")


def _line_from(file: int, at: int) -> tuple[int, IndexEntry | None]:
    """Return where the first line begins at or after a byte, and its entry; the end if there is none."""
    before = max(0, at - 1)
    content = os.pread(file, 2 * LONGEST, before)
    skipped = content.find(b"\n") + 1 if at else 0
    match = _LINE.match(content, skipped)
    return before + skipped if match else os.fstat(file).st_size, match and _entry(match)


def _entry(match: re.Match[bytes]) -> IndexEntry:
    number, at, task, seq, end = match.groups()
    return IndexEntry(number=int(number), stamp=at.decode(), task=task.decode(), seq=int(seq), end=int(end))


def _decisions(path: Path, task: str, begin: int) -> Iterator[tuple[str, int, int]]:
    """Yield time, number and end of the line of each whole decision of a journal, from a byte on."""
    with path.open("rb") as journal:
        journal.seek(begin)
        for raw in journal:
            line = parsed(raw) if raw.endswith(b"\n") else None
            begin += len(raw)
            match line:
                case {"task_id": str(owner), "seq": int(seq), "timestamp": str(at)} if owner == task and len(at) == 24:
                    yield at, seq, begin
                case _:
                    return


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    file = os.open(path, _FLAGS, 0o600)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise OSError(0, "not a regular file", str(path))
        yield file
    finally:
        os.close(file)


def _size(path: Path | str) -> int:
    """Return a file's size; zero if it is not a regular file."""
    try:
        found = os.lstat(path)
    except OSError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0
