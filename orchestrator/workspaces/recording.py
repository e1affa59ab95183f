"""Put files that the daemon composed on a task's branch, in one commit of its own."""

from datetime import datetime
from pathlib import Path

from orchestrator.core.family.family import Records
from orchestrator.core.task.task import Task
from orchestrator.redaction.display import escape_text
from orchestrator.workspaces.clone import WorkspaceError, identity
from orchestrator.workspaces.documents import is_inner
from orchestrator.workspaces.replay import store_commit
from orchestrator.workspaces.workspace import Workspace


def record(workspace: Workspace, task: Task, records: Records, at: datetime) -> None:
    """Commit these files on the task's branch and bring its worktree there; nothing is done if they are there already.

    Nobody may be working in the worktree. Raises WorkspaceError if something is uncommitted there or a path leads out
    of it, and GitError.
    """
    clone = workspace.clone_of(task.id)
    head, _ = clone.take_in(workspace.worktree(task.id), task.id)
    entries = {_safe(path): f"100644 {clone.store_blob(text.encode())}" for path, text in records.files.items()}
    tree = clone.tree_with(head, entries, f"records-{task.id}")
    if tree == clone.ref(f"{head}^{{tree}}"):
        return
    name, email = identity(Path(task.source.repo))
    person = f"{name} <{email}> {int(at.timestamp())} +0000"
    rest = f"author {person}\ncommitter {person}\n\n{records.message.strip()}\n"
    commit = store_commit(clone.git, tree, head, rest.encode())
    workspace.rebuild(task.id, Path(task.source.repo), task.source.branch, commit)


def _safe(path: str) -> str:
    if not is_inner(path):
        raise WorkspaceError(f"{escape_text(path)} is not a path in the repository")
    return path
