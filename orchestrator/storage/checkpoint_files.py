"""The checkpoints of a task on disk: `checkpoints/000012.json`, sealed, each with the task's state at that time.

A lost state.json is rebuilt from that state and the journal; the rest is for people and for restoring work.
"""

from pathlib import Path
from typing import cast

from orchestrator.core.task.checkpoint import Checkpoint, superseded_checkpoints
from orchestrator.formats.codec import Json, JsonObject, from_json, to_json
from orchestrator.formats.files import make_private, read_file, sealed, unsealed, write_atomically
from orchestrator.storage.journal import CHECKPOINTS, checkpoints, seal_key
from orchestrator.storage.records import NoSuchCheckpoint

BELOW = "journal_bytes"
"""The first key after those of the checkpoint itself."""


def write(folder: Path, checkpoint: Checkpoint, state: JsonObject, journal_bytes: int) -> None:
    """Keep a checkpoint of the task in `folder`, and delete those that it supersedes. Raises OSError."""
    earlier = _read(_path(folder, checkpoint.number))
    pinned = checkpoint.pinned or (earlier is not None and earlier.pinned)
    _put(folder, checkpoint, pinned, {BELOW: journal_bytes, "state": state})
    for number in superseded_checkpoints(kept(folder)):
        _path(folder, number).unlink(missing_ok=True)


def kept(folder: Path) -> list[Checkpoint]:
    """Return every readable checkpoint of the task in `folder`, newest first."""
    found = (_read(path) for path in checkpoints(folder))
    return sorted((one for one in found if one), key=lambda one: one.number, reverse=True)


def found(folder: Path, number: int) -> Checkpoint:
    """Return the checkpoint of that number. Raises NoSuchCheckpoint."""
    checkpoint = _read(_path(folder, number))
    if checkpoint is None:
        raise NoSuchCheckpoint(folder.name, number)
    return checkpoint


def pin(folder: Path, number: int, *, pinned: bool) -> Checkpoint:
    """Keep a checkpoint for good, or no longer than the others. Raises NoSuchCheckpoint and OSError."""
    checkpoint = found(folder, number)
    whole = read_checkpoint(_path(folder, number)) or {}
    return _put(folder, checkpoint, pinned, {name: whole[name] for name in (BELOW, "state") if name in whole})


def _put(folder: Path, checkpoint: Checkpoint, pinned: bool, rest: JsonObject) -> Checkpoint:
    document = cast(JsonObject, to_json(checkpoint)) | {"pinned": pinned}
    make_private(folder / CHECKPOINTS)
    write_atomically(_path(folder, checkpoint.number), sealed({**document, **rest}, key=seal_key(folder)))
    return from_json(Checkpoint, document)


def _path(folder: Path, number: int) -> Path:
    return folder / CHECKPOINTS / f"{number:06d}.json"


def _read(path: Path) -> Checkpoint | None:
    """Return a checkpoint without its state; None if the file is missing, damaged, or not a checkpoint."""
    try:
        document: Json = read_checkpoint(path, before=BELOW)
        return from_json(Checkpoint, document)
    except (OSError, TypeError, ValueError):
        return None


def read_checkpoint(path: Path, before: str = "") -> JsonObject | None:
    """Return what a checkpoint's file says, also one that an earlier version sealed without a key; with `before`, only
    the part above that key. None if it is missing or damaged.
    """
    content = read_file(path) or b""
    return unsealed(content, before=before, key=seal_key(path.parent.parent)) or unsealed(content, before=before)
