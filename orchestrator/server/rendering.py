"""Tasks and requests as views: values of the core with every text of an agent redacted."""

from collections.abc import Callable, Iterable
from dataclasses import fields

from orchestrator.core.decide.final_message import ended_at, final_message, has_ended
from orchestrator.core.decide.transitions import allowed
from orchestrator.core.task.agent import Agent
from orchestrator.core.task.budget import Spending
from orchestrator.core.task.task import Task, TaskStatus
from orchestrator.core.task.user_requests import RequestStatus, UserRequest
from orchestrator.daemon.services.task_index import ListedTask
from orchestrator.server.schemas.base import to_view
from orchestrator.server.schemas.tasks import ManyView, TaskLine, TaskView
from orchestrator.server.schemas.user_requests import RequestView

Redact = Callable[[str], str]

_SAME_NAME = (
    *("id", "title", "status", "block_reason", "stage", "progress", "ticket", "pipeline", "folder", "retry_at"),
    *("updated_at", "cycle", "run", "stages", "steps", "feedback", "failures", "budgets", "publication"),
)


def task_view(task: Task, redact: Redact) -> TaskView:
    """Return a task, whole."""
    shown = {name: getattr(task, name) for name in _SAME_NAME}
    for part in (task.source, task.schedule, task.timing, task.evaluation):
        shown |= {one.name: getattr(part, one.name) for one in fields(part)}
    requests = tuple(request_view(task, request, redact) for request in task.requests)
    shown |= {
        "next_action": task.next_action,
        "requested_changes": task.requested_changes,
        "agent": agent_view(task.agent),
        "allowed": allowed(task),
        "requests": requests,
        "waiting": tuple(view for view, request in zip(requests, task.requests, strict=True) if request.is_pending),
        "paused": task.is_paused,
        "autonomy": task.policy.autonomy,
        "caps": task.policy.caps,
        "spent": spent_shown(task.spending.total),
        "closing": final_message(task, ended_at(task)) if has_ended(task) else None,
    }
    return to_view(TaskView, shown, redact)


def agent_view(agent: Agent) -> dict[str, object]:
    """The agent, as `AgentView` has it."""
    return {
        "status": agent.status,
        "blocked_by": agent.blocked_by,
        "role": agent.role,
        "attempt": agent.attempt,
        "pid": agent.pid,
        "session_id": agent.session.id,
        "turn": agent.turn.number,
        "current_step": agent.turn.step,
        "tokens_used": agent.usage.tokens,
        "cost_usd": agent.usage.cost_usd,
        "last_update": agent.last_update,
    }


def spent_shown(spent: Spending) -> dict[str, float]:
    """Return what was used, in the fields of `SpentView`."""
    return {"usd": spent.usd, "tokens": spent.tokens, "turns": spent.turns, "hours": spent.seconds / 3600}


def task_line(one: ListedTask, redact: Redact) -> TaskLine:
    """Return a task's line in a list."""
    shown: dict[str, object] = {
        "id": one.id,
        "title": one.title,
        "status": one.status,
        "stage": one.stage,
        "updated_at": one.updated_at,
    }
    if isinstance(one, Task):
        shown |= {
            "ticket": one.ticket.key,
            "repo": one.source.repo,
            "created_at": one.timing.created_at,
            "paused": one.is_paused,
            "blocked_by": one.agent.blocked_by,
            "progress": one.progress,
            "priority": one.schedule.priority,
        }
    else:
        shown |= {
            "ticket": one.ticket,
            "repo": one.repo,
            "created_at": one.created_at,
            "progress": 100 if one.status is TaskStatus.COMPLETED else None,
        }
    return to_view(TaskLine, shown, redact)


def task_lines(tasks: Iterable[ListedTask], redact: Redact) -> tuple[TaskLine, ...]:
    """Return the lines of several tasks."""
    return tuple(task_line(task, redact) for task in tasks)


def many_view(tasks: Iterable[Task], redact: Redact) -> ManyView:
    """Return the tasks that a request to all of them changed."""
    return ManyView(tasks=task_lines(tasks, redact))


def request_view(task: Task, request: UserRequest, redact: Redact) -> RequestView:
    """Return one request; the answer of a dependency is a reason, never its value."""
    draft = request.draft
    shown = {
        "id": f"{task.id}.{request.number}",
        "task": task.id,
        "number": request.number,
        "kind": request.kind,
        "subject": draft.subject,
        "name": draft.name,
        "type": draft.type,
        "text": draft.text,
        "options": draft.options,
        "default": draft.default,
        "required": draft.required,
        "digest": request.digest,
        "stage": request.stage,
        "asked_at": request.asked_at,
        "deadline": request.deadline,
        "status": request.status,
        "answer": None if request.status is RequestStatus.PROVIDED else request.answer,
        "answered_by": request.answered_by,
        "answered_at": request.answered_at,
    }
    return to_view(RequestView, shown, redact)
