"""The state operations transition, step and fail as values, and how they are refused.

decide/state_moves.py checks them, pipelines/operation_parser.py reads them from JSON.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from orchestrator.core.task.failures import Failure
from orchestrator.core.task.progress import StepCheckpoint, StepStatus
from orchestrator.errors import OrchestratorError
from orchestrator.formats.codec import Json


class Refusal(StrEnum):
    """Why an operation is refused; the first two are part of the original state format."""

    STATE_MISMATCH = "STATE_MISMATCH"
    TRANSITION_BLOCKED = "TRANSITION_BLOCKED"
    UNKNOWN_STEP = "UNKNOWN_STEP"
    FAILURE_EXISTS = "FAILURE_EXISTS"
    NOT_AT_WORK = "NOT_AT_WORK"
    STATE_EXISTS = "STATE_EXISTS"
    MALFORMED = "MALFORMED"


class OperationRefused(OrchestratorError):
    """An operation was refused and nothing was changed; `document` says why, for programs."""

    def __init__(self, refusal: Refusal, facts: Mapping[str, Json], remedy: str) -> None:
        self.document: dict[str, Json] = {"error": refusal.value, **facts}
        super().__init__(f"{refusal}: {remedy}")


def mismatch(expected: str, actual: str) -> OperationRefused:
    """Refuse an operation that was meant for another state."""
    remedy = f"the task is in {actual}, not in {expected}; check its state with `state get`, then decide again"
    return OperationRefused(Refusal.STATE_MISMATCH, {"expected": expected, "actual": actual}, remedy)


def blocked(origin: str, target: str, missing: tuple[str, ...]) -> OperationRefused:
    """Refuse a move for which something is missing."""
    facts: Mapping[str, Json] = {"missing": list(missing), "from": origin, "to": target}
    return OperationRefused(Refusal.TRANSITION_BLOCKED, facts, f"{origin} to {target}: {'; '.join(missing)}")


def not_at_work(state: str, status: str, allowed: tuple[str, ...]) -> OperationRefused:
    """Refuse an operation on a task that has not begun, or has ended."""
    facts: Mapping[str, Json] = {"state": state, "task_status": status, "allowed": list(allowed)}
    return OperationRefused(Refusal.NOT_AT_WORK, facts, f"the task is {status}; allowed now: {', '.join(allowed)}")


def no_steps_here(state: str, step_id: int) -> OperationRefused:
    """Refuse an update of a step in a state that does not work through the plan."""
    reason = f"{state} does not work through the steps of a plan"
    facts: Mapping[str, Json] = {"state": state, "step_id": step_id, "missing": [reason]}
    return OperationRefused(Refusal.NOT_AT_WORK, facts, f"step {step_id} cannot be changed now: {reason}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """A move from one state to another, if its guards hold; `artifacts` are the names of files it left."""

    from_state: str
    to_state: str
    artifacts: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForcedTransition:
    """A person's move to any stage; `waived` names what the guards found missing."""

    to_state: str
    reason: str
    waived: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StepUpdate:
    """An update of one step of the plan; without a checkpoint the old one stays, unless it is to be discarded."""

    step_id: int
    status: StepStatus
    commits: tuple[str, ...] = ()
    checkpoint: StepCheckpoint | None = None
    forget_checkpoint: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureReport:
    """An entry for the failure log; without an id it gets the next one."""

    failure: Failure


Operation = Transition | ForcedTransition | StepUpdate | FailureReport
