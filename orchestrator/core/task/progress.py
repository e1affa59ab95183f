"""The progress of a task: its stages, the steps of its plan, and the tries that are left."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class StageStatus(StrEnum):
    """The status of one stage."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"


class StepStatus(StrEnum):
    """The status of one step of the plan."""

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
    """The progress of a stage; `visits` counts how often it was entered, `digest` identifies its last results.

    `facts` says which facts of the task state.json shows in it, `way` is the stage that its choices lead to, `phase`
    the number of its phase, if it has one.
    """

    status: StageStatus = StageStatus.PENDING
    started_at: datetime | None = None
    completed_at: datetime | None = None
    artifacts: tuple[str, ...] = ()
    visits: int = 0
    digest: str = ""
    facts: StageFacts | None = None
    way: str = ""
    phase: int | None = None


def current_phase(stages: Mapping[str, StageRecord], stage: str) -> int | None:
    """Return the phase of a stage; of a stage without one, the last phase that has begun. None before the first."""
    record = stages.get(stage)
    if record is not None and record.phase is not None:
        return record.phase
    begun = [one.phase for one in stages.values() if one.phase is not None and one.visits]
    return max(begun, default=None)


def total_phases(stages: Mapping[str, StageRecord]) -> int | None:
    """Return how many phases the stages have; None if they have none."""
    return max((record.phase for record in stages.values() if record.phase is not None), default=None)


def phase_progress(stages: Mapping[str, StageRecord], phase: int) -> float:
    """Return the share of the phase's stages that are completed, from 0 to 1."""
    own = [record.status is StageStatus.COMPLETED for record in stages.values() if record.phase == phase]
    return sum(own) / len(own) if own else 0.0


def deliverables(stages: Mapping[str, StageRecord], phase: int) -> tuple[str, ...]:
    """Return the files that the phase's first stage left; the phase's other stages only judge them."""
    return next((record.artifacts for record in stages.values() if record.phase == phase), ())


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCheckpoint:
    """Where work on a step was interrupted: an agent's note, or a list of what is uncommitted, for its successor."""

    at: datetime
    reason: str = ""
    work_in_progress: str = ""
    uncommitted_files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step of the plan and its commits; `digest` identifies what the plan says about it."""

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
    """How often something may be tried, and how often it was tried."""

    limit: int
    used: int = 0

    @property
    def left(self) -> int:
        """Return the tries that remain, never below zero."""
        return max(0, self.limit - self.used)
