"""Recovering a task whose files cannot be read, cancelling it, or telling a person how to begin it again.

Where no state is left, the task's artifacts and commits show how far it was. A person submits the ticket again from
there: nobody can say what the daemon would have to know to continue.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from orchestrator.core.task.checkpoint import infer_task
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.task import Task, TaskStatus
from orchestrator.errors import OrchestratorError
from orchestrator.formats.table import DefinitionError
from orchestrator.pipelines.accepted import PIPELINE_FILE, accepted_pipeline, digest_of
from orchestrator.redaction.display import escape_text
from orchestrator.storage.restore import NoStateLeft, NothingLost, RestoredTask, record, restore, set_aside
from orchestrator.storage.store import FolderStore
from orchestrator.workspaces.workspace import Workspace


class NoPipelineLeft(OrchestratorError):
    """The pipeline of a task is lost, and none that is declared now can take its place."""


def recover(store: FolderStore, task_id: str, declared: Mapping[str, Pipeline], at: datetime) -> RestoredTask:
    """Restore a task whose files cannot be read; a lost pipeline is replaced by the one declared under its name now.

    Raises NothingLost if they can be read, NoStateLeft with advice if nothing intact is left, NoPipelineLeft, and also
    StoreError and OSError.
    """
    try:
        restored = restore(store, task_id, at)
    except NoStateLeft:
        raise NoStateLeft(_advice(store, task_id, declared)) from None
    except NothingLost:
        restored = RestoredTask(task=store.load(task_id).task, source="its journal", set_aside=())
        if _has_pipeline(store, restored.task):
            raise
    task = restored.task
    if _has_pipeline(store, task):
        return restored
    pipeline = declared.get(task.pipeline)
    if pipeline is None or task.pipeline_digest not in {"", digest_of(pipeline.text)}:
        path = escape_text(str(store.files.path_of(task_id, PIPELINE_FILE)))
        raise NoPipelineLeft(
            f"{path} cannot be read, and the pipeline {task.pipeline!r} is not declared as it was when the ticket was "
            "accepted; restore the file and try again, or cancel the task"
        )
    return replace(restored, set_aside=(*restored.set_aside, *_replace_pipeline(store, task_id, pipeline)))


def cancel_unreadable(store: FolderStore, known: Task, declared: Mapping[str, Pipeline], at: datetime) -> Task:
    """Write a task as cancelled whatever of its files can be read; what cannot is set aside.

    `known` is the task as far as it is known. Raises StoreError and OSError.
    """
    worktree = Workspace(store.data_dir).worktree(known.id)  # what is in it is saved before it is removed
    source = replace(known.source, worktree=str(worktree)) if worktree.is_dir() else known.source
    seq = known.seq + 1
    task = replace(known, status=TaskStatus.CANCELLED, block_reason=None, seq=seq, updated_at=at, source=source)
    if not store.holds(task.id):
        return task
    if not _has_pipeline(store, task):
        pipeline = declared.get(task.pipeline) or next(iter(declared.values()))
        _replace_pipeline(store, task.id, pipeline)
        task = replace(task, pipeline_digest=digest_of(pipeline.text))
    record(store, task, at)
    return task


def _has_pipeline(store: FolderStore, task: Task) -> bool:
    try:
        accepted_pipeline(store.files, task.id, task.pipeline_digest)
    except DefinitionError:
        return False
    return True


def _replace_pipeline(store: FolderStore, task_id: str, pipeline: Pipeline) -> tuple[str, ...]:
    """Write a task's pipeline, and return the name of the damaged file that was set aside, if there was one."""
    aside = set_aside(store.files.path_of(task_id, PIPELINE_FILE))
    store.files.write(task_id, PIPELINE_FILE, pipeline.text.encode())
    return (aside,) if aside else ()


def _advice(store: FolderStore, task_id: str, declared: Mapping[str, Pipeline]) -> str:
    """Say how far the task was and where its work is."""
    names = {entry.name for entry in store.files.entries(task_id, ("*",))}
    commits = 0
    try:
        git, refs = Workspace(store.data_dir).git_of(task_id), f"refs/orchestrator/{task_id}"
        commits = int(git.run("rev-list", "--count", f"{refs}/base..{refs}/head", "--"))
        where = f"`git fetch {escape_text(str(git.folder))} {refs}/head:{task_id}` brings them into your repository"
    except OrchestratorError as error:
        where = f"its commits cannot be read ({error})"
    try:
        pipeline = accepted_pipeline(store.files, task_id, "")
    except DefinitionError:
        pipeline = declared["full"]
    stage = infer_task(pipeline.stages.values(), names, commits)
    ticket = escape_text(str(store.files.path_of(task_id, "ticket.json")))
    return (
        f"no state of {task_id} is intact; judging by its files it had reached {stage}, with {commits} commits; "
        f"{where}; submit the ticket again (it is in {ticket}); --base says where to start"
    )
