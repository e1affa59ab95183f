"""What the outbox of callbacks needs of the daemon: the words of each task's family, and its repository's addresses."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path

from orchestrator.core.events.callback import Callback, CallbackKind
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.task import Task
from orchestrator.errors import NoSuchTask, OrchestratorError
from orchestrator.integrations.callbacks.destinations import INSTRUCTIONS, TOKEN, Destination, Destinations
from orchestrator.integrations.callbacks.outbox import FOLDER, Outbox, OutboxParts
from orchestrator.settings.environment import environment_with_secrets
from orchestrator.settings.settings import Settings
from orchestrator.storage.task_files import TaskFiles
from orchestrator.workspaces.documents import TreeFiles
from orchestrator.workspaces.evaluation.tree import Tree
from orchestrator.workspaces.workspace import Workspace

KEPT_INSTRUCTIONS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class CallbackSources:
    """Where the daemon finds what callbacks say and where they go; all but `pipeline_of` block."""

    settings: Callable[[], Settings]
    pipeline_of: Callable[[Task], Pipeline]
    workspace: Workspace
    load: Callable[[str], Task]
    note_of: Callable[[Task], str]

    def outbox(
        self, files: TaskFiles, data_dir: Path, redact: Callable[[str], str], now: Callable[[], datetime]
    ) -> Outbox:
        """Return an outbox that asks these sources and keeps its notes below the data folder."""

        def load(task_id: str) -> Task:
            if not files.path_of(task_id).exists():
                raise NoSuchTask(f"there is no task {task_id}")
            return self.load(task_id)

        return Outbox(
            OutboxParts(
                files=files,
                folder=data_dir / FOLDER,
                has_callbacks=self.has_callbacks,
                owed=self.owed,
                destination=self.destination,
                load=load,
                redact=redact,
                clock=now,
            )
        )

    def has_callbacks(self, task: Task) -> bool:
        """Return whether the task's family has callbacks; one whose pipeline is lost has none."""
        try:
            return self.pipeline_of(task).family.callbacks is not None
        except OrchestratorError:
            return False

    def owed(self, task: Task) -> tuple[Callback, ...]:
        """Return what is to be told about a task as it is now. Raises OrchestratorError and OSError."""
        compose = self.pipeline_of(task).family.callbacks
        if compose is None:
            return ()
        return compose(task, _WorkOnBranch(self.workspace, task), self.note_of(task))

    def destination(self, task: Task, kind: CallbackKind) -> Destination | None:
        """Return where a task's callbacks go. Raises ValueError, OrchestratorError and OSError."""
        given = self.settings().callbacks
        urls = {CallbackKind.TASK: given.task, CallbackKind.PROGRESS: given.progress}
        settings = Destinations(urls=urls, token=environment_with_secrets().get(TOKEN, "").strip(), hosts=given.hosts)
        return settings.of(kind, "" if urls[kind] or not given.hosts else self._instructions(task))

    def _instructions(self, task: Task) -> str:
        """Return the CLAUDE.md that the work started from, which none of its agents has written."""
        while task.parent is not None:
            task = self.load(task.parent)
        return _instructions(self.workspace, task.id, task.source.base_commit)


@dataclass(frozen=True, slots=True)
class _WorkOnBranch:
    """The files of a task as its newest commit has them; a task without a workspace has none."""

    workspace: Workspace
    task: Task

    def artifact(self, name: str) -> str | None:
        """As `Files.artifact`."""
        files = self._files()
        return files.artifact(name) if files else None

    def committed(self, path: str) -> str | None:
        """As `Files.committed`."""
        files = self._files()
        return files.committed(path) if files else None

    def names(self, folder: str) -> tuple[str, ...]:
        """As `Files.names`."""
        files = self._files()
        return files.names(folder) if files else ()

    def _files(self) -> TreeFiles | None:
        try:
            git = self.workspace.git_of(self.task.id)
        except OrchestratorError:
            return None
        return TreeFiles(git, self.task.source.commit, Path(self.task.folder))


@lru_cache(maxsize=KEPT_INSTRUCTIONS)
def _instructions(workspace: Workspace, task_id: str, commit: str) -> str:
    return Tree(git=workspace.git_of(task_id), commit=commit).text(INSTRUCTIONS) or ""
