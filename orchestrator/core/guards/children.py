"""Guards of a plan of children, and of what became of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from orchestrator.core.task.children import MOST_CHILDREN, Child, ChildPlan, ChildStatus
from orchestrator.core.task.guards import Evidence, FileFacts, Guard
from orchestrator.core.task.task import Task

_ACCEPTABLE = (ChildStatus.COMPLETED.value, ChildStatus.FAILED.value, ChildStatus.SKIPPED.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildrenPlanned(Guard):
    """A plan names children that can be made: each key once, and no circle of dependencies."""

    file_keys: ClassVar[tuple[str, ...]] = ("file",)
    file: str
    at_least: int = field(default=1, metadata={"minimum": 1})
    at_most: int = field(default=MOST_CHILDREN, metadata={"minimum": 1})

    def missing(self, task: Task, evidence: Evidence) -> tuple[str, ...]:
        """Return what is wrong with the plan."""
        del task
        facts = evidence.files.get(self.file)
        if facts is None:
            return (f"{self.file} not found",)
        if facts.problems:
            return tuple(f"{self.file}: {problem}" for problem in facts.problems[:10])
        found = len(facts.children)
        if found > self.at_most:
            return (f"{self.file} names {found} children, and no more than {self.at_most} may be",)
        return () if found >= self.at_least else (f"{self.file} names {found} of at least {self.at_least} children",)

    def describe(self) -> str:
        return f"{self.file} names its children"

    def sample_files(self) -> Mapping[str, FileFacts]:
        """Return a plan with as few children as allowed, each after the one before."""
        keys = [f"CHILD-{number:02}" for number in range(1, self.at_least + 1)]
        after = [(), *((key,) for key in keys)]
        plans = (ChildPlan(key=key, title=key, after=before) for key, before in zip(keys, after, strict=False))
        return {self.file: FileFacts(chars=100, children=tuple(plans))}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildrenEnded(Guard):
    """Every child ended in one of the accepted ways, and at least one was completed."""

    accept: tuple[str, ...] = field(default=(ChildStatus.COMPLETED.value,), metadata={"choices": _ACCEPTABLE})

    def missing(self, task: Task, evidence: Evidence) -> tuple[str, ...]:
        """Return the children that ended otherwise, with the reasons."""
        del evidence
        if not any(child.status is ChildStatus.COMPLETED for child in task.children):
            return ("no child was completed", *map(_outcome, self._others(task)))
        return tuple(map(_outcome, self._others(task)))

    def _others(self, task: Task) -> list[Child]:
        return [child for child in task.children if child.status not in self.accept]

    def describe(self) -> str:
        return f"every child is {' or '.join(self.accept)}"


def _outcome(child: Child) -> str:
    return f"{child.plan.key} is {child.status}" + (f": {child.reason}" if child.reason else "")
