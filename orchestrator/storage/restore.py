"""Restore a task whose journal is lost or damaged from the newest intact state that is left.

That is state.json or a checkpoint, whichever knows more decisions. The daemon makes later decisions again: every
command checks for its effect before it is repeated. The damaged files are set aside, never deleted.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import cast

import orjson

from orchestrator.core.task.task import Task
from orchestrator.errors import OrchestratorError
from orchestrator.formats.codec import JsonObject, stamp
from orchestrator.formats.files import read_file, sealed, unsealed, write_atomically
from orchestrator.storage.journal import NAME, checkpoints, recovered_line
from orchestrator.storage.records import StoreError
from orchestrator.storage.state_document import from_document
from orchestrator.storage.state_file import BELOW, FutureFile, state_of
from orchestrator.storage.state_file import NAME as STATE
from orchestrator.storage.store import FolderStore


class NothingLost(OrchestratorError):
    """A task can be read as it is."""


class NoStateLeft(OrchestratorError):
    """Neither state.json nor any checkpoint of a task is intact."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredTask:
    """A task that can be read again, the file it was restored from, and the names of the files set aside."""

    task: Task
    source: str
    set_aside: tuple[str, ...]


def restore(store: FolderStore, task_id: str, at: datetime) -> RestoredTask:
    """Write a new journal and state.json for a task whose files cannot be read.

    Raises NothingLost if they can be read, NoStateLeft if nothing intact is left, StoreError and OSError.
    """
    folder = store.files.path_of(task_id)
    try:
        store.load(task_id)
    except FutureFile:
        raise
    except StoreError:
        source, document = _newest_state(folder)
    else:
        raise NothingLost(f"{task_id} can be read as it is; nothing was changed")
    line = orjson.dumps(recovered_line(task_id, document, stamp(at))) + b"\n"
    aside = tuple(_set_aside(folder / name) for name in (NAME, STATE) if (folder / name).exists())
    write_atomically(folder / NAME, line)
    write_atomically(folder / STATE, sealed({**document, "journal_bytes": len(line)}, below=BELOW))
    return RestoredTask(task=store.load(task_id).task, source=source, set_aside=aside)


def _newest_state(folder: Path) -> tuple[str, JsonObject]:
    """Return the intact state that knows most decisions, and the file that it is from. Raises NoStateLeft."""
    found = [(_seq(document), name, document) for name, document in _states(folder) if _fits(folder, document)]
    if not found:
        raise NoStateLeft(f"no state of {folder.name} is intact")
    _, source, document = max(found, key=lambda one: one[0])
    return source, document


def _states(folder: Path) -> Iterator[tuple[str, JsonObject]]:
    document, _, foreign = state_of(folder)
    if document is not None and not foreign:
        yield STATE, document
    for path in checkpoints(folder):
        kept = unsealed(read_file(path) or b"")
        if kept is not None and isinstance(kept.get("state"), dict):
            yield f"{path.parent.name}/{path.name}", cast(JsonObject, kept["state"])


def _fits(folder: Path, document: JsonObject) -> bool:
    try:
        return from_document(document).id == folder.name
    except (KeyError, TypeError, ValueError, OverflowError):
        return False


def _seq(document: JsonObject) -> int:
    seq = document.get("seq")
    return seq if isinstance(seq, int) else 0


def _set_aside(path: Path) -> str:
    names = (f"{path.name}.lost-{number}" for number in count(1))
    name = next(name for name in names if not path.with_name(name).exists())
    path.rename(path.with_name(name))
    return name
