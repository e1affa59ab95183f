"""What can happen to a task: facts in the past tense, each carrying when it happened.

The counterpart is commands.py. An event of an earlier attempt, turn or run that comes late is recognised by the
numbers it carries and changes nothing.
"""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from orchestrator.core.events.agent_messages import AgentError
from orchestrator.core.events.commands import Command
from orchestrator.core.events.operations import Operation
from orchestrator.core.events.publish_events import (
    BaseEvent,
    MergeRefused,
    PullRequestMerged,
    PullRequestOpened,
    PullRequestSeen,
    Released,
    ReleasePrepared,
    ReportPosted,
)
from orchestrator.core.task.agent import PauseReason
from orchestrator.core.task.budget import Caps
from orchestrator.core.task.checks import CheckResult
from orchestrator.core.task.guards import NOTHING_SEEN, Evidence
from orchestrator.core.task.task import Priority, Task
from orchestrator.core.task.user_requests import Answer, RequestDraft, RequestStatus


class TurnOutcome(StrEnum):
    """How an agent's turn ended, by the positive rule of collected.md §1.2."""

    OK = "ok"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSubmitted(BaseEvent):
    """A person handed in a ticket; the task as it begins, its commands and base commit fixed.

    `held` says that everything stands still for now, and so shall this.
    """

    task: Task
    by: str = ""
    held: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonStarted(BaseEvent):
    """The daemon is up again; whatever is owed is asked for anew. `run_alive` tells of the task's own run."""

    run_alive: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskAdmitted(BaseEvent):
    """There is a place for the task: it starts, or goes on after a pause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceReady(BaseEvent):
    """The task's own branch is checked out in its worktree."""

    worktree: str
    branch: str
    head: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(BaseEvent):
    """A process runs under its holder."""

    folder: str
    pid: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStarted(BaseEvent):
    """The CLI told its session's id, model and version."""

    attempt: int
    session_id: str
    model: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnFinished(BaseEvent):
    """An agent's turn came to a result; its output was read up to `offset`, the cost is the process's total.

    `resets_at` is when the usage limit that ended it is over and `window` which one it is, as far as that was told.
    `malformed` says which blocks in its text could not be read, and why.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSaid(BaseEvent):
    """An agent asked for something or reported trouble, in the line of its output that ends at `offset`.

    `answers` holds, for each thing asked, what its role's rules answer, or None where a person is to be asked.
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
    """The agent's process was given the answer that it waited for."""

    attempt: int
    request_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StallSeen(BaseEvent):
    """An agent's turn shows no sign of life whatever; `evidence` says what was looked at."""

    attempt: int
    turn: int
    evidence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentExited(BaseEvent):
    """An agent's process is gone and its tree is swept; `reason` says what is known of why."""

    attempt: int
    reason: str = ""
    code: int | None = None
    signal: int | None = None
    offset: int = 0
    swept: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GateLooked(BaseEvent):
    """The daemon looked at what a stage left behind."""

    stage: str
    visit: int
    turn: int
    evidence: Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckFinished(BaseEvent):
    """A check's command ended on the judged commit; without a result it was ended before it had one."""

    folder: str
    name: str
    result: CheckResult | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchDelivered(BaseEvent):
    """The finished branch stands in the user's repository."""

    branch: str
    commit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandFailed(BaseEvent):
    """What a command asks for cannot be had, and asking again would not help; `reason` is for a person."""

    command: Command
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFrozen(BaseEvent):
    """The whole process tree of a run stands still; `stopped` are its pids."""

    folder: str
    stopped: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FreezeFailed(BaseEvent):
    """Some processes of a run would not stand still."""

    folder: str
    survivors: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunThawed(BaseEvent):
    """A frozen process tree goes on."""

    folder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmRang(BaseEvent):
    """A time the task waits for has come, or may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSaved(BaseEvent):
    """What recovery needs was written; `commit` holds uncommitted work, if there was any."""

    number: int
    commit: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseRequested(BaseEvent):
    """Somebody, or the daemon for want of room, wants the task to stand still; `park` ends its agent's process too.

    `turn` is one under way that is to be ended first; what holds the task before the next one is asked for then.
    """

    blocked_by: PauseReason = PauseReason.USER
    by: str = ""
    reason: str = ""
    park: bool = False
    turn: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeRequested(BaseEvent):
    """What made the task stand still is over."""

    blocked_by: PauseReason = PauseReason.USER
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRequested(BaseEvent):
    """A person gave the task up."""

    by: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundRequested(BaseEvent):
    """A person wants comments on the pull request taken up now."""

    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveRequested(BaseEvent):
    """A person has done with an ended task: it is kept, but out of the way."""

    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryRequested(BaseEvent):
    """A person has looked at a blocked task and wants its stage tried anew."""

    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftSubmitted(BaseEvent):
    """A person sent a draft off; `held` says that everything stands still for now, and so shall this."""

    by: str = ""
    held: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AskAnswered(BaseEvent):
    """Somebody answered an ask; `digest`, if given, is of what was seen."""

    number: int
    status: RequestStatus
    answer: str = ""
    digest: str | None = None
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapsChanged(BaseEvent):
    """A person changed what the task may cost."""

    caps: Caps
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityChanged(BaseEvent):
    """A person changed how urgent the task is."""

    priority: Priority
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationRequested(BaseEvent):
    """A person, a program or an agent asked for a change of the task's state; `evidence` was looked for meanwhile."""

    operation: Operation
    evidence: Evidence = NOTHING_SEEN
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginMissed(BaseEvent):
    """Agents cannot reach a model before a person sees to it; people are told of it by this task."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonTold(BaseEvent):
    """A person was told of something, or telling was given up for the reason given."""

    key: str
    failure: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignEditFound(BaseEvent):
    """state.json had been written by another hand; it was set aside and the truth restored."""

    kept_as: str
    changed: tuple[str, ...] = field(default=())


Event = (
    TaskSubmitted
    | DaemonStarted
    | TaskAdmitted
    | WorkspaceReady
    | RunStarted
    | SessionStarted
    | TurnFinished
    | AgentSaid
    | RequestWithdrawn
    | AnswerSent
    | StallSeen
    | AgentExited
    | GateLooked
    | CheckFinished
    | BranchDelivered
    | PullRequestOpened
    | PullRequestSeen
    | PullRequestMerged
    | MergeRefused
    | ReleasePrepared
    | Released
    | ReportPosted
    | CommandFailed
    | RunFrozen
    | FreezeFailed
    | RunThawed
    | AlarmRang
    | CheckpointSaved
    | PauseRequested
    | ResumeRequested
    | CancelRequested
    | RoundRequested
    | ArchiveRequested
    | RetryRequested
    | DraftSubmitted
    | AskAnswered
    | CapsChanged
    | PriorityChanged
    | OperationRequested
    | LoginMissed
    | PersonTold
    | ForeignEditFound
)
