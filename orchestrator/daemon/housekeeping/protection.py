"""What must stay although it is old: work that exists nowhere else. Asked of git only for what is due."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from orchestrator.core.retention.plan import Action, Item, Removal
from orchestrator.core.retention.policy import Kind
from orchestrator.core.task.task import Task
from orchestrator.daemon.sources.copy import copy_at
from orchestrator.daemon.sources.service import FOLDER as SOURCES
from orchestrator.errors import OrchestratorError
from orchestrator.integrations.credentials import Credentials
from orchestrator.storage.store import FolderStore
from orchestrator.workspaces.clone import Clone, WorkspaceError
from orchestrator.workspaces.removal.unmerged import (
    tasks_of_clones,
    unmerged_checkpoints,
    unmerged_clone,
    unmerged_earlier,
    unmerged_head,
    unmerged_worktree,
)
from orchestrator.workspaces.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class Protection:
    """Looks at the work of ended tasks; every method blocks."""

    store: FolderStore
    workspace: Workspace
    login_of: Callable[[str], Credentials | None]

    def reason(self, removal: Removal) -> str:
        """Return why an item must stay as it is; empty if what is planned may be done."""
        item = removal.item
        if removal.action is Action.COMPRESS:
            return ""
        try:
            if removal.action is Action.ARCHIVE:
                return unmerged_worktree(self.workspace, item.task, self._task(item).source)
            match item.kind:
                case Kind.WORKTREES:
                    return unmerged_worktree(self.workspace, item.task, self._task(item).source)
                case Kind.CHECKPOINTS:
                    return self._checkpoints(self._task(item))
                case Kind.TASKS:
                    return self.of_task(self._task(item))
                case Kind.CLONES:
                    return self._clone(item)
                case Kind.SOURCES:
                    return copy_at(self.store.data_dir / item.name, self.login_of).only_here()
                case _:
                    return ""
        except (OrchestratorError, OSError) as error:
            return f"it cannot be looked at: {error}"

    def of_task(self, task: Task) -> str:
        """Return what work of a task exists nowhere else; empty if there is none."""
        try:
            clone = self.workspace.clone_of(task.id)
        except WorkspaceError:
            return unmerged_worktree(self.workspace, task.id, task.source)
        try:
            return (
                unmerged_worktree(self.workspace, task.id, task.source)
                or unmerged_head(clone, task.id, task.source)
                or unmerged_earlier(clone, task)
                or self._checkpoints(task)
            )
        except (OrchestratorError, OSError) as error:
            return f"it cannot be looked at: {error}"

    def _task(self, item: Item) -> Task:
        return self.store.load(item.task).task

    def _checkpoints(self, task: Task) -> str:
        return unmerged_checkpoints(self.workspace, task, self.store.checkpoints(task.id))

    def _clone(self, item: Item) -> str:
        name = Path(item.name).name
        tasks = [one for one in tasks_of_clones(self.store.data_dir).get(name, ()) if self.store.holds(one)]
        borrowing = [one for one in tasks if self.workspace.worktree(one).exists()]
        if borrowing:
            return f"the worktree of {borrowing[0]} borrows from it"
        if not tasks:
            return ""
        repo = Path(self.store.load(tasks[0]).task.source.repo)
        is_removed = repo.parent == self.store.data_dir / SOURCES and not repo.exists()
        clone = Clone(self.store.data_dir / item.name)
        return unmerged_clone(clone, repo, tasks, lambda task: self.store.load(task).task, is_removed=is_removed)
