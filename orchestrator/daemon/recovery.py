"""A cold start: a task whose journal is lost or damaged is made whole again from the newest state that is left.

That is state.json or a checkpoint, whichever knows more decisions. What was decided later is decided again, for every
command looks for its effect first. The old files are set aside. Where no state is left, what the task left behind tells
how far it was, and a person begins anew from there: nobody can say what the daemon would have to know to go on.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import cast

import orjson

from orchestrator.core.task.checkpoint import infer_task
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.task import Task
from orchestrator.errors import OrchestratorError
from orchestrator.formats.codec import JsonObject, stamp
from orchestrator.formats.files import read_file, sealed, unsealed, write_atomically
from orchestrator.redaction.display import escape_text
from orchestrator.storage.journal import NAME, checkpoints
from orchestrator.storage.records import StoreError
from orchestrator.storage.state_document import from_document
from orchestrator.storage.state_file import NAME as STATE
from orchestrator.storage.state_file import FutureFile, state_of
from orchestrator.storage.store import FolderStore
from orchestrator.workspaces.workspace import Workspace

RECOVERED = "Recovered"
"""What the journal of such a task begins with; no decision, but the number of the last one that is known."""


class NothingLost(OrchestratorError):
    """A task can be read as it is."""


class NoStateLeft(OrchestratorError):
    """Neither state.json nor any checkpoint of a task is whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """A task made whole again, what it was made from, and the names of the files that were set aside."""

    task: Task
    source: str
    set_aside: tuple[str, ...]


def recover(store: FolderStore, task_id: str, pipeline: Pipeline, at: datetime) -> Recovered:
    """Make a task whole again whose files cannot be read.

    Raises NothingLost where they can be, NoStateLeft where nothing whole is left, StoreError and OSError.
    """
    folder = store.files.path_of(task_id)
    try:
        store.load(task_id)
    except FutureFile:
        raise
    except StoreError:
        source, document = _newest(folder, pipeline, store.data_dir)
    else:
        raise NothingLost(f"{task_id} can be read as it is; nothing was changed")
    line = orjson.dumps(_first_line(task_id, document, at)) + b"\n"
    aside = tuple(_set_aside(folder / name) for name in (NAME, STATE) if (folder / name).exists())
    write_atomically(folder / NAME, line)
    write_atomically(folder / STATE, sealed({**document, "journal_bytes": len(line)}))
    return Recovered(task=store.load(task_id).task, source=source, set_aside=aside)


def _newest(folder: Path, pipeline: Pipeline, data_dir: Path) -> tuple[str, JsonObject]:
    """The state that knows most decisions, and the file that it is from."""
    found = [(_seq(document), name, document) for name, document in _states(folder) if _fits(folder, document)]
    if not found:
        raise NoStateLeft(_epitaph(folder, pipeline, data_dir))
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


def _first_line(task_id: str, document: JsonObject, at: datetime) -> JsonObject:
    return {
        "seq": document["seq"],
        "timestamp": stamp(at),
        "task_id": task_id,
        "type": "event",
        "from": document["stage"],
        "to": document["stage"],
        "trigger": RECOVERED,
        "metadata": {},
        "event": {"at": stamp(at)},
        "change": [],
    }


def _set_aside(path: Path) -> str:
    names = (f"{path.name}.lost-{number}" for number in count(1))
    name = next(name for name in names if not path.with_name(name).exists())
    path.rename(path.with_name(name))
    return name


def _epitaph(folder: Path, pipeline: Pipeline, data_dir: Path) -> str:
    """How far a task was and where its work is, for whoever begins it anew."""
    names = {path.name for path in folder.iterdir() if path.is_file()}
    commits = 0
    try:
        git, refs = Workspace(data_dir).git_of(folder.name), f"refs/orchestrator/{folder.name}"
        commits = int(git.run("rev-list", "--count", f"{refs}/base..{refs}/head", "--"))
        where = f"`git fetch {escape_text(str(git.folder))} {refs}/head:{folder.name}` brings them into your repository"
    except OrchestratorError as error:
        where = f"its commits cannot be read ({error})"
    stage = infer_task(pipeline.stages.values(), names, commits)
    return (
        f"no state of {folder.name} is whole; by what it left it had reached {stage}, with {commits} commits; {where}; "
        f"submit the ticket again (it is in {escape_text(str(folder / 'ticket.json'))}); --base says where to start"
    )
