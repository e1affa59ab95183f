"""Schemas of what people are asked for, and of their answers."""

from datetime import datetime

from pydantic import ConfigDict, Field, SecretStr, field_serializer

from orchestrator.core.task.user_requests import LONGEST_ANSWER, RequestKind, RequestStatus, Subject
from orchestrator.server.schemas.base import RequestBody, Utf8, View, Words


class RequestView(View):
    """One request to a person, with the id `<task id>.<number>`.

    `answer` never holds what was provided for a dependency. `digest` identifies what is asked: an answer that names it
    is refused if the request is another one.
    """

    id: str
    task: str
    number: int
    kind: RequestKind
    subject: Subject
    name: Words
    type: str
    text: Words
    options: tuple[Words, ...]
    default: Words | None
    required: bool
    digest: str
    stage: str
    asked_at: datetime
    deadline: datetime | None
    status: RequestStatus
    answer: Words | None
    answered_by: str | None
    answered_at: datetime | None


class RequestList(View):
    """Requests to people, oldest first."""

    requests: tuple[RequestView, ...]


class SizeView(View):
    """How much changed between two commits; binary files count no lines."""

    files: int
    added: int
    removed: int


class ReviewView(RequestView):
    """A review with what is to be looked at: the stage's files, and what changed since the task began.

    `change` is null if nothing was committed yet, or the task's repository cannot be read.
    """

    files: tuple[Words, ...]
    worktree: str | None
    base_commit: str
    head: str | None
    change: SizeView | None


class ProvidedView(RequestView):
    """A dependency after it was provided; `unmasked` says why its value is not masked in what agents say.

    It is null if the value is masked, or there is none.
    """

    unmasked: str | None


class RequestFilter(View):
    """Which requests to list: those of one task, and only pending ones unless `status` is all."""

    model_config = ConfigDict(extra="forbid")

    status: str = Field(default="pending", pattern="^(pending|all)$")
    task: str | None = None


class DigestBody(RequestBody):
    """An answer may name the digest of what was shown; then it counts for that alone."""

    digest: str | None = Field(default=None, max_length=64)


class AnswerBody(DigestBody):
    """The answer to a question."""

    answer: Utf8 = Field(max_length=LONGEST_ANSWER)


class ChangesBody(DigestBody):
    """The changes that a reviewer requests."""

    text: Utf8 = Field(max_length=LONGEST_ANSWER)


class ProvideBody(RequestBody):
    """The value of a dependency, at most 64 KiB; none for a permission or a package."""

    value: SecretStr | None = None

    @field_serializer("value", when_used="json")
    def _revealed(self, value: SecretStr | None) -> str | None:
        """Reveal the value in the request that is sent, and nowhere else."""
        return value.get_secret_value() if value else None


class RejectBody(RequestBody):
    """Why a dependency is not provided."""

    reason: Utf8 = Field(default="", max_length=LONGEST_ANSWER)
