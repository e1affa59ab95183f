"""The live tasks at one moment, and the groups of them that scheduling looks at."""

from collections.abc import Mapping
from functools import cached_property

from orchestrator.core.task.agent import PAUSED, PauseReason
from orchestrator.core.task.budget import NO_CAPS
from orchestrator.core.task.task import Priority, Task, TaskStatus

ADMISSION_PAUSES = frozenset({PauseReason.RATE_LIMIT, PauseReason.SERVICE, PauseReason.BUDGET, PauseReason.WINDOW})
"""The reasons for which admission pauses a task, and resumes it later."""

_IN_PROGRESS = TaskStatus.IN_PROGRESS  # Python 3.11 takes longer to look up an enum's member than to compare it
_RANK = {Priority.CRITICAL: 0, Priority.HIGH: 1, Priority.NORMAL: 2, Priority.LOW: 3}


class LiveTasks(tuple[Task, ...]):  # noqa: SLOT001 - caches groups of its tasks
    """The live tasks at one moment, and groups of them. Each group is computed once, when it is first needed.

    Every change of a task computes the groups again, so their conditions are written out here for speed.
    """

    @cached_property
    def running(self) -> tuple[Task, ...]:
        """The tasks that hold a slot."""
        return tuple([task for task in self if task.status is _IN_PROGRESS and task.agent.status not in PAUSED])

    @cached_property
    def paused(self) -> tuple[Task, ...]:
        """The tasks that are paused, for any reason."""
        return tuple([task for task in self if task.agent.status in PAUSED])

    @cached_property
    def held(self) -> tuple[Task, ...]:
        """The tasks that are paused until the account or a budget allows another turn."""
        return tuple([task for task in self.paused if task.agent.blocked_by in ADMISSION_PAUSES])

    @cached_property
    def are_bounded(self) -> bool:
        """Whether a parent among the tasks has caps, which bound its children too."""
        return any(task.children and task.policy.caps != NO_CAPS for task in self)

    @cached_property
    def queue(self) -> tuple[Task, ...]:
        """The tasks that wait for a slot, in the order in which they get one: started tasks first."""
        return tuple(sorted([task for task in self if task.wants_slot], key=_queue_order))

    @cached_property
    def ahead(self) -> Mapping[str, int]:
        """The number of tasks ahead of each task in the queue, by its id."""
        return {task.id: position for position, task in enumerate(self.queue)}


def _queue_order(task: Task) -> tuple[object, ...]:
    is_new = task.status is TaskStatus.PENDING
    return is_new, _RANK[task.schedule.priority], task.timing.created_at, task.id
