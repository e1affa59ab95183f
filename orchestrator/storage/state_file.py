"""state.json: the state that a task's journal adds up to, sealed, so that a write by another program is recognised.

It is replaced by rename without waiting for the disk, and the write may fail: the journal has everything.
"""

import os
from pathlib import Path
from typing import cast

from orchestrator.formats.codec import JsonObject
from orchestrator.formats.diffs.patch import difference
from orchestrator.formats.files import (
    free_name,
    parsed,
    read_beginning,
    read_file,
    sealed,
    unsealed,
    unsealed_top,
    write_atomically,
)
from orchestrator.storage.journal import DamagedJournal, Replayed, replay, replay_from, seal_key
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
        content = sealed_state(self._folder, document, journal_bytes)
        if content == self._written and self.is_ours():
            return
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


def sealed_state(folder: Path, document: JsonObject, journal_bytes: int) -> bytes:
    """Return a task's state as its state.json holds it. Raises OSError."""
    return sealed({**document, "journal_bytes": journal_bytes}, below=BELOW, key=seal_key(folder))


def state_of(folder: Path) -> tuple[JsonObject | None, int, bool]:
    """Return what state.json says, how many bytes of the journal it covers, and whether another program wrote it.

    One of another task is as foreign. One without a key in its seal, as earlier versions wrote it, counts if the
    journal proves all of it.
    """
    content = read_file(folder / NAME)
    if content is None:
        return None, 0, True
    if not content.strip(b"\0"):
        return None, 0, False  # never written, or its blocks never reached the disk
    document, is_signed = unsealed(content, key=seal_key(folder)), True
    if document is None:
        document, is_signed = unsealed(content), False
    if document is None:
        document = parsed(content)
        require_known(folder / NAME, document or {})
        return document, 0, True
    require_known(folder / NAME, document)
    covered = cast(int, document.pop("journal_bytes"))
    is_own = document.get("task_id") == folder.name
    return document, covered, not (is_own and (is_signed or agrees(folder, document, covered)))


def state_and_journal(folder: Path) -> tuple[Replayed, JsonObject | None, bool]:
    """Return what a task's files add up to, what state.json says, and whether that is set aside.

    It is if another program wrote it, or if the journal, which is believed first, is whole and contradicts it. Raises
    StoreError.
    """
    state, covered, foreign = state_of(folder)
    if state is None or foreign:
        return replay(folder), state, foreign
    if agrees(folder, state, covered) is False:
        return replay_from(folder, {}, 0), state, True
    return _best(folder, state, covered), state, False


def agrees(folder: Path, state: JsonObject, covered: int) -> bool | None:
    """Return whether the journal, read from its first line on, adds up to this state; None if it is not whole.

    Telemetry is not in the journal, and paths differ in a data folder that was moved.
    """
    try:
        continued, alone = replay_from(folder, state, covered), replay_from(folder, {}, 0)
    except StoreError:
        return None
    if continued.is_short or continued.is_damaged or alone.is_damaged:
        return None
    ours, truth = continued.document, alone.document
    was_moved = ours.get("workspace_dir") != truth.get("workspace_dir")
    ignored = {"agent", "workspace_dir", "worktree"} if was_moved else {"agent"}
    return all(ours.get(name) == truth.get(name) for name in (ours.keys() | truth.keys()) - ignored)


def renew_seal(folder: Path) -> None:
    """Seal a state.json that an earlier version wrote with the key, if the journal proves it. Raises OSError."""
    document = unsealed(read_file(folder / NAME) or b"")
    if document is None:
        return
    covered = cast(int, document.pop("journal_bytes"))
    if agrees(folder, document, covered):
        write_atomically(folder / NAME, sealed_state(folder, document, covered), durable=False)


def top_of(folder: str) -> JsonObject | None:
    """Return the part of state.json above the stages in the current format, which is all that a list shows.

    A list of ten thousand tasks is read at each start, so only the beginning of the file is read and checked. None if
    the file is damaged.
    """
    path = f"{folder}/{NAME}"
    key = seal_key(folder)
    document = unsealed_top(read_beginning(path, LARGEST_TOP), below=BELOW, key=key)
    if document is None:
        document = unsealed(read_file(Path(path)) or b"", before=BELOW, key=key)
    require_known(path, document or {})
    return document and migrated(document)


def set_aside(folder: Path, seq: int) -> str:
    """Rename the present state.json to a name that is free, and return that name."""
    kept_as = free_name(folder, f"{NAME}.foreign-{seq}")
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


def _best(folder: Path, state: JsonObject, covered: int) -> Replayed:
    """Return what has most decisions: the journal continued from the state, or the journal alone.

    They differ only where the state does not belong to the journal, or part of the journal is lost.
    """
    try:
        found = replay_from(folder, state, covered)
    except DamagedJournal:
        return replay(folder)
    if not found.is_damaged:
        return found
    try:
        return max(found, replay(folder), key=lambda one: one.seq)
    except DamagedJournal:
        return found
