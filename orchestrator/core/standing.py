"""How a task stands still and what for: held by somebody, waiting for an answer, or only for a place.

What holds it comes before what it waits for; when the hold is over, an unanswered ask is waited for again.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from types import MappingProxyType

from orchestrator.core.asks import DECIDE_YOURSELF, Answer, Ask, Asking, AskKind, AskStatus, Subject, next_reminder
from orchestrator.core.model import STANDING, AgentStatus, BlockedBy, Process, Task, TaskStatus
from orchestrator.core.notice import Notice, NoticeKind
from orchestrator.core.terms import Autonomy

_WAITING: Mapping[AskKind, tuple[AgentStatus, BlockedBy]] = MappingProxyType(
    {
        AskKind.QUESTION: (AgentStatus.WAITING_QUESTION, BlockedBy.QUESTION),
        AskKind.DEPENDENCY: (AgentStatus.WAITING_DEPENDENCY, BlockedBy.DEPENDENCY),
        AskKind.REVIEW: (AgentStatus.WAITING_REVIEW, BlockedBy.REVIEW),
    }
)
_ASKED = MappingProxyType(
    {
        AskKind.QUESTION: NoticeKind.QUESTION_ASKED,
        AskKind.DEPENDENCY: NoticeKind.DEPENDENCY_ASKED,
        AskKind.REVIEW: NoticeKind.REVIEW_ASKED,
    }
)
ALLOW, DENY = "allow", "deny"


def held(task: Task, by: BlockedBy) -> Task:
    """The task standing still until what holds it is over."""
    return replace(task, agent=replace(task.agent, status=AgentStatus.PAUSED, blocked_by=by))


def released(task: Task) -> Task:
    """The task no longer held: it waits for its first unanswered ask, or to be merged, or else wants a place."""
    if task.status is TaskStatus.PENDING:
        return replace(task, agent=replace(task.agent, status=AgentStatus.IDLE, blocked_by=None))
    ask = next(iter(task.pending_asks), None)
    kind = ask.kind if ask else AskKind.REVIEW if task.waits_for_merge else None
    status, by = _WAITING[kind] if kind else (AgentStatus.PAUSED, None)
    return replace(task, agent=replace(task.agent, status=status, blocked_by=by))


def let_go(task: Task) -> Task:
    """The task not waiting any more; what holds it, holds it still."""
    return task if is_held(task) else released(task)


def is_held(task: Task) -> bool:
    """Whether something other than an ask or the want of a place makes it stand still."""
    waiting = {by for _, by in _WAITING.values()}
    return task.agent.status in STANDING and task.agent.blocked_by not in {*waiting, None}


def with_ask(task: Task, asking: Asking, at: datetime) -> Task:
    """The task with one more thing to be answered, and standing still for it; a person is told."""
    ask = _record(task, asking, at)
    task = replace(task, asks=(*task.asks, ask))
    task = with_notice(task, _ASKED[ask.kind], asking.text, at, f"ask-{ask.number}")
    return task if is_held(task) else released(task)


def with_answered_ask(task: Task, asking: Asking, answer: Answer, at: datetime) -> Task:
    """The task with an ask on record that was answered without anybody being asked."""
    return replace(task, asks=(*task.asks, replace(_closed(_record(task, asking, at), answer, at), deadline=None)))


def with_answer(task: Task, number: int, answer: Answer, at: datetime) -> Task:
    """The task with a pending ask answered; it goes on waiting for others, or wants a place."""
    asks = tuple(_closed(ask, answer, at) if ask.number == number else ask for ask in task.asks)
    task = replace(task, asks=asks)
    return released(task) if task.paused and not is_held(task) else task


def with_notice(task: Task, kind: NoticeKind, text: str, at: datetime, key: str) -> Task:
    """The task with something to tell a person; nothing if that was told of before."""
    if any(notice.key == key for notice in task.notices):
        return task
    return replace(task, notices=(*task.notices, Notice(key=key, kind=kind, text=text[:2000], at=at)))


def parked(task: Task) -> Task:
    """The task with its agent's process being ended, its session kept for later."""
    return being_ended(task) if task.run is not None and task.run.of_agent else task


def being_ended(task: Task) -> Task:
    """The task with whatever runs of it being ended, so that nothing goes on in it."""
    return task if task.run is None else replace(task, run=replace(task.run, process=Process.PARKING, park_at=None))


def answered_by_policy(task: Task, asking: Asking) -> Answer | None:
    """How an unattended task answers; None for what only a person can give, and it is waited for."""
    if task.terms.autonomy is Autonomy.INTERACTIVE:
        return None
    match asking.subject:
        case Subject.STAGE | Subject.PLAN:
            return Answer(status=AskStatus.APPROVED)
        case Subject.MERGE | Subject.RELEASE:
            return None
        case Subject.PERMISSION:
            return Answer(status=AskStatus.ANSWERED, text=DENY)
        case Subject.QUESTION:
            return Answer(status=AskStatus.ANSWERED, text=asking.default or DECIDE_YOURSELF)
        case Subject.DEPENDENCY:
            return None if asking.required else Answer(status=AskStatus.SKIPPED, text=asking.default or "")


def when_due(task: Task, at: datetime) -> Task:
    """The task with whatever is overdue done: the default taken where nobody answered, or a person reminded."""
    for ask in task.pending_asks:
        reminder = next_reminder(ask, task.terms.reminders)
        if ask.deadline is not None and at >= ask.deadline:
            task = with_answer(task, ask.number, _default(ask.asking), at)
        elif reminder is not None and at >= reminder:
            past = sum(at >= ask.asked_at + timedelta(seconds=step) for step in task.terms.reminders)
            later = replace(ask, reminded=past)
            task = replace(task, asks=tuple(later if one.number == ask.number else one for one in task.asks))
            key = f"ask-{ask.number}-{later.reminded}"
            task = with_notice(task, NoticeKind.REMINDER, f"still unanswered: {ask.asking.text}", at, key)
    return task


def dues(task: Task) -> tuple[datetime, ...]:
    """When something about its asks is due."""
    times = ((ask.deadline, next_reminder(ask, task.terms.reminders)) for ask in task.pending_asks)
    return tuple(time for pair in times for time in pair if time is not None)


def _record(task: Task, asking: Asking, at: datetime) -> Ask:
    may_lapse = asking.subject is Subject.PERMISSION or (asking.subject is Subject.QUESTION and not asking.required)
    return Ask(
        number=len(task.asks) + 1,
        asking=replace(asking, content=""),
        digest=asking.digest,
        stage=task.stage,
        visit=task.stages[task.stage].visits,
        attempt=task.agent.attempt,
        turn=task.agent.turn,
        asked_at=at,
        deadline=at + timedelta(seconds=task.terms.question_timeout) if may_lapse else None,
    )


def _closed(ask: Ask, answer: Answer, at: datetime) -> Ask:
    return replace(ask, status=answer.status, answer=answer.text, answered_by=answer.by, answered_at=at)


def _default(asking: Asking) -> Answer:
    """What is taken where nobody answered in time: never more than was asked for."""
    if asking.subject is Subject.PERMISSION:
        return Answer(status=AskStatus.ANSWERED, text=DENY)
    if asking.default:
        return Answer(status=AskStatus.ANSWERED, text=asking.default)
    return Answer(status=AskStatus.SKIPPED, text=DECIDE_YOURSELF)
