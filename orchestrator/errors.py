"""Everything that can be refused, as one tree: a message says what, where, and how to fix it."""

from collections.abc import Mapping, Sequence


class OrchestratorError(Exception):
    """Something was refused or failed in a way a person can fix; the message is meant for them."""


class InvalidTransition(OrchestratorError):
    """An event or request does not fit the task's state; nothing was changed."""

    def __init__(self, request: str, status: str, stage: str, allowed: Sequence[str] = (), because: str = "") -> None:
        self.request, self.status, self.stage, self.allowed = request, status, stage, tuple(allowed)
        can = ", ".join(allowed) or "nothing"
        why = f": {because}" if because else ""
        super().__init__(f"cannot {request} a task that is {status} in {stage}{why}; allowed now: {can}")


class NotPossibleNow(OrchestratorError):
    """Something is not possible as things are, and was not done; the message says what would change that."""


class WorkWouldBeLost(OrchestratorError):
    """A task has work that exists nowhere else, so it is not deleted; the message names the work."""

    def __init__(self, lost: Mapping[str, str]) -> None:
        named = "; ".join(f"{task}: {why}" for task, why in lost.items())
        tasks = " ".join(lost)
        super().__init__(
            f"work would be lost that exists nowhere else ({named}). Keep it: merge or fetch its commits, or run"
            f" `orchestrator archive {tasks}`, which keeps uncommitted files too. Or delete it all the same: --force,"
            " in the API force=true"
        )


class NoSuchTask(OrchestratorError):
    """No task at work has that id."""


class NotCommitted(OrchestratorError):
    """A request could not be put on disk, and so was not accepted."""


class AnswerRefused(OrchestratorError):
    """An answer comes too late, to something else, or is none; the message says which. Nothing was changed."""
