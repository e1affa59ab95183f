"""What can happen to a task: facts in the past tense, each with the time when it happened.

The counterpart is commands.py. A late event, of an earlier attempt, turn or run, is recognised by its numbers and
changes nothing.
"""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from orchestrator.core.events.agent_messages import AgentError
from orchestrator.core.events.child_events import ChildEvent
from orchestrator.core.events.commands import Command
from orchestrator.core.events.operations import Operation
from orchestrator.core.events.publish_events import BaseEvent, PublishEvent
from orchestrator.core.events.run_events import RunEvent
from orchestrator.core.task.agent import PauseReason
from orchestrator.core.task.budget import Caps
from orchestrator.core.task.checkpoint import Reason
from orchestrator.core.task.guards import NOTHING_SEEN, Evidence
from orchestrator.core.task.task import Priority, Task
from orchestrator.core.task.user_requests import Answer, RequestDraft, RequestStatus


class TurnOutcome(StrEnum):
    """How an agent's turn ended; only a result that says so is OK."""

    OK = "ok"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSubmitted(BaseEvent):
    """A person submitted a ticket; `task` has its checks and its base commit fixed.

    `held` means that all tasks are paused, so that this one must begin paused.
    """

    task: Task
    by: str = ""
    held: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonStarted(BaseEvent):
    """The daemon started, and dispatches all that is owed. `run_alive` says whether the task's run still lives."""

    run_alive: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskAdmitted(BaseEvent):
    """A slot is free for the task: it starts, or continues after a pause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceReady(BaseEvent):
    """The task's own branch is checked out in its worktree; `restored_from` says what a lost one was made from.

    `base` is the commit that a child begins from: its parent's when the child starts, not when it was submitted.
    """

    worktree: str
    branch: str
    head: str
    base: str = ""
    restored_from: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStarted(BaseEvent):
    """The CLI reported the id of its session, its model and its version."""

    attempt: int
    session_id: str
    model: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnFinished(BaseEvent):
    """An agent's turn ended with a result. Its output was read up to `offset`; the cost is the total of the process.

    `resets_at` and `window` say when the usage limit that ended the turn is over and which one it is, if known.
    `malformed` lists the blocks in its text that could not be read, with the reasons. It `blames_installation` if the
    turns of other tasks fail like that too, so that the task is not to blame.
    """

    attempt: int
    outcome: TurnOutcome
    reason: str = ""
    error_class: str | None = None
    offset: int = 0
    tool_uses: int = 0
    tokens: int = 0
    cost_usd: float = 0.0
    resets_at: datetime | None = None
    window: str | None = None
    malformed: tuple[str, ...] = ()
    blames_installation: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSaid(BaseEvent):
    """An agent asked for something or reported an error, in the line of its output that ends at `offset`.

    `answers` has the answer of the role's rules for each request, or None where a person must answer.
    """

    attempt: int
    offset: int
    asking: tuple[RequestDraft, ...] = ()
    trouble: AgentError | None = None
    answers: tuple[Answer | None, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestWithdrawn(BaseEvent):
    """The agent's process no longer waits for an answer."""

    attempt: int
    request_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerSent(BaseEvent):
    """The agent's process received the answer that it waited for."""

    attempt: int
    request_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StallSeen(BaseEvent):
    """An agent's turn shows no activity; `evidence` says what was examined."""

    attempt: int
    turn: int
    evidence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentExited(BaseEvent):
    """An agent's process has ended and its process tree was cleaned up; `reason` says why, as far as it is known.
    `is_lost` says that it did not end by itself: its holder was killed, or the machine went down. It
    `blames_installation` if agents of other tasks end like that too, so that the task is not to blame.
    """

    attempt: int
    reason: str = ""
    is_lost: bool = False
    blames_installation: bool = False
    code: int | None = None
    signal: int | None = None
    offset: int = 0
    swept: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GateLooked(BaseEvent):
    """The daemon examined the results of a stage."""

    stage: str
    visit: int
    turn: int
    evidence: Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchDelivered(BaseEvent):
    """The finished branch is in the user's repository."""

    branch: str
    commit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandFailed(BaseEvent):
    """A command cannot be executed, and repeating it would not help; `reason` is for a person."""

    command: Command
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmRang(BaseEvent):
    """A time that the task waits for has come, or may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSaved(BaseEvent):
    """A checkpoint was written; `commit` has the uncommitted work, if there was any, which is in these files."""

    number: int
    commit: str | None = None
    reason: Reason | None = None
    uncommitted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseRequested(BaseEvent):
    """A person or the daemon wants the task to pause; `park` also ends its agent's process and keeps the session.

    With `turn`, only that running turn is ended; whether the next one may begin is decided then.
    """

    blocked_by: PauseReason = PauseReason.USER
    by: str = ""
    reason: str = ""
    park: bool = False
    turn: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeRequested(BaseEvent):
    """The reason for the pause no longer holds.

    `at_once` is a person's word that the task may run before its start time and while its run windows are closed.
    """

    blocked_by: PauseReason = PauseReason.USER
    by: str = ""
    at_once: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRequested(BaseEvent):
    """A person cancelled the task."""

    by: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundRequested(BaseEvent):
    """A person wants the comments on the pull request to be addressed now."""

    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveRequested(BaseEvent):
    """A person archived an ended task: it is kept, but lists leave it out."""

    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryRequested(BaseEvent):
    """A person wants the stage of a blocked task to be tried again; or the daemon, because it `blames_installation`."""

    by: str = ""
    blames_installation: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftChanged(BaseEvent):
    """A person changed a draft; `task` is the draft as it begins now, made like a new one under the same id."""

    task: Task
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftSubmitted(BaseEvent):
    """A person submitted a draft; `held` means that all tasks are paused, so that this one must begin paused."""

    by: str = ""
    held: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AskAnswered(BaseEvent):
    """Somebody answered a request; `digest`, if given, identifies the text that they saw."""

    number: int
    status: RequestStatus
    answer: str = ""
    digest: str | None = None
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapsChanged(BaseEvent):
    """A person changed the budget of the task."""

    caps: Caps
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityChanged(BaseEvent):
    """A person changed the priority of the task."""

    priority: Priority
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationRequested(BaseEvent):
    """A person, a program or an agent asked to change the task's state; `evidence` is what the daemon then saw."""

    operation: Operation
    evidence: Evidence = NOTHING_SEEN
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginMissed(BaseEvent):
    """Agents cannot work until a person logs in or mends the installation; this task carries the notice to people."""

    reason: str
    blames_installation: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonTold(BaseEvent):
    """A notice was delivered, or given up for the reason in `failure`."""

    key: str
    failure: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignEditFound(BaseEvent):
    """Something else had changed state.json or the end of the journal; that was set aside and the truth restored."""

    kept_as: str
    changed: tuple[str, ...] = field(default=())


TurnEvent = SessionStarted | TurnFinished | AgentSaid | AgentExited | RequestWithdrawn | AnswerSent | StallSeen
"""What a task's agent did."""

Request = (
    PauseRequested
    | ResumeRequested
    | CancelRequested
    | RoundRequested
    | ArchiveRequested
    | RetryRequested
    | DraftChanged
    | DraftSubmitted
    | AskAnswered
    | CapsChanged
    | PriorityChanged
)
"""What people, or the daemon on their behalf, ask of a task."""

DeliveryEvent = BranchDelivered | PublishEvent
"""What became of a finished change."""

Event = (
    TurnEvent
    | Request
    | RunEvent
    | DeliveryEvent
    | ChildEvent
    | TaskSubmitted
    | DaemonStarted
    | TaskAdmitted
    | WorkspaceReady
    | GateLooked
    | CommandFailed
    | AlarmRang
    | CheckpointSaved
    | OperationRequested
    | LoginMissed
    | PersonTold
    | ForeignEditFound
)
"""Everything that can happen to a task."""
