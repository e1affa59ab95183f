"""The errors that use cases raise, those of the rooms below among them; every caller maps these and no others."""

from collections.abc import Sequence

from orchestrator.core.task.task import Task
from orchestrator.core.task.user_requests import BadAnswer, UserRequest
from orchestrator.daemon.task_factory import AlreadyActive, SubmissionRefused
from orchestrator.errors import AnswerRefused, InvalidTransition, NoSuchTask, NotCommitted, OrchestratorError
from orchestrator.integrations.errors import AccessDenied, AuthenticationFailed, NotFound, Refused, Unreachable
from orchestrator.storage.records import NoSuchCheckpoint, StoreError, UnreadableTask
from orchestrator.storage.restore import NoStateLeft, NothingLost

__all__ = [
    "AccessDenied",
    "AlreadyActive",
    "AlreadyAnswered",
    "AmbiguousName",
    "AnswerRefused",
    "AuthenticationFailed",
    "BadAnswer",
    "InvalidTransition",
    "NoStateLeft",
    "NoSuchCheckpoint",
    "NoSuchFile",
    "NoSuchRequest",
    "NoSuchTask",
    "NoSuchWindow",
    "NotCommitted",
    "NotFound",
    "NothingLost",
    "OutdatedAttempt",
    "Refused",
    "StoreError",
    "SubmissionRefused",
    "Unreachable",
    "UnreadableTask",
]


class AmbiguousName(OrchestratorError):
    """A short name fits several tasks."""

    def __init__(self, name: str, candidates: Sequence[str]) -> None:
        self.candidates = tuple(candidates)
        super().__init__(f"{name} is ambiguous: it may be any of {', '.join(candidates)}; give more of the id")


class NoSuchFile(OrchestratorError):
    """The task has no such artifact or agent."""


class NoSuchWindow(OrchestratorError):
    """No usage window of that name is known."""


class NoSuchRequest(OrchestratorError):
    """The task asked for nothing under that number, or for something of another kind."""


class AlreadyAnswered(OrchestratorError):
    """Another answer came first and counts; `task` and `request` show it."""

    def __init__(self, message: str, task: Task, request: UserRequest) -> None:
        self.task, self.request = task, request
        super().__init__(message)


class OutdatedAttempt(OrchestratorError):
    """The agent that asks is not the task's current attempt, so that its view of the state may be wrong."""

    def __init__(self, attempt: int, current: int) -> None:
        super().__init__(f"the caller is attempt {attempt} of the task, and attempt {current} is the current one")
