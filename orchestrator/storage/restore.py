"""Restore a task whose journal is lost or damaged from the newest intact state that is left.

That is state.json, the journal before its damage, or a checkpoint, whichever knows most decisions. The daemon makes
later decisions again: every command checks for its effect before it is repeated. The damaged files are set aside, never
deleted.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import cast

import orjson

from orchestrator.core.task.task import Source, Task, Timing
from orchestrator.core.task.ticket import Ticket
from orchestrator.errors import OrchestratorError
from orchestrator.formats.codec import JsonObject, stamp
from orchestrator.formats.files import write_atomically
from orchestrator.storage.checkpoint_files import read_checkpoint
from orchestrator.storage.journal import NAME, checkpoints, recovered_line, whole_lines
from orchestrator.storage.records import StoreError
from orchestrator.storage.state_document import from_document, to_document
from orchestrator.storage.state_file import NAME as STATE
from orchestrator.storage.state_file import FutureFile, sealed_state, state_of
from orchestrator.storage.store import FolderStore


class NothingLost(OrchestratorError):
    """A task can be read as it is."""


class NoStateLeft(StoreError):
    """Neither state.json, nor the journal, nor any checkpoint of a task is intact."""


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
    aside = _write_anew(folder, b"", document, at)
    return RestoredTask(task=store.load(task_id).task, source=source, set_aside=aside)


def last_known(store: FolderStore, task_id: str, at: datetime) -> Task:
    """Return a task as the newest intact state says; one that has nothing but its id and its folder if none is left."""
    folder = store.files.path_of(task_id)
    with suppress(StoreError, OSError):
        return from_document(_newest_state(folder)[1])
    return Task(
        id=task_id,
        title=task_id,
        folder=str(folder),
        ticket=Ticket(key=task_id),
        pipeline="",
        source=Source(repo="", base_branch="", base_commit="", branch=""),
        timing=Timing(created_at=at),
        updated_at=at,
    )


def record(store: FolderStore, task: Task, at: datetime) -> None:
    """Write a task's state as the newest: behind its journal if that can be read, else in place of it.

    Raises StoreError and OSError.
    """
    folder = store.files.path_of(task.id)
    try:
        store.load(task.id, keep_open=True)
        store.release(task.id)
        before = (folder / NAME).read_bytes()
    except FutureFile:
        raise
    except StoreError:
        before = b""
    _write_anew(folder, before, to_document(task), at)


def _write_anew(folder: Path, before: bytes, document: JsonObject, at: datetime) -> tuple[str, ...]:
    """Write a journal that ends with this state, and its state.json; return the names of the files set aside."""
    content = before + orjson.dumps(recovered_line(folder.name, document, stamp(at))) + b"\n"
    lost = () if before else (NAME, STATE)
    aside = tuple(name for name in (set_aside(folder / lost_name) for lost_name in lost) if name)
    write_atomically(folder / NAME, content)
    write_atomically(folder / STATE, sealed_state(folder, document, len(content)))
    return aside


def _newest_state(folder: Path) -> tuple[str, JsonObject]:
    """Return the intact state that knows most decisions, and the file that it is from. Raises NoStateLeft."""
    found = [(_seq(document), name, document) for name, document in _states(folder) if _fits(folder, document)]
    if not found:
        raise NoStateLeft(f"no state of {folder.name} is intact")
    _, source, document = max(found, key=lambda one: one[0])
    return source, document


def _states(folder: Path) -> Iterator[tuple[str, JsonObject]]:
    """Yield every intact state: state.json, what the whole lines of the journal add up to, and the checkpoints."""
    document, _, foreign = state_of(folder)
    if document is not None and not foreign:
        yield STATE, document
    with suppress(StoreError, OSError):
        yield NAME, whole_lines(folder)
    for path in checkpoints(folder):
        kept = read_checkpoint(path)
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


def set_aside(path: Path) -> str:
    """Rename a file, if it is there, and return its new name; empty if it is not there. Raises OSError."""
    if not os.path.lexists(path):
        return ""
    names = (f"{path.name}.lost-{number}" for number in count(1))
    name = next(name for name in names if not os.path.lexists(path.with_name(name)))
    path.rename(path.with_name(name))
    return name
