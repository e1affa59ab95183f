"""Tasks and what they ask for as the API shows them: the core's values made into views."""

from collections.abc import Callable
from dataclasses import fields

from orchestrator.core.decide.final_message import ended_at, final_message, has_ended
from orchestrator.core.decide.transitions import allowed
from orchestrator.core.task.agent import Agent
from orchestrator.core.task.budget import Spending
from orchestrator.core.task.task import Task, TaskStatus
from orchestrator.core.task.user_requests import RequestStatus, UserRequest
from orchestrator.server.schemas.views import AskView, TaskLine, TaskView, to_view
from orchestrator.storage.records import TaskSummary

_SAME_NAME = (
    *("id", "title", "status", "block_reason", "stage", "progress", "ticket", "pipeline", "folder", "retry_at"),
    *("updated_at", "cycle", "run", "stages", "steps", "feedback", "failures", "budgets", "publication"),
)


def task_view(task: Task, redact: Callable[[str], str]) -> TaskView:
    """A task, whole."""
    shown = {name: getattr(task, name) for name in _SAME_NAME}
    for part in (task.source, task.schedule, task.timing, task.evaluation):
        shown |= {one.name: getattr(part, one.name) for one in fields(part)}
    asks = tuple(ask_view(task, ask, redact) for ask in task.requests)
    shown |= {
        "owed": task.next_action,
        "wanted": task.requested_changes,
        "agent": agent_view(task.agent),
        "allowed": allowed(task),
        "asks": asks,
        "waiting": tuple(view for view, ask in zip(asks, task.requests, strict=True) if ask.is_pending),
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
    """What was used, as `SpentView` has it."""
    return {"usd": spent.usd, "tokens": spent.tokens, "turns": spent.turns, "hours": spent.seconds / 3600}


def task_line(one: Task | TaskSummary, redact: Callable[[str], str]) -> TaskLine:
    """A task's line in a list."""
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


def ask_view(task: Task, ask: UserRequest, redact: Callable[[str], str]) -> AskView:
    """One thing that a person is asked for; a dependency's answer is a reason, never its value."""
    asking = ask.draft
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
