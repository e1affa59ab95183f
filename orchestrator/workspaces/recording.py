"""Put files that the daemon composed on a task's branch, in one commit of its own."""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from orchestrator.core.family.family import Records
from orchestrator.core.task.task import Task
from orchestrator.redaction.display import escape_text
from orchestrator.workspaces.clone import Clone, WorkspaceError, identity
from orchestrator.workspaces.documents import is_inner
from orchestrator.workspaces.git import Git
from orchestrator.workspaces.workspace import Workspace


def record(workspace: Workspace, task: Task, records: Records, at: datetime) -> None:
    """Commit these files on the task's branch and bring its worktree there; nothing is done if they are there already.

    Nobody may be working in the worktree. Raises WorkspaceError if something is uncommitted there or a path leads out
    of it, and GitError.
    """
    clone = workspace.clone_of(task.id)
    head, _ = clone.take_in(workspace.worktree(task.id), task.id)
    tree = _tree_with(clone, task.id, head, records.files)
    if tree == clone.ref(f"{head}^{{tree}}"):
        return
    name, email = identity(Path(task.source.repo))
    person = f"{name} <{email}> {int(at.timestamp())} +0000"
    body = f"tree {tree}\nparent {head}\nauthor {person}\ncommitter {person}\n\n{records.message.strip()}\n"
    commit = clone.git.run("hash-object", "-t", "commit", "-w", "--stdin", stdin=body.encode()).strip()
    workspace.rebuild(task.id, Path(task.source.repo), task.source.branch, commit)


def _tree_with(clone: Clone, task_id: str, head: str, files: Mapping[str, str]) -> str:
    """Return the tree of a commit with these files added or replaced."""
    index = clone.folder / f"index-records-{task_id}"
    git = Git.own(clone.folder, index=index)
    index.unlink(missing_ok=True)
    try:
        git.run("read-tree", head)
        rows = [
            f"100644 {clone.git.run('hash-object', '-w', '--stdin', stdin=text.encode()).strip()}\t{_safe(path)}\0"
            for path, text in files.items()
        ]
        git.run("update-index", "-z", "--index-info", stdin="".join(rows).encode())
        return git.run("write-tree").strip()
    finally:
        index.unlink(missing_ok=True)


def _safe(path: str) -> str:
    if not is_inner(path):
        raise WorkspaceError(f"{escape_text(path)} is not a path in the repository")
    return path
