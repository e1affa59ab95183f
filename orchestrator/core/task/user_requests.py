"""Requests to people: reviews, questions and dependencies, each a durable record that is answered once.

An agent may ask in two ways. A block in its text is answered by its next turn. A request of the CLI's own protocol is
answered under its `request_id` as long as the process that asked lives, and after that by a turn. The record says which
of the two it is: by its `request_id`.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from difflib import get_close_matches
from enum import StrEnum
from hashlib import sha256
from types import MappingProxyType
from typing import assert_never

from orchestrator.core.events.agent_messages import DependencyType
from orchestrator.errors import AnswerRefused

LONGEST_ANSWER = 20_000
"""Characters."""
DECIDE_YOURSELF = "no person is available to answer; decide yourself and state in your work what you assumed"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NEVER_SET = frozenset({
    "PATH", "HOME", "USER", "SHELL", "IFS", "ENV", "BASH_ENV", "TZ", "TMPDIR", "PROMPT_COMMAND", "NODE_OPTIONS",
    "NODE_PATH", "NODE_EXTRA_CA_CERTS", "PERL5OPT", "PERL5LIB", "RUBYOPT", "RUBYLIB", "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SSL_CERT_FILE", "SSL_CERT_DIR", "XDG_CONFIG_HOME",
})  # fmt: skip
_NEVER_BEGINS = ("ORCHESTRATOR_", "LD_", "GIT_", "PYTHON", "CLAUDE_", "ANTHROPIC_")
_PROXIES = frozenset({"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"})
"""Programs read these in lower case as well."""
POLICY = "policy"
"""Who answered, if the policy of the task or the role did."""


class RequestKind(StrEnum):
    """The three things a person may be asked for."""

    QUESTION = "question"
    DEPENDENCY = "dependency"
    REVIEW = "review"


class Subject(StrEnum):
    """What exactly is asked."""

    QUESTION = "question"
    PERMISSION = "permission"
    PLAN = "plan"
    DEPENDENCY = "dependency"
    STAGE = "stage"
    PUBLISH = "publish"
    MERGE = "merge"
    RELEASE = "release"

    @property
    def of_daemon(self) -> bool:
        """Whether the daemon asks, so that no agent waits for the answer."""
        return self in (Subject.STAGE, Subject.PUBLISH, Subject.MERGE, Subject.RELEASE)


class RequestStatus(StrEnum):
    """The status of a request; all but the first are final."""

    PENDING = "pending"
    ANSWERED = "answered"
    APPROVED = "approved"
    CHANGES_REQUESTED = "changes_requested"
    PROVIDED = "provided"
    REJECTED = "rejected"
    SKIPPED = "skipped"
    WITHDRAWN = "withdrawn"


IS_SECRET = frozenset(
    {DependencyType.API_KEY, DependencyType.ENV_VARIABLE, DependencyType.SERVICE, DependencyType.FILE}
)
"""Dependencies that are provided as a value, which is only put into the agent's environment."""
WHERE_PROVIDED = MappingProxyType(
    {
        DependencyType.API_KEY: "as the environment variable {name}",
        DependencyType.ENV_VARIABLE: "as the environment variable {name}",
        DependencyType.SERVICE: "its address is the environment variable {name}",
        DependencyType.FILE: "the environment variable {name} holds the path of the file",
        DependencyType.PERMISSION: "you may",
        DependencyType.PACKAGE: "it is installed",
    }
)


def how_to_answer(task_id: str, kind: RequestKind, subject: Subject, name: str, which: str = "") -> str:
    """Return the command that answers; `which` is the option that selects one of several questions of a task."""
    match kind:
        case RequestKind.QUESTION:
            return f"orchestrator answer {task_id}{which}"
        case RequestKind.DEPENDENCY:
            return f"orchestrator provide {task_id} {name}"
        case RequestKind.REVIEW if subject is Subject.MERGE:
            return f"orchestrator merge {task_id}, or orchestrator review {task_id} to take up comments"
        case RequestKind.REVIEW:
            return f"orchestrator approve {task_id}, or orchestrator request-changes {task_id} -m …"
        case _:
            assert_never(kind)


class BadAnswer(AnswerRefused):
    """An answer does not fit what was asked; the message says what would."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestDraft:
    """What is asked, before it is recorded.

    `name` is the tool, the dependency or the stage. `request_id` and `start`, the offset of the line in the agent's
    output, are set for requests of the CLI's own protocol.
    """

    subject: Subject
    text: str
    name: str = ""
    type: str = ""
    options: tuple[str, ...] = ()
    default: str | None = None
    required: bool = True
    request_id: str | None = None
    start: int = 0
    content: str = ""
    """What else distinguishes this from a request with the same text, such as the input of a tool."""

    @property
    def kind(self) -> RequestKind:
        """Return which of the three it is."""
        if self.subject is Subject.DEPENDENCY:
            return RequestKind.DEPENDENCY
        return RequestKind.REVIEW if self.subject.of_daemon or self.subject is Subject.PLAN else RequestKind.QUESTION

    @property
    def digest(self) -> str:
        """Return a hash of what is asked, so that an answer counts only for what the person saw."""
        parts = (self.subject, self.name, self.type, self.text, *self.options, self.content)
        return sha256(json.dumps(parts).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to a request: its final status, the text, and who gave it."""

    status: RequestStatus
    text: str = ""
    by: str = POLICY


@dataclass(frozen=True, slots=True, kw_only=True)
class UserRequest:
    """A request to a person; `number` never repeats within a task.

    `deadline` is when the default is taken; `reminded` counts the reminders that went out. `is_delivered` says that the
    agent has the answer.
    """

    number: int
    draft: RequestDraft
    digest: str
    stage: str
    visit: int
    attempt: int
    turn: int
    asked_at: datetime
    deadline: datetime | None = None
    reminded: int = 0
    status: RequestStatus = RequestStatus.PENDING
    answer: str | None = None
    answered_by: str | None = None
    answered_at: datetime | None = None
    is_delivered: bool = False

    @property
    def kind(self) -> RequestKind:
        """Return which of the three it is."""
        return self.draft.kind

    @property
    def is_pending(self) -> bool:
        """Whether it is unanswered."""
        return self.status is RequestStatus.PENDING

    @property
    def is_undelivered(self) -> bool:
        """Whether there is an answer that the agent does not know yet."""
        closed_silently = self.status is RequestStatus.WITHDRAWN or self.draft.subject.of_daemon
        return not self.is_pending and not self.is_delivered and not closed_silently


def variable_of(name: str) -> str:
    """Return the environment variable in which a dependency of that name is provided."""
    letters = re.sub(r"[^A-Za-z0-9_]", "_", name).upper() if not _VARIABLE.fullmatch(name) else name
    return f"_{letters}" if letters[:1].isdigit() else letters


def must_not_be_set(variable: str) -> bool:
    """Return whether a variable must never be provided, because it changes what programs run or whom they talk to."""
    return variable in _NEVER_SET or variable.upper() in _PROXIES or variable.startswith(_NEVER_BEGINS)


def pending(requests: Iterable[UserRequest]) -> tuple[UserRequest, ...]:
    """Return the unanswered requests, in their order."""
    return tuple([request for request in requests if request.is_pending])


def validate_answer(draft: RequestDraft, answer: str) -> str:
    """Return the answer as it is recorded: if there are options, one of them as it is spelled. Raises BadAnswer.

    Only case may differ from an option; a near one is suggested and never taken.
    """
    text = answer.strip()
    if not text:
        raise BadAnswer("the answer is empty; say something, or skip the question")
    if len(text) > LONGEST_ANSWER:
        raise BadAnswer(f"the answer has {len(text)} characters; {LONGEST_ANSWER} are allowed")
    if not draft.options or text in draft.options:
        return text
    same = next((option for option in draft.options if option.casefold() == text.casefold()), None)
    if same is not None:
        return same
    near = get_close_matches(text, draft.options, n=1, cutoff=0.7)
    hint = f"did you mean {near[0]!r}?" if near else f"the options are: {', '.join(draft.options)}"
    raise BadAnswer(f"{text[:100]!r} is none of the options; {hint}")


def next_reminder(request: UserRequest, steps: Sequence[float]) -> datetime | None:
    """Return when the person is reminded next; `steps` are seconds since the request was made."""
    return request.asked_at + timedelta(seconds=steps[request.reminded]) if request.reminded < len(steps) else None


def reusable(requests: Iterable[UserRequest], draft: RequestDraft, stage: str) -> UserRequest | None:
    """Return an answered request with the same content in the same stage, for an agent that asks again."""
    same = (
        request
        for request in requests
        if request.digest == draft.digest and request.stage == stage and request.draft.kind is draft.kind
    )
    return next(
        (
            request
            for request in same
            if request.status in (RequestStatus.ANSWERED, RequestStatus.APPROVED, RequestStatus.SKIPPED)
        ),
        None,
    )
