"""What most parts of the daemon are built on, and the settings in force."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import structlog

from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.task import Task
from orchestrator.daemon.notifications.service import NotificationService
from orchestrator.daemon.side_loops import SideLoops
from orchestrator.pipelines.accepted import accepted_pipeline
from orchestrator.pipelines.definitions import DefinitionRegistry
from orchestrator.redaction.rules import Redactor
from orchestrator.settings.settings import Settings
from orchestrator.storage.provided_secrets import ProvidedSecrets
from orchestrator.storage.store import FolderStore
from orchestrator.storage.task_files import TaskFiles
from orchestrator.supervisor.inbox import Inbox
from orchestrator.workspaces.workspace import Workspace

log = structlog.get_logger()

QUARANTINE = "quarantine"
FIXED_AT_START = ("data_dir", "socket", "listen", "allowed_hosts", "socket_group", "log", "checkpoint_every")


class CurrentSettings:
    """The settings in force, and the parts that must adopt new ones."""

    def __init__(self, settings: Settings) -> None:
        self.now = settings
        self._adopters: list[Callable[[Settings], None]] = []

    def on_change(self, adopt: Callable[[Settings], None]) -> None:
        """Call `adopt` with the new settings at every change."""
        self._adopters.append(adopt)

    def replace(self, settings: Settings) -> None:
        """Put new settings in force; those that are fixed at start wait for a restart, and the log says so."""
        waiting = [name for name in FIXED_AT_START if getattr(settings, name) != getattr(self.now, name)]
        if waiting:
            log.warning("settings_wait_for_restart", settings=waiting)
        self.now = settings
        for adopt in self._adopters:
            adopt(settings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """What most parts are built on."""

    settings: CurrentSettings
    definitions: DefinitionRegistry
    store: FolderStore
    workspace: Workspace
    secrets: ProvidedSecrets
    inbox: Inbox
    redactor: Redactor
    notifications: NotificationService
    side: SideLoops
    config: Path | None

    @property
    def files(self) -> TaskFiles:
        return self.store.files

    def pipeline_of(self, task: Task) -> Pipeline:
        """Return the pipeline of a task as it was declared when the task was submitted."""
        return accepted_pipeline(self.files, task.id, task.pipeline_digest)
