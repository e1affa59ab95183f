"""Events that a parent gets about its children."""

from dataclasses import dataclass

from orchestrator.core.events.publish_events import BaseEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildrenSubmitted(BaseEvent):
    """These children are tasks now; `tasks` has their ids."""

    tasks: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildEnded(BaseEvent):
    """A child's task ended; without `completed`, `reason` says why."""

    task: str
    completed: bool
    commit: str | None = None
    reason: str = ""


ChildEvent = ChildrenSubmitted | ChildEnded
"""What became of children."""
