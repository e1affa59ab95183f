"""Everything that can be refused, as one tree: a message says what, where, and how to mend it."""

from collections.abc import Sequence


class OrchestratorError(Exception):
    """Something was refused or failed in a way a person can mend; the message is meant for them."""


class InvalidTransition(OrchestratorError):
    """An event or request does not fit the task's state; nothing was changed."""

    def __init__(self, request: str, status: str, stage: str, allowed: Sequence[str] = ()) -> None:
        self.request, self.status, self.stage, self.allowed = request, status, stage, tuple(allowed)
        can = ", ".join(allowed) or "nothing"
        super().__init__(f"cannot {request} a task that is {status} in {stage}; allowed now: {can}")


class TransitionBlocked(OrchestratorError):
    """A gate is closed; `missing` lists what it looked for and did not find (seed 000, transition)."""

    def __init__(self, missing: Sequence[str], from_stage: str, to_stage: str) -> None:
        self.missing, self.from_stage, self.to_stage = tuple(missing), from_stage, to_stage
        super().__init__(f"{from_stage} cannot go on to {to_stage}: {'; '.join(missing)}")
