"""state.json: what a task's journal adds up to, sealed, so that another hand is recognised.

It is replaced by rename and never waited for, and it may fail to be written: the journal has it all.
"""

import os
from itertools import count
from pathlib import Path
from typing import cast

from orchestrator.formats.codec import JsonObject
from orchestrator.formats.files import parsed, read_file, sealed, unsealed, write_atomically
from orchestrator.formats.patch import difference
from orchestrator.storage.migration import SCHEMA_VERSION, migrated
from orchestrator.storage.records import ForeignEdit, StoreError

NAME = "state.json"
MOST_CHANGES = 50

Signature = tuple[int, int, int] | None


class FutureFile(StoreError):
    """A file was written by a later version of this program."""


class StateFile:
    """The state.json of a task that is at work, as it was last written here."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._path = folder, folder / NAME
        self._written = b""
        self._signature: Signature = None

    def adopt(self) -> None:
        """Take what lies there now for ours."""
        self._written, self._signature = read_file(self._path) or b"", _signature(self._path)

    def replace(self, document: JsonObject, journal_bytes: int) -> None:
        """Write it anew. Raises OSError, and then the old one stays."""
        content = sealed({**document, "journal_bytes": journal_bytes})
        write_atomically(self._path, content, durable=False)
        self._written, self._signature = content, _signature(self._path)

    def is_ours(self) -> bool:
        """Whether it was not touched since; a look at its inode tells."""
        return _signature(self._path) == self._signature

    def set_aside_foreign(self, seq: int) -> list[ForeignEdit]:
        """Keep one that another hand wrote; nothing is kept of one that was only deleted, emptied or touched."""
        if self.is_ours():
            return []
        content = read_file(self._path)
        if content in (self._written, b""):
            return []
        kept_as = set_aside(self._folder, seq)
        changed = changes(parsed(self._written) or {}, parsed(content or b""))
        return [ForeignEdit(task_id=self._folder.name, kept_as=kept_as, changed=changed)]


def state_of(folder: Path) -> tuple[JsonObject | None, int, bool]:
    """What state.json says, how many bytes of the journal it covers, and whether another hand wrote it."""
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
    return document, cast(int, document.pop("journal_bytes")), False


def top_of(folder: Path) -> JsonObject | None:
    """What state.json says above the stages in the present format, all that a list shows; None if it is not whole."""
    document = unsealed(read_file(folder / NAME) or b"", before="states")
    require_known(folder / NAME, document or {})
    return document and migrated(document)


def set_aside(folder: Path, seq: int) -> str:
    """Keep what lies in place of state.json under a name that nothing else has; that name."""
    first = f"{NAME}.foreign-{seq}"
    names = (first if number == 1 else f"{first}-{number}" for number in count(1))
    kept_as = next(name for name in names if not os.path.lexists(folder / name))
    (folder / NAME).replace(folder / kept_as)
    return kept_as


def changes(truth: JsonObject, stranger: JsonObject | None) -> tuple[str, ...]:
    """The paths that another hand had changed."""
    return tuple(str(one["path"]) for one in difference(truth, stranger))[:MOST_CHANGES] if stranger else ()


def require_known(path: Path, document: JsonObject) -> None:
    """Refuse what a later version wrote; raises FutureFile."""
    version = document.get("schema_version")
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise FutureFile(
            f"{path} has version {version}, this program reads {SCHEMA_VERSION}; install the version that wrote it"
        )


def _signature(path: Path) -> Signature:
    """What tells a file from any other that lay there before or after; None if there is none."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
