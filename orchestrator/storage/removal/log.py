"""What retention did, a line each with its evidence: `<data>/removals.jsonl`, and the one before it with `.1`.

A line has what was done with which files of which task, how large and how old they were, by which rule, and who asked.
"""

import errno
import os
import threading
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import orjson
import structlog

from orchestrator.formats.codec import JsonObject
from orchestrator.formats.files import open_regular, parsed

log = structlog.get_logger()

NAME, BEFORE = "removals.jsonl", "removals.jsonl.1"
FORMAT = 1
LARGEST = 8 * 1024 * 1024
"""Bytes after which a new log is begun; the one before it is kept."""
_RECENT = 1024 * 1024
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW


def is_full(error: OSError) -> bool:
    """Whether a write failed for lack of space."""
    return error.errno in {errno.ENOSPC, errno.EDQUOT}


class RemovalLog:
    """The log of one data folder; every method blocks and may be called in any thread."""

    def __init__(self, data_dir: Path) -> None:
        self._path, self._before = data_dir / NAME, data_dir / BEFORE
        self._writing = threading.Lock()

    def add(self, records: Mapping[str, JsonObject]) -> None:
        """Append a line for each record by its id, all or none, and wait for the disk. Raises OSError."""
        if not records:
            return
        lines = b"".join(orjson.dumps({"format": FORMAT, "id": name, **one}) + b"\n" for name, one in records.items())
        with self._writing:
            file = os.open(self._path, _FLAGS, 0o600)
            try:
                size = os.fstat(file).st_size
                if size and os.pread(file, 1, size - 1) != b"\n":  # a power cut left half a line
                    lines = b"\n" + lines
                if os.write(file, lines) < len(lines):
                    os.ftruncate(file, size)
                    raise OSError(errno.ENOSPC, "the log of removals could not be written", str(self._path))
                os.fdatasync(file)
            finally:
                os.close(file)
            if size > LARGEST:
                self._path.replace(self._before)

    def note(self, records: Mapping[str, JsonObject]) -> None:
        """Append lines, or say in the daemon's log what they would have been if the disk is full. Raises OSError."""
        try:
            self.add(records)
        except OSError as error:
            if not is_full(error):
                raise
            log.warning("removal_not_logged", removals=dict(records))

    def known(self, ids: Collection[str]) -> set[str]:
        """Return which of these ids recent lines have."""
        return {str(line.get("id")) for line in self._lines(_RECENT)} & set(ids) if ids else set()

    def since(self, at: str) -> list[JsonObject]:
        """Return the lines from a time on, given as a stamp, oldest first, as far back as the logs go."""
        return [line for line in self._lines(2 * LARGEST) if str(line.get("at", "")) >= at]

    def newest(self, count: int) -> list[JsonObject]:
        """Return the newest lines, the newest first, of the recent end of the log."""
        return list(deque(self._lines(_RECENT), maxlen=count))[::-1]

    def freed(self, since: str, until: str) -> tuple[int, int]:
        """Return in how many removals how many bytes were freed, from one stamp to another."""
        sizes = [line.get("bytes") for line in self.since(since) if str(line.get("at", "")) < until]
        found = [size for size in sizes if isinstance(size, int)]
        return len(found), sum(found)

    def _lines(self, most: int) -> Iterator[JsonObject]:
        for path in (self._before, self._path):
            for raw in _tail(path, most).split(b"\n"):
                line = parsed(raw) if raw else None
                if line is not None:
                    yield line


def _tail(path: Path, most: int) -> bytes:
    """Return the end of a log; empty if it is missing."""
    try:
        file = open_regular(path)
    except OSError:
        return b""
    try:
        size = os.fstat(file).st_size
        return os.pread(file, most, max(0, size - most))
    finally:
        os.close(file)
