"""What the API needs of the daemon."""

from datetime import datetime
from typing import Protocol

from fastapi import Request

from orchestrator.core.task.guards import Evidence
from orchestrator.core.task.task import Task
from orchestrator.daemon.task_factory import Submission
from orchestrator.pipelines.definitions import Definitions
from orchestrator.processes.spec import Usage
from orchestrator.settings import Settings
from orchestrator.storage.provided_secrets import ProvidedSecrets
from orchestrator.storage.store import FolderStore
from orchestrator.supervisor.supervisor import Supervisor
from orchestrator.workspaces.checkpoints import Checkpoints
from orchestrator.workspaces.workspace import Workspace


class Backend(Protocol):
    """The daemon as the API sees it."""

    @property
    def settings(self) -> Settings: ...
    @property
    def store(self) -> FolderStore: ...
    @property
    def supervisor(self) -> Supervisor: ...
    @property
    def checkpoints(self) -> Checkpoints: ...
    @property
    def workspace(self) -> Workspace: ...
    @property
    def provisions(self) -> ProvidedSecrets: ...
    @property
    def definitions(self) -> Definitions:
        """What is declared now; may change while the daemon runs."""

    @property
    def started_at(self) -> datetime: ...

    async def accept(self, submission: Submission, by: str) -> Task:
        """A new task. Raises what intake refuses, and NotCommitted; then nothing is left of it."""

    def clear(self, task: Task, *, whole: bool = False) -> None:
        """Remove the worktree of an ended task and what people provided for it, or all of it. Blocks."""

    def usage(self, task: Task) -> Usage | None:
        """What the task's run takes of the machine; None without a run. Blocks for a look at /proc."""

    def look(self, task: Task) -> Evidence:
        """What there is to see of the task's stage. Blocks; raises WorkspaceError."""

    def redact(self, text: str) -> str:
        """A text as it may leave: every text of an agent goes through here."""


def backend_of(request: Request) -> Backend:
    """The backend that the app was made for."""
    backend: Backend = request.app.state.backend
    return backend
