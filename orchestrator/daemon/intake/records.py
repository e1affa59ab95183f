"""What came in by itself: one line for each file and ticket that was taken, refused, or closed again.

The lines are in `intake/records.jsonl` of the data folder. At its limit the file becomes `records-older.jsonl`, in
place of the one before, so that both together are bounded.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from threading import Lock

from orchestrator.formats.files import make_private, open_regular
from orchestrator.formats.versioned import decode_versioned, encode_versioned

FORMAT = 1
LARGEST = 4 * 1024 * 1024
"""Bytes of one of the two files."""
LONGEST_REASON = 2000
"""Characters of a reason that are kept."""


class IntakeKind(StrEnum):
    """What happened to a file or a ticket."""

    TAKEN = "taken"
    REFUSED = "refused"
    CANCELLED = "cancelled"
    CLOSED = "closed"
    FAILED = "failed"
    RECOVERED = "recovered"


@dataclass(frozen=True, slots=True, kw_only=True)
class IntakeRecord:
    """One thing that came in: from `source`, such as `inbox` or `query bugs`, by its name there.

    `evidence` is what identifies it: of a file its inode, size and SHA-256, of a ticket when it was last changed.
    """

    at: datetime
    source: str
    kind: IntakeKind
    name: str
    title: str = ""
    task: str = ""
    reason: str = ""
    evidence: str = ""


def record_of(at: datetime, source: str, kind: IntakeKind, name: str, about: Mapping[str, str]) -> IntakeRecord:
    """Return a record with what is known about it, by the names of its fields."""
    return IntakeRecord(
        at=at,
        source=source,
        kind=kind,
        name=name,
        title=about.get("title", ""),
        task=about.get("task", ""),
        reason=about.get("reason", ""),
        evidence=about.get("evidence", ""),
    )


class IntakeRecords:
    """The records of one data folder; used from any thread. All methods block."""

    def __init__(self, folder: Path) -> None:
        self._path, self._older = folder / "records.jsonl", folder / "records-older.jsonl"
        self._lock = Lock()

    def add(self, record: IntakeRecord) -> None:
        """Append a record and wait for the disk. Raises OSError."""
        line = encode_versioned(record, FORMAT) + b"\n"
        with self._lock:
            make_private(self._path.parent)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(self._path, flags, 0o600)
            try:
                size = os.fstat(descriptor).st_size
                torn = size > 0 and _last_byte(self._path, size) != b"\n"
                os.write(descriptor, (b"\n" if torn else b"") + line)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            if size + len(line) > LARGEST:
                self._path.replace(self._older)

    def newest(self, most: int, since: datetime | None = None) -> list[IntakeRecord]:
        """Return the newest records, newest first; lines that are damaged are left out."""
        found: list[IntakeRecord] = []
        with self._lock:
            for path in (self._path, self._older):
                for record in _records_in(path):
                    if len(found) == most or (since is not None and record.at < since):
                        return found
                    found.append(record)
        return found


def _records_in(path: Path) -> Iterator[IntakeRecord]:
    """Yield the records of a file, newest first."""
    try:
        with os.fdopen(open_regular(path), "rb") as opened:
            lines = opened.read(2 * LARGEST).splitlines()
    except OSError:
        return
    for line in reversed(lines):
        try:
            yield decode_versioned(IntakeRecord, line, FORMAT)
        except ValueError:
            continue


def _last_byte(path: Path, size: int) -> bytes:
    with os.fdopen(open_regular(path), "rb") as opened:
        opened.seek(size - 1)
        return opened.read(1)
