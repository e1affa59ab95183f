"""How a task is paused and resumed, and what it asks people.

A reason to pause comes before an open request. When the reason is gone, the task waits for its open requests again.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from types import MappingProxyType

from orchestrator.core.events.notice import Notice, NoticeKind
from orchestrator.core.task.agent import PAUSED, AgentStatus, PauseReason, ProcessState
from orchestrator.core.task.task import Task, TaskStatus
from orchestrator.core.task.task_policy import Autonomy
from orchestrator.core.task.user_requests import (
    DECIDE_YOURSELF,
    Answer,
    RequestDraft,
    RequestKind,
    RequestStatus,
    Subject,
    UserRequest,
    next_reminder,
)

_WAITING: Mapping[RequestKind, tuple[AgentStatus, PauseReason]] = MappingProxyType(
    {
        RequestKind.QUESTION: (AgentStatus.WAITING_QUESTION, PauseReason.QUESTION),
        RequestKind.DEPENDENCY: (AgentStatus.WAITING_DEPENDENCY, PauseReason.DEPENDENCY),
        RequestKind.REVIEW: (AgentStatus.WAITING_REVIEW, PauseReason.REVIEW),
    }
)
_FOR_CHILDREN = (AgentStatus.WAITING_DEPENDENCY, PauseReason.CHILDREN)
_OF_TASK = frozenset({*(by for _, by in (*_WAITING.values(), _FOR_CHILDREN)), None})
"""The reasons to be paused that are the task's own: what it asked, its children, and the lack of a slot."""
_ASKED = MappingProxyType(
    {
        RequestKind.QUESTION: NoticeKind.QUESTION_ASKED,
        RequestKind.DEPENDENCY: NoticeKind.DEPENDENCY_ASKED,
        RequestKind.REVIEW: NoticeKind.REVIEW_ASKED,
    }
)
ALLOW, DENY = "allow", "deny"


def pause(task: Task, by: PauseReason) -> Task:
    """Return the task paused for a reason."""
    return replace(task, agent=replace(task.agent, status=AgentStatus.PAUSED, blocked_by=by))


def hold_for_account(task: Task, by: PauseReason) -> Task:
    """Return the task paused for a limit that other tasks reached; this does not count as a wait of its own."""
    if by in (PauseReason.RATE_LIMIT, PauseReason.SERVICE):
        task = task.with_setbacks(replace(task.agent.setbacks, limit_waits=0))
    return pause(task, by)


def unpause(task: Task) -> Task:
    """Return the task without this pause: it waits for a request, for the merge, for its children, or for a slot."""
    if task.status is TaskStatus.PENDING:
        return replace(task, agent=replace(task.agent, status=AgentStatus.IDLE, blocked_by=None))
    request = next(iter(task.pending_requests), None)
    kind = request.kind if request else RequestKind.REVIEW if task.waits_for_merge else None
    idle = _FOR_CHILDREN if task.waits_for_children else (AgentStatus.PAUSED, None)
    status, by = _WAITING[kind] if kind else idle
    return replace(task, agent=replace(task.agent, status=status, blocked_by=by))


def resume_if_free(task: Task) -> Task:
    """Return the task unpaused, unless the daemon or a person paused it for another reason."""
    return task if is_paused_by_daemon(task) else unpause(task)


def is_paused_by_daemon(task: Task) -> bool:
    """Return whether the task is paused for another reason than an open request or the lack of a slot."""
    return task.agent.status in PAUSED and task.agent.blocked_by not in _OF_TASK


def add_request(task: Task, draft: RequestDraft, at: datetime) -> Task:
    """Return the task with one more request that a person has to answer, paused until then."""
    request = _record(task, draft, at)
    task = replace(task, requests=(*task.requests, request))
    task = add_notice(task, _ASKED[request.kind], draft.text, at, f"ask-{request.number}")
    return task if is_paused_by_daemon(task) else unpause(task)


def add_answered_request(task: Task, draft: RequestDraft, answer: Answer, at: datetime) -> Task:
    """Return the task with a request on record that was answered without a person."""
    return replace(
        task, requests=(*task.requests, replace(_closed(_record(task, draft, at), answer, at), deadline=None))
    )


def answer_request(task: Task, number: int, answer: Answer, at: datetime) -> Task:
    """Return the task with an open request answered; it waits for the other requests, or for a slot."""
    requests = tuple(_closed(request, answer, at) if request.number == number else request for request in task.requests)
    task = replace(task, requests=requests)
    return unpause(task) if task.is_paused and not is_paused_by_daemon(task) else task


def add_notice(task: Task, kind: NoticeKind, text: str, at: datetime, key: str) -> Task:
    """Return the task with something to tell a person; unchanged if a notice with this key exists."""
    if any(notice.key == key for notice in task.notices):
        return task
    return replace(task, notices=(*task.notices, Notice(key=key, kind=kind, text=text[:2000], at=at)))


def park(task: Task) -> Task:
    """Return the task with its agent's process being stopped; the session is kept."""
    return end_processes(task) if task.run is not None and task.run.is_of_agent else task


def end_processes(task: Task) -> Task:
    """Return the task with its run being stopped, whatever it is."""
    return (
        task if task.run is None else replace(task, run=replace(task.run, process=ProcessState.PARKING, park_at=None))
    )


def answer_by_policy(task: Task, draft: RequestDraft) -> Answer | None:
    """Return how an unattended task answers; None for what only a person can give."""
    if task.policy.autonomy is Autonomy.INTERACTIVE:
        return None
    match draft.subject:
        case Subject.STAGE | Subject.PLAN | Subject.PUBLISH:
            return Answer(status=RequestStatus.APPROVED)
        case Subject.MERGE | Subject.RELEASE:
            return None
        case Subject.PERMISSION:
            return Answer(status=RequestStatus.ANSWERED, text=DENY)
        case Subject.QUESTION:
            return Answer(status=RequestStatus.ANSWERED, text=draft.default or DECIDE_YOURSELF)
        case Subject.DEPENDENCY:
            return None if draft.required else Answer(status=RequestStatus.SKIPPED, text=draft.default or "")


def apply_deadlines(task: Task, at: datetime) -> Task:
    """Return the task with overdue requests answered by their default, and people reminded of the others."""
    for request in task.pending_requests:
        reminder = next_reminder(request, task.policy.reminders)
        if request.deadline is not None and at >= request.deadline:
            task = answer_request(task, request.number, _default(request.draft), at)
        elif reminder is not None and at >= reminder:
            past = sum(at >= request.asked_at + timedelta(seconds=step) for step in task.policy.reminders)
            later = replace(request, reminded=past)
            task = replace(
                task, requests=tuple(later if one.number == request.number else one for one in task.requests)
            )
            key = f"ask-{request.number}-{later.reminded}"
            task = add_notice(task, NoticeKind.REMINDER, f"still unanswered: {request.draft.text}", at, key)
    return task


def deadlines(task: Task) -> tuple[datetime, ...]:
    """Return when a default or a reminder of a request is due."""
    times = ((request.deadline, next_reminder(request, task.policy.reminders)) for request in task.pending_requests)
    return tuple(time for pair in times for time in pair if time is not None)


def _record(task: Task, draft: RequestDraft, at: datetime) -> UserRequest:
    may_lapse = draft.subject is Subject.PERMISSION or (draft.subject is Subject.QUESTION and not draft.required)
    return UserRequest(
        number=len(task.requests) + 1,
        draft=replace(draft, content=""),
        digest=draft.digest,
        stage=task.stage,
        visit=task.stages[task.stage].visits,
        attempt=task.agent.attempt,
        turn=task.agent.turn.number,
        asked_at=at,
        deadline=at + timedelta(seconds=task.policy.question_timeout) if may_lapse else None,
    )


def _closed(request: UserRequest, answer: Answer, at: datetime) -> UserRequest:
    return replace(request, status=answer.status, answer=answer.text, answered_by=answer.by, answered_at=at)


def _default(draft: RequestDraft) -> Answer:
    """Return the answer that counts if no person answers in time; it never grants a permission."""
    if draft.subject is Subject.PERMISSION:
        return Answer(status=RequestStatus.ANSWERED, text=DENY)
    if draft.default:
        return Answer(status=RequestStatus.ANSWERED, text=draft.default)
    return Answer(status=RequestStatus.SKIPPED, text=DECIDE_YOURSELF)
