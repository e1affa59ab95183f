"""How far a task's agent has come in its phase."""

import asyncio
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from orchestrator.core.task.pipeline import Stage
from orchestrator.core.task.progress import StageStatus, phase_progress
from orchestrator.core.task.task import Task
from orchestrator.daemon.services.task_index import TaskIndex
from orchestrator.formats.table import DefinitionError
from orchestrator.pipelines.accepted import accepted_pipeline
from orchestrator.settings.settings import Settings
from orchestrator.storage.task_files import TaskFiles
from orchestrator.workspaces.documents import is_match


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentProgress:
    """A task, the step that its agent works on, the share of its phase that is done in percent, and how often a
    checkpoint is taken, in seconds.
    """

    task: Task
    step: str | None
    percent: int
    checkpoint_every: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressService:
    """The use case of looking at a task's agent. It raises NoSuchTask and AmbiguousName."""

    index: TaskIndex
    files: TaskFiles
    settings: Callable[[], Settings]

    async def agent(self, name: str) -> AgentProgress:
        """Return how far the task's agent has come in its phase; in a pipeline without phases, how far the task has.

        A step is one of the plan, or the first document of the stage that is not there yet; a document counts as soon
        as its file is there.
        """
        return await asyncio.to_thread(self._look, await self.index.find(name))

    def _look(self, task: Task) -> AgentProgress:
        step, share = None if task.agent.turn.step is None else str(task.agent.turn.step), 0.0
        wanted = self._documents(task)
        if wanted and step is None:
            missing = [path for path in wanted if not _is_there(task, path)]
            step = PurePosixPath((missing or wanted[-1:])[0]).stem
            share = 1 - len(missing) / len(wanted)
        return AgentProgress(
            task=task, step=step, percent=_percent(task, share), checkpoint_every=self.settings().checkpoint_every
        )

    def _documents(self, task: Task) -> list[str]:
        """Return the documents that the task's stage must leave while it is in progress, in their order."""
        record = task.stages.get(task.stage)
        if record is None or record.status is not StageStatus.IN_PROGRESS or task.source.worktree is None:
            return []
        try:
            stage = accepted_pipeline(self.files, task.id, task.pipeline_digest).stages[task.stage]
        except (DefinitionError, KeyError):
            return []
        return [] if stage.work.verifies else [task.fill(path) for path in documents_of(stage)]


def documents_of(stage: Stage) -> tuple[str, ...]:
    """Return the documents that guards of the stage name, each once."""
    named = (getattr(guard, key) for guard in stage.guards for key in guard.file_keys)
    whole = (path for path in named if "*" not in path)
    return tuple(dict.fromkeys(path for path in whole if any(is_match(path, one) for one in stage.documents)))


def _percent(task: Task, share: float) -> int:
    """Return the progress in the present phase, of whose stages one is done to this share."""
    if task.current_phase is None:
        return task.progress
    stages = sum(record.phase == task.current_phase for record in task.stages.values())
    return int(100 * (phase_progress(task.stages, task.current_phase) + share / stages))


def _is_there(task: Task, path: str) -> bool:
    """Return whether the worktree has a regular file there, and no link on the way to it."""
    place = Path(task.source.worktree or "")
    for part in PurePosixPath(path).parts:
        place /= part
        try:
            mode = place.lstat().st_mode
        except (OSError, ValueError):
            return False
        if stat.S_ISLNK(mode):
            return False
    return stat.S_ISREG(mode)
