"""Events that a parent gets about its children."""

from dataclasses import dataclass

from orchestrator.core.events.publish_events import BaseEvent
from orchestrator.core.task.budget import NOTHING_SPENT, Spending


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildrenSubmitted(BaseEvent):
    """These children are tasks now; `tasks` has their ids."""

    tasks: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildEnded(BaseEvent):
    """A child's task ended; without `completed`, `reason` says why. `spent` is what it and its own children used."""

    task: str
    completed: bool
    commit: str | None = None
    reason: str = ""
    spent: Spending = NOTHING_SPENT


ChildEvent = ChildrenSubmitted | ChildEnded
"""What became of children."""
