"""Tasks and what they ask for as the API shows them: the core's values made into views."""

from collections.abc import Callable

from orchestrator.core.decide.final_message import ended_at, final_message, has_ended
from orchestrator.core.decide.transitions import allowed
from orchestrator.core.task.budget import Spending
from orchestrator.core.task.model import Task, TaskStatus
from orchestrator.core.task.user_requests import RequestStatus, UserRequest
from orchestrator.server.schemas.views import AskView, TaskLine, TaskView, to_view
from orchestrator.storage.records import TaskSummary

_DERIVED = frozenset({"allowed", "asks", "waiting", "autonomy", "caps", "spent", "closing", "paused"})


def task_view(task: Task, redact: Callable[[str], str]) -> TaskView:
    """A task, whole."""
    shown = {name: getattr(task, name) for name in TaskView.model_fields if name not in _DERIVED}
    asks = tuple(ask_view(task, ask, redact) for ask in task.asks)
    shown |= {
        "allowed": allowed(task),
        "asks": asks,
        "waiting": tuple(view for view, ask in zip(asks, task.asks, strict=True) if ask.is_pending),
        "paused": task.is_paused,
        "autonomy": task.terms.autonomy,
        "caps": task.terms.caps,
        "spent": spent_shown(task.total_spent),
        "closing": final_message(task, ended_at(task)) if has_ended(task) else None,
    }
    return to_view(TaskView, shown, redact)


def spent_shown(spent: Spending) -> dict[str, float]:
    """What was used, as `SpentView` has it."""
    return {"usd": spent.usd, "tokens": spent.tokens, "turns": spent.turns, "hours": spent.seconds / 3600}


def task_line(one: Task | TaskSummary, redact: Callable[[str], str]) -> TaskLine:
    """A task's line in a list."""
    shown: dict[str, object] = {
        "id": one.id,
        "title": one.title,
        "status": one.status,
        "stage": one.stage,
        "repo": one.repo,
        "created_at": one.created_at,
        "updated_at": one.updated_at,
    }
    if isinstance(one, Task):
        shown |= {
            "ticket": one.ticket.key,
            "paused": one.is_paused,
            "blocked_by": one.agent.blocked_by,
            "progress": one.progress,
            "priority": one.priority,
        }
    else:
        shown |= {"ticket": one.ticket, "progress": 100 if one.status is TaskStatus.COMPLETED else None}
    return to_view(TaskLine, shown, redact)


def ask_view(task: Task, ask: UserRequest, redact: Callable[[str], str]) -> AskView:
    """One thing that a person is asked for; a dependency's answer is a reason, never its value."""
    asking = ask.asking
    shown = {
        "id": f"{task.id}.{ask.number}",
        "task": task.id,
        "number": ask.number,
        "kind": ask.kind,
        "subject": asking.subject,
        "name": asking.name,
        "type": asking.type,
        "text": asking.text,
        "options": asking.options,
        "default": asking.default,
        "required": asking.required,
        "digest": ask.digest,
        "stage": ask.stage,
        "asked_at": ask.asked_at,
        "deadline": ask.deadline,
        "status": ask.status,
        "answer": None if ask.status is RequestStatus.PROVIDED else ask.answer,
        "answered_by": ask.answered_by,
        "answered_at": ask.answered_at,
    }
    return to_view(AskView, shown, redact)
