"""state.json: the state that a task's journal adds up to, sealed, so that a write by another program is recognised.

It is replaced by rename without waiting for the disk, and the write may fail: the journal has everything.
"""

import os
from itertools import count
from pathlib import Path
from typing import cast

from orchestrator.formats.codec import JsonObject
from orchestrator.formats.files import (
    parsed,
    read_beginning,
    read_file,
    sealed,
    unsealed,
    unsealed_top,
    write_atomically,
)
from orchestrator.formats.patch import difference
from orchestrator.storage.migration import SCHEMA_VERSION, migrated
from orchestrator.storage.records import ForeignEdit, StoreError

NAME = "state.json"
BELOW = "states"
"""The first key after the part that a list shows."""
LARGEST_TOP = 8192
"""Bytes that usually hold the part above it; if they do not, the whole file is read."""
MOST_CHANGES = 50

Signature = tuple[int, int, int] | None


class FutureFile(StoreError):
    """A file was written by a later version of this program."""


class StateFile:
    """The state.json of an open task, as it was last written here."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._path = folder, folder / NAME
        self._written = b""
        self._signature: Signature = None

    def adopt(self) -> None:
        """Treat the present file as written by us."""
        self._written, self._signature = read_file(self._path) or b"", _signature(self._path)

    def replace(self, document: JsonObject, journal_bytes: int) -> None:
        """Write the file. Raises OSError; then the old one stays."""
        content = sealed({**document, "journal_bytes": journal_bytes}, below=BELOW)
        written = write_atomically(self._path, content, durable=False)
        self._written, self._signature = content, _signature_of(written)

    def is_ours(self) -> bool:
        """Return whether the file is the one that was last written here, judged by its inode, size and time."""
        return _signature(self._path) == self._signature

    def set_aside_foreign(self, seq: int) -> list[ForeignEdit]:
        """Set aside a file that another program wrote; one that was only deleted, emptied or touched is not kept."""
        if self.is_ours():
            return []
        content = read_file(self._path)
        if content in (self._written, b""):
            return []
        kept_as = set_aside(self._folder, seq)
        changed = changes(parsed(self._written) or {}, parsed(content or b""))
        return [ForeignEdit(task_id=self._folder.name, kept_as=kept_as, changed=changed)]


def state_of(folder: Path) -> tuple[JsonObject | None, int, bool]:
    """Return what state.json says, how many bytes of the journal it covers, and whether another program wrote it.

    One of another task is as foreign.
    """
    content = read_file(folder / NAME)
    if content is None:
        return None, 0, True
    if not content.strip(b"\0"):
        return None, 0, False  # never written, or its blocks never reached the disk
    document = unsealed(content)
    if document is None:
        document = parsed(content)
        require_known(folder / NAME, document or {})
        return document, 0, True
    require_known(folder / NAME, document)
    covered = cast(int, document.pop("journal_bytes"))
    return document, covered, document.get("task_id") != folder.name


def top_of(folder: str) -> JsonObject | None:
    """Return the part of state.json above the stages in the current format, which is all that a list shows.

    A list of ten thousand tasks is read at each start, so only the beginning of the file is read and checked. None if
    the file is damaged.
    """
    path = f"{folder}/{NAME}"
    document = unsealed_top(read_beginning(path, LARGEST_TOP), below=BELOW)
    if document is None:
        document = unsealed(read_file(Path(path)) or b"", before=BELOW)
    require_known(path, document or {})
    return document and migrated(document)


def set_aside(folder: Path, seq: int) -> str:
    """Rename the present state.json to a name that is free, and return that name."""
    first = f"{NAME}.foreign-{seq}"
    names = (first if number == 1 else f"{first}-{number}" for number in count(1))
    kept_as = next(name for name in names if not os.path.lexists(folder / name))
    (folder / NAME).replace(folder / kept_as)
    return kept_as


def changes(truth: JsonObject, foreign: JsonObject | None) -> tuple[str, ...]:
    """Return the paths that another program changed."""
    return tuple(str(one["path"]) for one in difference(truth, foreign))[:MOST_CHANGES] if foreign else ()


def require_known(path: Path | str, document: JsonObject) -> None:
    """Refuse a document that a later version wrote. Raises FutureFile."""
    version = document.get("schema_version")
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise FutureFile(
            f"{path} has version {version}, this program reads {SCHEMA_VERSION}; install the version that wrote it"
        )


def _signature(path: Path) -> Signature:
    """Return what distinguishes this file from any other at its path; None if there is none."""
    try:
        return _signature_of(path.lstat())
    except OSError:
        return None


def _signature_of(found: os.stat_result) -> Signature:
    return found.st_ino, found.st_size, found.st_mtime_ns
