"""Guards that judge how much of a budget was used."""

from dataclasses import dataclass
from typing import ClassVar

from orchestrator.core.task.guards import Evidence, Guard
from orchestrator.core.task.task import Task
from orchestrator.core.task.task_policy import Autonomy


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetLeft(Guard):
    """A budget allows one more try."""

    budget_keys: ClassVar[tuple[str, ...]] = ("name",)
    name: str

    def missing(self, task: Task, evidence: Evidence) -> tuple[str, ...]:
        """Return that nothing is left of the budget."""
        del evidence
        return _exceeded(task, self.name, allowed=-1)

    def describe(self) -> str:
        return f"{self.name} is not used up"


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetWithin(Guard):
    """No more of a budget was used than it allows.

    An unattended task passes this guard anyway, and the engine records the risk.
    """

    budget_keys: ClassVar[tuple[str, ...]] = ("name",)
    name: str

    def missing(self, task: Task, evidence: Evidence) -> tuple[str, ...]:
        """Return that the budget is exceeded, if there is a person to decide about that."""
        del evidence
        return () if task.policy.autonomy is Autonomy.AUTO else self.overspent(task)

    def describe(self) -> str:
        return f"{self.name} is not exceeded"

    def overspent(self, task: Task) -> tuple[str, ...]:
        """Return that the budget is exceeded."""
        return _exceeded(task, self.name)


def _exceeded(task: Task, name: str, allowed: int = 0) -> tuple[str, ...]:
    """Return a line if more than the limit plus `allowed` tries were used."""
    budget = task.budgets.get(name)
    if budget is None:
        return (f"the task has no budget {name}",)
    spent = budget.used > budget.limit + allowed
    return (f"the budget {name} is used up ({budget.used} of {budget.limit})",) if spent else ()
