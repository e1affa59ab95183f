"""Commands that a task owes: imperatives that the daemon executes, each safe to repeat.

A command names its effect by numbers that never repeat within a task (attempt, turn, cycle), so that the
executor can see whether the effect is there already: a run's folder has a lock or an exit, a turn's line has its uuid,
a branch points at its commit.
"""

from dataclasses import dataclass
from datetime import datetime

from orchestrator.core.events.notice import Notice
from orchestrator.core.task.checks import Check
from orchestrator.core.task.children import Child
from orchestrator.core.task.publication import Reply
from orchestrator.core.task.user_requests import UserRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareWorkspace:
    """Clone what is missing and check the task's branch out in its worktree."""

    branch: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StartAgent:
    """Start an agent of a role under a holder, in a new session or resuming one."""

    attempt: int
    role: str
    session_id: str
    resume: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowRun:
    """Read a run's output from where reading stopped, and find its exit."""

    folder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SendTurn:
    """Send an agent its next turn; the CLI runs the same uuid once, however often it is sent."""

    attempt: int
    turn: int
    uuid: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SendAnswer:
    """Answer a request that an agent's process waits for; `requests` are all its questions, in their order."""

    attempt: int
    request_id: str
    requests: tuple[UserRequest, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class InterruptTurn:
    """End an agent's running turn and nothing else; the process takes the next one."""

    attempt: int
    turn: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRun:
    """End a run: interrupt if a turn is under way, end of input, TERM, KILL, each after its grace; then sweep."""

    folder: str
    interrupt: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FreezeRun:
    """Freeze a run's whole process tree."""

    folder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ThawRun:
    """Thaw a frozen process tree."""

    folder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LookAtGate:
    """Import the results of a stage and examine them; commits count from `since`."""

    stage: str
    visit: int
    turn: int
    attempt: int
    since: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCheck:
    """Run one check in a fresh checkout of exactly this commit."""

    folder: str
    check: Check
    commit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliverBranch:
    """Deliver the finished branch to the user's repository and write a summary."""

    branch: str
    commit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinParent:
    """Put the finished work on top of the parent's branch: move the branch there, or replay the commits first.

    With `squash`, as one commit.
    """

    parent: str
    base: str
    commit: str
    squash: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenPullRequest:
    """Push the branch and open a pull request, or update it; then answer these comments, each once.

    `confirmed` are the digests of the texts that a person approved although secrets were masked in them.
    """

    branch: str
    commit: str
    round: int
    replies: tuple[Reply, ...]
    confirmed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LookAtPullRequest:
    """Check the state of a pull request; comments and failed checks whose marks are in `seen` are not reported again.

    `asked` says that a person requested this look, so an earlier result must not be reused; `due` tells looks apart.
    """

    number: int
    round: int
    seen: tuple[str, ...]
    asked: bool = False
    due: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePullRequest:
    """Squash and merge exactly this head if every condition holds, and delete the merged branch."""

    number: int
    head: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareRelease:
    """Write the changelog of the version that the summary of the release names, and commit it."""

    branch: str
    commit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TagRelease:
    """Set and push the tag of a version at exactly this commit."""

    version: str
    commit: str
    branch: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PostReport:
    """Post the stage's report on the ticket, if its tracker takes comments; `confirmed` as in OpenPullRequest."""

    stage: str
    confirmed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitChildren:
    """Make these planned children tasks, each once; `plan` is the file that has their texts."""

    plan: str
    children: tuple[Child, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowChildren:
    """Report which of these children's tasks have ended, and each of the others when it ends."""

    tasks: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelChildren:
    """Cancel these children's tasks, if they have not ended."""

    tasks: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TellPerson:
    """Notify a person, once for each key."""

    notice: Notice


@dataclass(frozen=True, slots=True, kw_only=True)
class WakeAt:
    """Post an alarm at this time."""

    at: datetime


Command = (
    PrepareWorkspace
    | StartAgent
    | FollowRun
    | SendTurn
    | SendAnswer
    | InterruptTurn
    | StopRun
    | FreezeRun
    | ThawRun
    | LookAtGate
    | RunCheck
    | DeliverBranch
    | JoinParent
    | OpenPullRequest
    | LookAtPullRequest
    | MergePullRequest
    | PrepareRelease
    | TagRelease
    | PostReport
    | SubmitChildren
    | FollowChildren
    | CancelChildren
    | TellPerson
    | WakeAt
)
