"""How far the work of a task is: its stages, the steps of its plan, the tries that are left, the evaluation."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class StageStatus(StrEnum):
    """How far one stage is (seed 000)."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"


class StepStatus(StrEnum):
    """How far one step of the plan is (seed 000)."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"


class StageFacts(StrEnum):
    """Facts of a task that state.json shows in the stage where they arise."""

    TICKET = "ticket"
    DRAFTS = "drafts"
    STEPS = "steps"
    CHECKS = "checks"
    PUBLICATION = "publication"


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRecord:
    """How one stage went so far; `visits` counts the times it was entered, `digest` is of what was last found in it.

    `facts` says what state.json shows in it beside the record itself.
    """

    status: StageStatus = StageStatus.PENDING
    started_at: datetime | None = None
    completed_at: datetime | None = None
    artifacts: tuple[str, ...] = ()
    visits: int = 0
    digest: str = ""
    facts: StageFacts | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCheckpoint:
    """A note of an agent's, or one made from what lies uncommitted, for whoever goes on with the step."""

    at: datetime
    reason: str = ""
    work_in_progress: str = ""
    uncommitted_files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step of the plan and the commits made for it; `digest` is of what the plan says of it."""

    step_id: int
    description: str
    digest: str = ""
    status: StepStatus = StepStatus.PENDING
    commits: tuple[str, ...] = ()
    started_at: datetime | None = None
    completed_at: datetime | None = None
    last_checkpoint: StepCheckpoint | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How often something may still be tried."""

    limit: int
    used: int = 0

    @property
    def left(self) -> int:
        """Tries that remain, never below zero."""
        return max(0, self.limit - self.used)
