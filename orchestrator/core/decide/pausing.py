"""How a task stands still and what for: held by somebody, waiting for an answer, or only for a place.

What holds it comes before what it waits for; when the hold is over, an unanswered ask is waited for again.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from types import MappingProxyType

from orchestrator.core.task.agent import PAUSED, AgentStatus, PauseReason, ProcessState
from orchestrator.core.task.notice import Notice, NoticeKind
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
_ASKED = MappingProxyType(
    {
        RequestKind.QUESTION: NoticeKind.QUESTION_ASKED,
        RequestKind.DEPENDENCY: NoticeKind.DEPENDENCY_ASKED,
        RequestKind.REVIEW: NoticeKind.REVIEW_ASKED,
    }
)
ALLOW, DENY = "allow", "deny"


def pause(task: Task, by: PauseReason) -> Task:
    """The task standing still until what holds it is over."""
    return replace(task, agent=replace(task.agent, status=AgentStatus.PAUSED, blocked_by=by))


def hold_for_account(task: Task, by: PauseReason) -> Task:
    """Return the task paused because of what others met or spent: it has no waits of its own to count."""
    if by in (PauseReason.RATE_LIMIT, PauseReason.SERVICE):
        task = replace(task, agent=replace(task.agent, setbacks=replace(task.agent.setbacks, limit_waits=0)))
    return pause(task, by)


def unpause(task: Task) -> Task:
    """The task no longer held: it waits for its first unanswered ask, or to be merged, or else wants a place."""
    if task.status is TaskStatus.PENDING:
        return replace(task, agent=replace(task.agent, status=AgentStatus.IDLE, blocked_by=None))
    ask = next(iter(task.pending_requests), None)
    kind = ask.kind if ask else RequestKind.REVIEW if task.waits_for_merge else None
    status, by = _WAITING[kind] if kind else (AgentStatus.PAUSED, None)
    return replace(task, agent=replace(task.agent, status=status, blocked_by=by))


def resume_if_free(task: Task) -> Task:
    """The task not waiting any more; what holds it, holds it still."""
    return task if is_paused_by_daemon(task) else unpause(task)


def is_paused_by_daemon(task: Task) -> bool:
    """Whether something other than an ask or the want of a place makes it stand still."""
    waiting = {by for _, by in _WAITING.values()}
    return task.agent.status in PAUSED and task.agent.blocked_by not in {*waiting, None}


def add_request(task: Task, asking: RequestDraft, at: datetime) -> Task:
    """The task with one more thing to be answered, and standing still for it; a person is told."""
    ask = _record(task, asking, at)
    task = replace(task, requests=(*task.requests, ask))
    task = add_notice(task, _ASKED[ask.kind], asking.text, at, f"ask-{ask.number}")
    return task if is_paused_by_daemon(task) else unpause(task)


def add_answered_request(task: Task, asking: RequestDraft, answer: Answer, at: datetime) -> Task:
    """The task with an ask on record that was answered without anybody being asked."""
    return replace(
        task, requests=(*task.requests, replace(_closed(_record(task, asking, at), answer, at), deadline=None))
    )


def answer_request(task: Task, number: int, answer: Answer, at: datetime) -> Task:
    """The task with a pending ask answered; it goes on waiting for others, or wants a place."""
    asks = tuple(_closed(ask, answer, at) if ask.number == number else ask for ask in task.requests)
    task = replace(task, requests=asks)
    return unpause(task) if task.is_paused and not is_paused_by_daemon(task) else task


def add_notice(task: Task, kind: NoticeKind, text: str, at: datetime, key: str) -> Task:
    """The task with something to tell a person; nothing if that was told of before."""
    if any(notice.key == key for notice in task.notices):
        return task
    return replace(task, notices=(*task.notices, Notice(key=key, kind=kind, text=text[:2000], at=at)))


def park(task: Task) -> Task:
    """The task with its agent's process being ended, its session kept for later."""
    return end_processes(task) if task.run is not None and task.run.is_of_agent else task


def end_processes(task: Task) -> Task:
    """The task with whatever runs of it being ended, so that nothing goes on in it."""
    return (
        task if task.run is None else replace(task, run=replace(task.run, process=ProcessState.PARKING, park_at=None))
    )


def answer_by_policy(task: Task, asking: RequestDraft) -> Answer | None:
    """How an unattended task answers; None for what only a person can give, and it is waited for."""
    if task.policy.autonomy is Autonomy.INTERACTIVE:
        return None
    match asking.subject:
        case Subject.STAGE | Subject.PLAN:
            return Answer(status=RequestStatus.APPROVED)
        case Subject.MERGE | Subject.RELEASE:
            return None
        case Subject.PERMISSION:
            return Answer(status=RequestStatus.ANSWERED, text=DENY)
        case Subject.QUESTION:
            return Answer(status=RequestStatus.ANSWERED, text=asking.default or DECIDE_YOURSELF)
        case Subject.DEPENDENCY:
            return None if asking.required else Answer(status=RequestStatus.SKIPPED, text=asking.default or "")


def apply_deadlines(task: Task, at: datetime) -> Task:
    """The task with whatever is overdue done: the default taken where nobody answered, or a person reminded."""
    for ask in task.pending_requests:
        reminder = next_reminder(ask, task.policy.reminders)
        if ask.deadline is not None and at >= ask.deadline:
            task = answer_request(task, ask.number, _default(ask.draft), at)
        elif reminder is not None and at >= reminder:
            past = sum(at >= ask.asked_at + timedelta(seconds=step) for step in task.policy.reminders)
            later = replace(ask, reminded=past)
            task = replace(task, requests=tuple(later if one.number == ask.number else one for one in task.requests))
            key = f"ask-{ask.number}-{later.reminded}"
            task = add_notice(task, NoticeKind.REMINDER, f"still unanswered: {ask.draft.text}", at, key)
    return task


def deadlines(task: Task) -> tuple[datetime, ...]:
    """When something about its asks is due."""
    times = ((ask.deadline, next_reminder(ask, task.policy.reminders)) for ask in task.pending_requests)
    return tuple(time for pair in times for time in pair if time is not None)


def _record(task: Task, asking: RequestDraft, at: datetime) -> UserRequest:
    may_lapse = asking.subject is Subject.PERMISSION or (asking.subject is Subject.QUESTION and not asking.required)
    return UserRequest(
        number=len(task.requests) + 1,
        draft=replace(asking, content=""),
        digest=asking.digest,
        stage=task.stage,
        visit=task.stages[task.stage].visits,
        attempt=task.agent.attempt,
        turn=task.agent.turn.number,
        asked_at=at,
        deadline=at + timedelta(seconds=task.policy.question_timeout) if may_lapse else None,
    )


def _closed(ask: UserRequest, answer: Answer, at: datetime) -> UserRequest:
    return replace(ask, status=answer.status, answer=answer.text, answered_by=answer.by, answered_at=at)


def _default(asking: RequestDraft) -> Answer:
    """What is taken where nobody answered in time: never more than was asked for."""
    if asking.subject is Subject.PERMISSION:
        return Answer(status=RequestStatus.ANSWERED, text=DENY)
    if asking.default:
        return Answer(status=RequestStatus.ANSWERED, text=asking.default)
    return Answer(status=RequestStatus.SKIPPED, text=DECIDE_YOURSELF)
