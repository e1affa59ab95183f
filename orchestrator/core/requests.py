"""What people ask of a task, and the daemon in their stead: pause and resume, answers, retries, budgets.

A request that the task's state does not allow raises InvalidTransition, an answer that does not fit raises
AnswerRefused; then nothing has changed.
"""

from dataclasses import replace
from typing import assert_never

from orchestrator.core import course, events, halts, publishing, standing, transitions, turns
from orchestrator.core.asks import Answer, Ask, AskKind, AskStatus, BadAnswer, Subject, checked
from orchestrator.core.errors import AnswerRefused
from orchestrator.core.model import AgentStatus, BlockedBy, Owed, Process, Task, TaskStatus
from orchestrator.core.pipeline import Pipeline, Work

_ENDS = {
    AskKind.QUESTION: {AskStatus.ANSWERED: "answer", AskStatus.SKIPPED: "answer"},
    AskKind.DEPENDENCY: {AskStatus.PROVIDED: "provide", AskStatus.REJECTED: "provide"},
    AskKind.REVIEW: {AskStatus.APPROVED: "approve", AskStatus.CHANGES_REQUESTED: "request-changes"},
}


Request = (
    events.PauseRequested
    | events.ResumeRequested
    | events.CancelRequested
    | events.RoundRequested
    | events.ArchiveRequested
    | events.RetryRequested
    | events.DraftSubmitted
    | events.AskAnswered
    | events.CapsChanged
    | events.PriorityChanged
)
"""What may be asked of a task."""


def requested(pipeline: Pipeline, task: Task, event: Request) -> Task:
    """The task after what was asked of it."""
    match event:
        case events.PauseRequested():
            return _pause(task, event)
        case events.ResumeRequested():
            return _resume(task, event)
        case events.CancelRequested():
            return _cancel(task)
        case events.RoundRequested():
            transitions.require("review", task)
            return publishing.look_requested(task)
        case events.ArchiveRequested():
            transitions.require("archive", task)
            return replace(task, status=TaskStatus.ARCHIVED)
        case events.RetryRequested():
            return _retry(pipeline, task, event)
        case events.DraftSubmitted():
            return _submit(task, event)
        case events.AskAnswered():
            return _answered(pipeline, task, event)
        case events.CapsChanged():
            return _change_caps(task, event)
        case events.PriorityChanged():
            return replace(task, priority=event.priority)
        case _:
            assert_never(event)


def _pause(task: Task, event: events.PauseRequested) -> Task:
    """The task standing still; one held before a limit or trouble that others met has no waits of its own."""
    if event.blocked_by is BlockedBy.USER:
        transitions.require("pause", task)
    elif not task.holds_slot:
        return standing.parked(task) if event.park and task.paused else task
    if event.turn is not None:
        under_way = (task.owed, task.agent.turn) == (Owed.TURN, event.turn)
        return turns.interrupted(task, event.at) if under_way else task
    if event.blocked_by in (BlockedBy.RATE_LIMIT, BlockedBy.SERVICE):
        task = replace(task, agent=replace(task.agent, waits=0))
    task = standing.held(task, event.blocked_by)
    return standing.parked(task) if event.park else task


def _resume(task: Task, event: events.ResumeRequested) -> Task:
    """The task going on as soon as it may; what it waited for until a certain time is over now."""
    if event.blocked_by is BlockedBy.USER:
        transitions.require("resume", task)
    elif not task.paused or task.agent.blocked_by is not event.blocked_by:
        return task
    due = event.at if task.waits_for_service else task.retry_at or event.at
    retry_at = due if task.owed is Owed.RETRY else None
    task = replace(task, retry_at=task.retry_at if task.status is TaskStatus.REVIEW else retry_at)
    return standing.released(task)


def _cancel(task: Task) -> Task:
    """The task given up."""
    transitions.require("cancel", task)
    agent = replace(task.agent, status=AgentStatus.FAILED, blocked_by=None)
    return replace(task, status=TaskStatus.CANCELLED, owed=Owed.NOTHING, agent=agent)


def _retry(pipeline: Pipeline, task: Task, event: events.RetryRequested) -> Task:
    """The blocked task at the beginning of its stage again, every try renewed, and what is unanswered waited for.

    What still runs of it is being ended, so nothing goes on in it; a review of the visit that was blocked is none now.
    """
    transitions.require("retry", task)
    agent = replace(task.agent, status=AgentStatus.PAUSED, blocked_by=None, nudges=0, waits=0)
    task = halts.begun_anew(task)
    task = replace(task, status=TaskStatus.IN_PROGRESS, block_reason=None, agent=agent, retry_at=None)
    for ask in task.pending_asks:
        if ask.asking.subject.of_daemon:
            task = standing.with_answer(task, ask.number, Answer(status=AskStatus.WITHDRAWN, by=event.by), event.at)
    task = standing.being_ended(standing.released(task))
    if task.worktree is None:
        return replace(task, owed=Owed.WORKSPACE)
    return course.enter(pipeline, task, task.stage, event.at)


def _submit(task: Task, event: events.DraftSubmitted) -> Task:
    """The draft waiting for a place."""
    transitions.require("submit", task)
    task = replace(task, status=TaskStatus.PENDING, owed=Owed.ADMISSION)
    return standing.held(task, BlockedBy.USER) if event.held else task


def _change_caps(task: Task, event: events.CapsChanged) -> Task:
    """The task under other caps; one that was held by the old ones goes on if the new ones let it.

    What may be spent after a usage limit counts from here, and a turn under way has the time that is left now.
    """
    after_limit = None if task.spent_at_limit is None else task.total_spent.usd
    task = replace(task, terms=replace(task.terms, caps=event.caps), spent_at_limit=after_limit)
    if task.owed is Owed.TURN and task.agent.at_work_since is not None:
        task = turns.rested(task, event.at)
        agent = replace(task.agent, at_work_since=event.at, turn_deadline=course.deadline(task, event.at))
        task = replace(task, agent=agent)
    if task.paused and task.agent.blocked_by is BlockedBy.BUDGET and course.cap_reached(task) is None:
        return standing.released(task)
    return task


def _answered(pipeline: Pipeline, task: Task, event: events.AskAnswered) -> Task:
    """The task with one of its asks answered, once and for all."""
    ask = _pending(task, event)
    match event.status:
        case AskStatus.APPROVED:
            return _approved(pipeline, task, ask, event)
        case AskStatus.CHANGES_REQUESTED:
            return _changes_requested(pipeline, task, ask, event)
        case _:
            task = standing.with_answer(task, ask.number, _answer(event), event.at)
    respawned = event.status is AskStatus.PROVIDED and task.run is not None and task.run.process is not Process.STARTING
    return standing.parked(task) if respawned else task


def _answer(event: events.AskAnswered) -> Answer:
    return Answer(status=event.status, text=event.answer, by=event.by)


def _pending(task: Task, event: events.AskAnswered) -> Ask:
    """The ask that is meant, if this is an answer to it. Raises AnswerRefused, BadAnswer, InvalidTransition."""
    ask = next((one for one in task.asks if one.number == event.number), None)
    if ask is None:
        raise AnswerRefused(f"task {task.id} asked nothing under the number {event.number}")
    if event.status not in _ENDS[ask.kind]:
        fitting = " or ".join(sorted(set(_ENDS[ask.kind].values())))
        raise AnswerRefused(f"this is a {ask.kind}; {fitting} it")
    if not ask.pending:
        given = f" with {ask.answer!r:.200}" if ask.answer and ask.kind is not AskKind.DEPENDENCY else ""
        raise AnswerRefused(f"it was {ask.status} before, by {ask.answered_by}{given}; the first answer counts")
    transitions.require(_ENDS[ask.kind][event.status], task)
    if event.digest is not None and event.digest != ask.digest:
        raise AnswerRefused("what is to be answered is not what was seen; look at it again, then answer")
    if event.status is AskStatus.ANSWERED and checked(ask.asking, event.answer) != event.answer:
        raise BadAnswer("the answer is not in the spelling of the options")
    if event.status is AskStatus.SKIPPED and ask.asking.required:
        raise BadAnswer("this question has to be answered; it cannot be skipped")
    if event.status is AskStatus.CHANGES_REQUESTED and not event.answer.strip():
        raise BadAnswer("say which changes you want")
    return ask


def _approved(pipeline: Pipeline, task: Task, ask: Ask, event: events.AskAnswered) -> Task:
    task = standing.with_answer(task, ask.number, _answer(event), event.at)
    if task.status is not TaskStatus.REVIEW:
        return task
    if ask.asking.subject in (Subject.MERGE, Subject.RELEASE):
        return publishing.approved(task, ask.asking.subject)
    return course.advance(pipeline, standing.let_go(replace(task, status=TaskStatus.IN_PROGRESS)), event.at)


def _changes_requested(pipeline: Pipeline, task: Task, ask: Ask, event: events.AskAnswered) -> Task:
    """A person's rework has a budget of its own; the tries that count by themselves begin anew."""
    task = standing.with_answer(task, ask.number, _answer(event), event.at)
    if task.status is not TaskStatus.REVIEW:
        return task
    wanted = (f"A person asks for changes: {event.answer}",)
    if ask.asking.subject is Subject.RELEASE:
        task = replace(task, head=task.publication.head)
    if ask.asking.subject in (Subject.MERGE, Subject.RELEASE):
        return publishing.sent_back(pipeline, task, wanted, event.at)
    task = standing.let_go(replace(task, status=TaskStatus.IN_PROGRESS))
    tried = halts.spent(task, "reworks")
    if tried is None:
        return halts.blocked(task, f"{task.stage}: changes were requested as often as the pipeline allows", event.at)
    stage = pipeline.stage(task.stage)
    if stage.work in (Work.AGENT, Work.STEPS):
        return course.proceed(pipeline, replace(halts.renewed(tried), feedback=(), wanted=wanted), event.at)
    back = stage.on_fail or task.stage
    return replace(course.enter(pipeline, tried, back, event.at), wanted=wanted)
