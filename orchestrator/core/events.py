"""What can happen to a task: facts in the past tense, each carrying when it happened.

The counterpart is commands.py. An event of an earlier attempt, turn or run that comes late is recognised by the
numbers it carries and changes nothing.
"""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from orchestrator.core.commands import Command
from orchestrator.core.guards import Evidence
from orchestrator.core.model import BlockedBy, CheckResult, Task


class TurnOutcome(StrEnum):
    """How an agent's turn ended, by the positive rule of collected.md §1.2."""

    OK = "ok"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Event:
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSubmitted(_Event):
    """A person handed in a ticket; the task as it begins, its commands and base commit fixed."""

    task: Task
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonStarted(_Event):
    """The daemon is up again; whatever is owed is asked for anew. `run_alive` tells of the task's own run."""

    run_alive: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskAdmitted(_Event):
    """There is a place for the task: it starts, or goes on after a pause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceReady(_Event):
    """The task's own branch is checked out in its worktree."""

    worktree: str
    branch: str
    head: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(_Event):
    """A process runs under its holder."""

    folder: str
    pid: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStarted(_Event):
    """The CLI told its session's id, model and version."""

    attempt: int
    session_id: str
    model: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnFinished(_Event):
    """An agent's turn came to a result; its output was read up to `offset`, the cost is the process's total.

    `resets_at` is when the usage limit that ended it is over, as far as that was told.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentExited(_Event):
    """An agent's process is gone and its tree is swept; `reason` says what is known of why."""

    attempt: int
    reason: str = ""
    code: int | None = None
    signal: int | None = None
    offset: int = 0
    swept: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GateLooked(_Event):
    """The daemon looked at what a stage left behind."""

    stage: str
    visit: int
    turn: int
    evidence: Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckFinished(_Event):
    """A check's command ended on the judged commit; without a result it was ended before it had one."""

    folder: str
    name: str
    result: CheckResult | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchDelivered(_Event):
    """The finished branch stands in the user's repository."""

    branch: str
    commit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandFailed(_Event):
    """What a command asks for cannot be had, and asking again would not help; `reason` is for a person."""

    command: Command
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFrozen(_Event):
    """The whole process tree of a run stands still; `stopped` are its pids."""

    folder: str
    stopped: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FreezeFailed(_Event):
    """Some processes of a run would not stand still."""

    folder: str
    survivors: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunThawed(_Event):
    """A frozen process tree goes on."""

    folder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmRang(_Event):
    """A time the task waits for has come, or may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSaved(_Event):
    """What recovery needs was written; `commit` holds uncommitted work, if there was any."""

    number: int
    commit: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseRequested(_Event):
    """Somebody, or the daemon for want of room, wants the task to stand still."""

    blocked_by: BlockedBy = BlockedBy.USER
    by: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeRequested(_Event):
    """What made the task stand still is over."""

    blocked_by: BlockedBy = BlockedBy.USER
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRequested(_Event):
    """A person gave the task up."""

    by: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignEditFound(_Event):
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
    | AgentExited
    | GateLooked
    | CheckFinished
    | BranchDelivered
    | CommandFailed
    | RunFrozen
    | FreezeFailed
    | RunThawed
    | AlarmRang
    | CheckpointSaved
    | PauseRequested
    | ResumeRequested
    | CancelRequested
    | ForeignEditFound
)
