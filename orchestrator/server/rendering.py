"""Tasks and requests as views: values of the core with every text of an agent redacted."""

from collections.abc import Iterable
from typing import TypeVar

from orchestrator.core.decide.final_message import ended_at, final_message, has_ended
from orchestrator.core.decide.transitions import allowed
from orchestrator.core.task.budget import Spending
from orchestrator.core.task.task import Task, TaskStatus
from orchestrator.core.task.ticket import TicketList
from orchestrator.core.task.user_requests import RequestStatus, UserRequest
from orchestrator.daemon.deliverables.progress import AgentProgress
from orchestrator.daemon.inspection.preview import Preview
from orchestrator.daemon.services.task_index import ListedTask
from orchestrator.daemon.task_factory import Submission
from orchestrator.server.schemas.base import Redact, compose_view
from orchestrator.server.schemas.daemon import PipelineView
from orchestrator.server.schemas.preview import PreviewView
from orchestrator.server.schemas.task_input import SubmissionBody
from orchestrator.server.schemas.tasks import (
    AgentStateView,
    AgentView,
    AutoSaveView,
    ChildView,
    ManyView,
    SpentView,
    TaskLine,
    TaskView,
)
from orchestrator.server.schemas.user_requests import RequestView

R = TypeVar("R", bound=RequestView)


def submission_of(body: SubmissionBody) -> Submission:
    """Return what a body submits; the tasks that it comes `after` are still names, and left out."""
    tickets = TicketList(**dict(body.tickets)) if body.tickets else None
    return Submission(**{**dict(body), "after": (), "tickets": tickets})


def preview_view(found: Preview, redact: Redact) -> PreviewView:
    """Return what a submission would become."""
    pipeline, task = found.pipeline, found.task
    about = (task.source, task.ticket, task.schedule, task.policy, task.evaluation) if task else ()
    return compose_view(
        PreviewView,
        redact,
        found,
        *about,
        title=task and task.title,
        pipeline=pipeline and compose_view(PipelineView, redact, pipeline, stages=tuple(pipeline.stages.values())),
    )


def task_view(task: Task, redact: Redact, spent_by_all: Spending | None = None) -> TaskView:
    """Return a task, whole; `spent_by_all` is what it and its children have used, if some of these have not ended."""
    requests = tuple(request_view(task, request, redact) for request in task.requests)
    agent = task.agent
    return compose_view(
        TaskView,
        redact,
        *(task, task.source, task.schedule, task.timing, task.evaluation, task.policy),
        agent=compose_view(
            AgentView,
            redact,
            agent,
            session_id=agent.session.id,
            turn=agent.turn.number,
            current_step=agent.turn.step,
            tokens_used=agent.usage.tokens,
            cost_usd=agent.usage.cost_usd,
        ),
        children=tuple(compose_view(ChildView, redact, child, child.plan) for child in task.children),
        allowed=allowed(task),
        requests=requests,
        waiting=tuple(view for view, request in zip(requests, task.requests, strict=True) if request.is_pending),
        paused=task.is_paused,
        spent=spent_view(task.spending.total),
        spent_by_all=spent_view(spent_by_all or task.spending.whole),
        closing=final_message(task, ended_at(task)) if has_ended(task) else None,
    )


def agent_state_view(found: AgentProgress, redact: Redact) -> AgentStateView:
    """Return what a task's agent is doing."""
    task, agent = found.task, found.task.agent
    return compose_view(
        AgentStateView,
        redact,
        agent,
        task,
        current_step=found.step,
        progress=found.percent,
        tokens_used=agent.usage.tokens,
        checkpoint=AutoSaveView(last_saved=agent.last_saved, auto_save_interval=round(1000 * found.checkpoint_every)),
    )


def spent_view(spent: Spending) -> SpentView:
    """Return what was used."""
    return SpentView(usd=spent.usd, tokens=spent.tokens, turns=spent.turns, hours=spent.seconds / 3600)


def task_line(one: ListedTask, redact: Redact) -> TaskLine:
    """Return a task's line in a list."""
    if isinstance(one, Task):
        return compose_view(
            TaskLine,
            redact,
            *(one, one.source, one.timing, one.schedule),
            ticket=one.ticket.key,
            paused=one.is_paused,
            blocked_by=one.agent.blocked_by,
        )
    return compose_view(TaskLine, redact, one, progress=100 if one.status is TaskStatus.COMPLETED else None)


def task_lines(tasks: Iterable[ListedTask], redact: Redact) -> tuple[TaskLine, ...]:
    """Return the lines of several tasks."""
    return tuple(task_line(task, redact) for task in tasks)


def many_view(tasks: Iterable[Task], redact: Redact) -> ManyView:
    """Return the tasks that a request to all of them changed."""
    return ManyView(tasks=task_lines(tasks, redact))


def request_view(task: Task, request: UserRequest, redact: Redact) -> RequestView:
    """Return one request."""
    return extended_request_view(RequestView, task, request, redact)


def extended_request_view(kind: type[R], task: Task, request: UserRequest, redact: Redact, **more: object) -> R:
    """Return a request with what its view has `more`; the answer of a dependency is a reason, never its value."""
    answer = None if request.status is RequestStatus.PROVIDED else request.answer
    name = f"{task.id}.{request.number}"
    return compose_view(kind, redact, request, request.draft, task.source, id=name, task=task.id, answer=answer, **more)
