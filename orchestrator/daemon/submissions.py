"""The way in: a submission is fetched if it names a ticket, taken in by intake, and handed to the loop."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from orchestrator.core.events.events import TaskSubmitted
from orchestrator.core.task.task import Task
from orchestrator.daemon.task_factory import AlreadyActive, Submission, TaskFactory
from orchestrator.integrations.tickets.text.ticket import Requirement
from orchestrator.integrations.tickets.trackers import Trackers


class TaskLoop(Protocol):
    """Where accepted tasks go."""

    @property
    def tasks(self) -> Mapping[str, Task]:
        """Every task that has not ended, and some that have just ended."""

    async def submit(self, event: TaskSubmitted) -> Task:
        """Accept a new task. Raises NotCommitted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submissions:
    """Accepts submissions; used from the loop's own event loop. `with_forge` says where a task's change will go."""

    trackers: Trackers
    intake: TaskFactory
    loop: TaskLoop
    with_forge: Callable[[Task], Task]
    clock: Callable[[], datetime]
    one_by_one: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def accept(self, submission: Submission, by: str) -> Task:
        """The new task. Raises what trackers, intake and the loop refuse; then nothing is left of it."""
        requirement = await self.trackers.requirement(submission.text)
        task = await asyncio.to_thread(self.intake.take, submission, requirement, self.clock())
        try:
            task = await asyncio.to_thread(self.with_forge, task)
            async with self.one_by_one:
                if requirement.tracker is not None and not submission.again:
                    self._refuse_a_second(requirement, task)
                return await self.loop.submit(TaskSubmitted(at=self.clock(), task=task, by=by))
        except Exception:
            with suppress(OSError):
                await asyncio.to_thread(self.intake.files.delete, task.id)
            raise

    def _refuse_a_second(self, requirement: Requirement, new: Task) -> None:
        """Two tasks of one ticket would do the same work; what a person hands in as a text is a ticket of its own."""
        for task in self.loop.tasks.values():
            same = (task.ticket.source, task.ticket.key, task.source.repo) == (
                new.ticket.source,
                new.ticket.key,
                new.source.repo,
            )
            if same and not task.status.is_final:
                raise AlreadyActive(
                    f"{requirement.url} has a task in this repository already: {task.id} ({task.status.value}); "
                    f"look at it with `orchestrator show {task.id}`, or submit with --again for a second one"
                )
