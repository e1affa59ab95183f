"""Recovering a task whose files cannot be read, or telling a person how to begin it again.

Where no state is left, the task's artifacts and commits show how far it was. A person submits the ticket again from
there: nobody can say what the daemon would have to know to continue.
"""

from datetime import datetime

from orchestrator.core.task.checkpoint import infer_task
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.errors import OrchestratorError
from orchestrator.redaction.display import escape_text
from orchestrator.storage.restore import NoStateLeft, RestoredTask, restore
from orchestrator.storage.store import FolderStore
from orchestrator.workspaces.workspace import Workspace


def recover(store: FolderStore, task_id: str, pipeline: Pipeline, at: datetime) -> RestoredTask:
    """Restore a task whose files cannot be read.

    Raises NothingLost if they can be read, NoStateLeft with advice if nothing intact is left, StoreError and OSError.
    """
    try:
        return restore(store, task_id, at)
    except NoStateLeft:
        raise NoStateLeft(_advice(store, task_id, pipeline)) from None


def _advice(store: FolderStore, task_id: str, pipeline: Pipeline) -> str:
    """Say how far the task was and where its work is."""
    names = {entry.name for entry in store.files.entries(task_id, ("*",))}
    commits = 0
    try:
        git, refs = Workspace(store.data_dir).git_of(task_id), f"refs/orchestrator/{task_id}"
        commits = int(git.run("rev-list", "--count", f"{refs}/base..{refs}/head", "--"))
        where = f"`git fetch {escape_text(str(git.folder))} {refs}/head:{task_id}` brings them into your repository"
    except OrchestratorError as error:
        where = f"its commits cannot be read ({error})"
    stage = infer_task(pipeline.stages.values(), names, commits)
    ticket = escape_text(str(store.files.path_of(task_id, "ticket.json")))
    return (
        f"no state of {task_id} is intact; judging by its files it had reached {stage}, with {commits} commits; "
        f"{where}; submit the ticket again (it is in {ticket}); --base says where to start"
    )
