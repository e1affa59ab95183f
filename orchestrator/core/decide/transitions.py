"""The state machines of tasks and agents as tables, and what a person may ask in each state.

A change that is in no table is refused with the state and what is allowed in it, and changes nothing.
"""

from collections.abc import Mapping
from types import MappingProxyType

from orchestrator.core.decide.lifecycle import cap_reached
from orchestrator.core.task.agent import AgentStatus, PauseReason
from orchestrator.core.task.task import Task, TaskStatus
from orchestrator.core.task.user_requests import RequestKind
from orchestrator.errors import InvalidTransition

_T, _A = TaskStatus, AgentStatus

TASK_TRANSITIONS: Mapping[TaskStatus, frozenset[TaskStatus]] = MappingProxyType(
    {
        _T.DRAFT: frozenset({_T.PENDING, _T.CANCELLED}),
        _T.PENDING: frozenset({_T.IN_PROGRESS, _T.CANCELLED, _T.FAILED}),
        _T.IN_PROGRESS: frozenset({_T.REVIEW, _T.COMPLETED, _T.FAILED, _T.BLOCKED, _T.CANCELLED}),
        _T.REVIEW: frozenset({_T.IN_PROGRESS, _T.COMPLETED, _T.FAILED, _T.BLOCKED, _T.CANCELLED}),
        _T.BLOCKED: frozenset({_T.IN_PROGRESS, _T.PENDING, _T.CANCELLED, _T.FAILED}),
        _T.FAILED: frozenset({_T.ARCHIVED}),
        _T.COMPLETED: frozenset({_T.ARCHIVED}),
        _T.CANCELLED: frozenset({_T.ARCHIVED}),
        _T.ARCHIVED: frozenset(),
    }
)

_WAITING = frozenset({_A.WAITING_DEPENDENCY, _A.WAITING_QUESTION, _A.WAITING_REVIEW})
_ENDED = frozenset({_A.COMPLETED, _A.FAILED})

AGENT_TRANSITIONS: Mapping[AgentStatus, frozenset[AgentStatus]] = MappingProxyType(
    {
        _A.IDLE: frozenset({_A.RUNNING, _A.PAUSED}) | _WAITING | _ENDED,
        _A.RUNNING: frozenset({_A.IDLE, _A.PAUSED}) | _WAITING | _ENDED,
        _A.PAUSED: frozenset({_A.RUNNING, _A.IDLE}) | _WAITING | _ENDED,
        _A.WAITING_DEPENDENCY: frozenset({_A.RUNNING, _A.IDLE, _A.PAUSED}) | _WAITING | _ENDED,
        _A.WAITING_QUESTION: frozenset({_A.RUNNING, _A.IDLE, _A.PAUSED}) | _WAITING | _ENDED,
        _A.WAITING_REVIEW: frozenset({_A.RUNNING, _A.IDLE, _A.PAUSED}) | _WAITING | _ENDED,
        _A.COMPLETED: frozenset({_A.IDLE, _A.RUNNING}),
        _A.FAILED: frozenset({_A.IDLE, _A.RUNNING, _A.PAUSED}) | _WAITING,
    }
)

_ANSWERS = ("answer", "provide", "approve", "request-changes")

ACTIONS: Mapping[TaskStatus, tuple[str, ...]] = MappingProxyType(
    {
        _T.DRAFT: ("change", "submit", "cancel", "delete"),
        _T.PENDING: ("pause", "resume", "cancel"),
        _T.IN_PROGRESS: (*_ANSWERS, "pause", "resume", "cancel"),
        _T.REVIEW: (*_ANSWERS, "review", "pause", "resume", "cancel"),
        _T.BLOCKED: ("retry", "cancel"),
        _T.COMPLETED: ("archive", "delete"),
        _T.FAILED: ("retry", "archive", "delete"),
        _T.CANCELLED: ("archive", "delete"),
        _T.ARCHIVED: ("delete",),
    }
)
"""What a person may request in each state; `allowed` leaves out what does not apply to the task now."""

_NEEDED_REQUEST: Mapping[str, RequestKind] = MappingProxyType(
    {
        "answer": RequestKind.QUESTION,
        "provide": RequestKind.DEPENDENCY,
        "approve": RequestKind.REVIEW,
        "request-changes": RequestKind.REVIEW,
    }
)


def allowed(task: Task) -> tuple[str, ...]:
    """Return what a person may request of the task now. A person may also pause a task that the daemon paused."""
    holder = task.agent.blocked_by if task.agent.status is _A.PAUSED else None
    asked = {request.kind for request in task.pending_requests}
    impossible = {action for action, kind in _NEEDED_REQUEST.items() if kind not in asked}
    impossible |= set() if task.waits_for_merge else {"review"}
    impossible |= {"pause"} if holder is PauseReason.USER else {"resume"} if holder is None else set()
    impossible |= {"resume"} if _over_budget(task) else set()
    return tuple(action for action in ACTIONS[task.status] if action not in impossible)


def require(action: str, task: Task) -> None:
    """Refuse an action that the task's state does not allow. Raises InvalidTransition."""
    if action not in allowed(task):
        over = _over_budget(task) if action == "resume" else None
        because = f"{over}; raise that with `orchestrator budget {task.id}`" if over else ""
        raise InvalidTransition(action, task.status, task.stage, allowed(task), because)


def _over_budget(task: Task) -> str | None:
    """Return which of its caps keeps the task paused, in words; resuming it would pause it again at once."""
    return cap_reached(task) if task.is_paused and task.agent.blocked_by is PauseReason.BUDGET else None


def require_legal(before: Task, after: Task) -> None:
    """Refuse a change of status that is in no table. Raises InvalidTransition."""
    if after.status is not before.status and after.status not in TASK_TRANSITIONS[before.status]:
        raise InvalidTransition(f"make {after.status} of", before.status, before.stage)
    old, new = before.agent.status, after.agent.status
    if new is not old and new not in AGENT_TRANSITIONS[old]:
        raise InvalidTransition(f"make the agent {new} of", f"{before.status} with its agent {old}", before.stage)
