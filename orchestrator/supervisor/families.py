"""Parents and children as the supervisor's loop sees them: what children cost whose parents have not heard of their
end, and children that a crash left without a parent that awaits them.
"""

from collections.abc import Iterator, Mapping

from orchestrator.core.events.child_events import ChildEnded
from orchestrator.core.events.events import Event
from orchestrator.core.schedule.shared_budget import capped_above, spent_by_all
from orchestrator.core.task.budget import NOTHING_SPENT, Spending
from orchestrator.core.task.children import parent_id
from orchestrator.core.task.task import Task, TaskStatus
from orchestrator.storage.records import TaskSummary


class Families:
    """`live` and `ended` are the supervisor's; `unheard` is what ended children spent, until their parents know."""

    def __init__(self, live: Mapping[str, Task], ended: Mapping[str, TaskStatus]) -> None:
        self.unheard: dict[str, Spending] = {}
        self._live, self._ended = live, ended

    def remember(self, task: TaskSummary) -> None:
        """Take note at start of a task that has ended."""
        if parent_id(task.id) and task.spent:
            self.unheard[task.id] = sum(task.spent.values(), NOTHING_SPENT)

    def forget_heard(self) -> None:
        """Keep of what was remembered only what no parent has heard of, once all tasks are loaded."""
        awaited = {child.task for task in self._live.values() for child in task.children if child.status.is_open}
        for name in self.unheard.keys() - awaited:
            del self.unheard[name]

    def on_decision(self, task: Task, event: Event) -> None:
        """Keep what a child has spent from its end until its parent has taken that in."""
        if isinstance(event, ChildEnded):
            self.unheard.pop(event.task, None)
        parent = self._live.get(task.parent) if task.parent is not None else None
        if parent is not None and task.is_over and parent.awaits(task.id):
            self.unheard[task.id] = task.spending.whole

    def spent_by_all(self, task: Task) -> Spending:
        """Return what a task and all its children have spent, also those that have not ended."""
        return spent_by_all(task, self._live.values(), self.unheard)

    def shares_budget(self, task: Task) -> bool:
        """Return whether a parent's caps bound what the task spends."""
        return task.parent is not None and any(capped_above(task.parent, self._live))

    def orphans(self) -> Iterator[Task]:
        """Yield the live children whose parent has ended, or made no note of them before a crash and went on."""
        for task in self._live.values():
            parent = self._live.get(task.parent or "")
            is_gone = self._ended.get(task.parent or "", TaskStatus.BLOCKED).is_final
            if task.parent is not None and (is_gone if parent is None else not parent.awaits(task.id)):
                yield task
