"""How far a task's agent has come in its phase."""

from collections.abc import Callable
from dataclasses import dataclass

from orchestrator.core.task.progress import phase_progress
from orchestrator.core.task.task import Task
from orchestrator.daemon.services.task_index import TaskIndex
from orchestrator.settings import Settings


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
    settings: Callable[[], Settings]

    async def agent(self, name: str) -> AgentProgress:
        """Return how far the task's agent has come; in a pipeline without phases, the task."""
        task = await self.index.find(name)
        phase, step = task.current_phase, task.agent.turn.step
        return AgentProgress(
            task=task,
            step=None if step is None else str(step),
            percent=task.progress if phase is None else int(100 * phase_progress(task.stages, phase)),
            checkpoint_every=self.settings().checkpoint_every,
        )
