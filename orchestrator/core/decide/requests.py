"""What people ask of a task, or the daemon on their behalf: pause and resume, answers, retries, budgets.

A request that the task's state does not allow raises InvalidTransition; an answer that does not fit raises
AnswerRefused. Then nothing has changed.
"""

from dataclasses import replace
from typing import assert_never

from orchestrator.core.decide import lifecycle, outcomes, pausing, publishing, transitions, turns
from orchestrator.core.events import events
from orchestrator.core.task.agent import AgentStatus, PauseReason, ProcessState
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.task import NextAction, Task, TaskStatus
from orchestrator.core.task.user_requests import (
    Answer,
    BadAnswer,
    RequestKind,
    RequestStatus,
    Subject,
    UserRequest,
    validate_answer,
)
from orchestrator.errors import AnswerRefused, InvalidTransition
from orchestrator.formats.person import person_name

_ENDS = {
    RequestKind.QUESTION: {RequestStatus.ANSWERED: "answer", RequestStatus.SKIPPED: "answer"},
    RequestKind.DEPENDENCY: {RequestStatus.PROVIDED: "provide", RequestStatus.REJECTED: "provide"},
    RequestKind.REVIEW: {RequestStatus.APPROVED: "approve", RequestStatus.CHANGES_REQUESTED: "request-changes"},
}


def apply_request(pipeline: Pipeline, task: Task, event: events.Request) -> Task:
    """Return the task after a request."""
    match event:
        case events.PauseRequested():
            return _pause(task, event)
        case events.ResumeRequested():
            return _resume(task, event)
        case events.CancelRequested():
            return _cancel(task)
        case events.RoundRequested():
            transitions.require("review", task)
            return publishing.request_round(task)
        case events.ArchiveRequested():
            transitions.require("archive", task)
            return replace(task, status=TaskStatus.ARCHIVED)
        case events.RetryRequested():
            return _retry(pipeline, task, event)
        case events.DraftChanged():
            transitions.require("change", task)
            return replace(event.task, seq=task.seq, notices=task.notices)
        case events.DraftSubmitted():
            return _submit(task, event)
        case events.AskAnswered():
            return _answer_request(pipeline, task, event)
        case events.CapsChanged():
            return _change_caps(task, event)
        case events.PriorityChanged():
            return replace(task, schedule=replace(task.schedule, priority=event.priority))
        case _:
            assert_never(event)


def _pause(task: Task, event: events.PauseRequested) -> Task:
    """Return the paused task; a turn under way is ended first where the event names it."""
    if event.blocked_by is PauseReason.USER:
        transitions.require("pause", task)
    elif not task.holds_slot:
        return pausing.park(task) if event.park and task.is_paused else task
    if event.turn is not None:
        under_way = (task.next_action, task.agent.turn.number) == (NextAction.TURN, event.turn)
        return turns.interrupt_turn(task, event.at) if under_way else task
    task = pausing.hold_for_account(task, event.blocked_by)
    return pausing.park(task) if event.park else task


def _resume(task: Task, event: events.ResumeRequested) -> Task:
    """Return the task resumed as soon as possible; a time that it waited for is over now."""
    if event.at_once:
        return _let_run(task, event)
    if event.blocked_by is PauseReason.USER:
        transitions.require("resume", task)
    elif not task.is_paused or task.agent.blocked_by is not event.blocked_by:
        return task
    due = event.at if task.waits_for_service else task.retry_at or event.at
    retry_at = due if task.next_action is NextAction.RETRY else None
    task = replace(task, retry_at=task.retry_at if task.status is TaskStatus.REVIEW else retry_at)
    return pausing.unpause(task)


def _let_run(task: Task, event: events.ResumeRequested) -> Task:
    """Return the task as one that may run now, whatever its start time and its run windows say.

    A parent that waits for its children may go on then, and those that it submits later may begin.
    """
    waits_for_children = task.is_paused and task.agent.blocked_by is PauseReason.CHILDREN
    if not (task.wants_slot or task.holds_slot or waits_for_children):
        transitions.require("resume", task)
    schedule = replace(task.schedule, start_at=None, let_run_at=event.at)
    task = replace(task, schedule=schedule)
    return _resume(task, replace(event, at_once=False)) if "resume" in transitions.allowed(task) else task


def _cancel(task: Task) -> Task:
    """Return the task cancelled."""
    transitions.require("cancel", task)
    agent = replace(task.agent, status=AgentStatus.FAILED, blocked_by=None)
    return replace(task, status=TaskStatus.CANCELLED, next_action=NextAction.NOTHING, agent=agent)


def _retry(pipeline: Pipeline, task: Task, event: events.RetryRequested) -> Task:
    """Return the blocked task at the beginning of its stage, with every budget reset; its agent's requests stay open.

    A run that still exists is stopped, so nothing goes on in it. Reviews of the blocked visit are withdrawn. A failed
    task does not go on; the daemon makes a new one of it.
    """
    transitions.require("retry", task)
    if task.status is not TaskStatus.BLOCKED:
        raise InvalidTransition("continue", task.status, task.stage, transitions.allowed(task))
    agent = replace(
        task.agent,
        status=AgentStatus.PAUSED,
        blocked_by=None,
        setbacks=replace(task.agent.setbacks, nudges=0, limit_waits=0, losses=0),
    )
    task = outcomes.reset_all_retries(task)
    task = replace(task, status=TaskStatus.IN_PROGRESS, block_reason=None, agent=agent, retry_at=None)
    for request in task.pending_requests:
        if request.draft.subject.of_daemon:
            task = pausing.answer_request(
                task, request.number, Answer(status=RequestStatus.WITHDRAWN, by=event.by), event.at
            )
    task = pausing.end_processes(pausing.unpause(task))
    if task.source.worktree is None:
        return replace(task, next_action=NextAction.WORKSPACE)
    return lifecycle.enter_stage(pipeline, task, task.stage, event.at)


def _submit(task: Task, event: events.DraftSubmitted) -> Task:
    """Return the draft as a task that waits for a slot."""
    transitions.require("submit", task)
    task = replace(task, status=TaskStatus.PENDING, next_action=NextAction.ADMISSION)
    return pausing.pause(task, PauseReason.USER) if event.held else task


def _change_caps(task: Task, event: events.CapsChanged) -> Task:
    """Return the task with other caps, resumed if it was paused by the old ones and the new ones allow more.

    What may be spent after a usage limit counts from here, and a turn under way gets the time that is left now.
    """
    after_limit = None if task.spending.usd_at_limit is None else task.spending.total.usd
    spending = replace(task.spending, usd_at_limit=after_limit)
    task = replace(task, policy=replace(task.policy, caps=event.caps), spending=spending)
    if task.next_action is NextAction.TURN and task.agent.turn.active_since is not None:
        task = turns.add_worked_time(task, event.at)
        left = lifecycle.deadline(task, event.at)
        task = task.with_turn(replace(task.agent.turn, active_since=event.at, deadline=left))
    if task.is_paused and task.agent.blocked_by is PauseReason.BUDGET and lifecycle.cap_reached(task) is None:
        return pausing.unpause(task)
    return task


def _answer_request(pipeline: Pipeline, task: Task, event: events.AskAnswered) -> Task:
    """Return the task with one of its requests answered; only the first answer counts."""
    request = _find_request(task, event)
    match event.status:
        case RequestStatus.APPROVED:
            return _approve(pipeline, task, request, event)
        case RequestStatus.CHANGES_REQUESTED:
            return _request_changes(pipeline, task, request, event)
        case _:
            task = pausing.answer_request(task, request.number, _answer(event), event.at)
    respawned = (
        event.status is RequestStatus.PROVIDED
        and task.run is not None
        and task.run.process is not ProcessState.STARTING
    )
    return pausing.park(task) if respawned else task


def _answer(event: events.AskAnswered) -> Answer:
    return Answer(status=event.status, text=event.answer, by=event.by)


def _find_request(task: Task, event: events.AskAnswered) -> UserRequest:
    """Return the request that the answer is for. Raises AnswerRefused, BadAnswer and InvalidTransition."""
    request = next((one for one in task.requests if one.number == event.number), None)
    if request is None:
        raise AnswerRefused(f"task {task.id} asked nothing under the number {event.number}")
    if event.status not in _ENDS[request.kind]:
        fitting = " or ".join(sorted(set(_ENDS[request.kind].values())))
        raise AnswerRefused(f"this is a {request.kind}; {fitting} it")
    if not request.is_pending:
        given = (
            f" with {request.answer!r:.200}" if request.answer and request.kind is not RequestKind.DEPENDENCY else ""
        )
        by = person_name(request.answered_by or "nobody")
        raise AnswerRefused(f"it was {request.status} before, by {by}{given}; the first answer counts")
    transitions.require(_ENDS[request.kind][event.status], task)
    if event.digest is not None and event.digest != request.digest:
        raise AnswerRefused("what is to be answered is not what was seen; look at it again, then answer")
    if event.status is RequestStatus.ANSWERED and validate_answer(request.draft, event.answer) != event.answer:
        raise BadAnswer("the answer is not in the spelling of the options")
    if event.status is RequestStatus.SKIPPED and request.draft.required:
        raise BadAnswer("this question has to be answered; it cannot be skipped")
    if event.status is RequestStatus.CHANGES_REQUESTED and not event.answer.strip():
        raise BadAnswer("say which changes you want")
    return request


def _approve(pipeline: Pipeline, task: Task, request: UserRequest, event: events.AskAnswered) -> Task:
    task = pausing.answer_request(task, request.number, _answer(event), event.at)
    if task.status is not TaskStatus.REVIEW:
        return task
    if request.draft.subject in publishing.APPROVED:
        return publishing.continue_publishing(task, request.draft.subject)
    return lifecycle.advance(pipeline, pausing.resume_if_free(replace(task, status=TaskStatus.IN_PROGRESS)), event.at)


def _request_changes(pipeline: Pipeline, task: Task, request: UserRequest, event: events.AskAnswered) -> Task:
    """Return the task with the requested changes to be made. They have a budget of their own; the retries are reset."""
    task = pausing.answer_request(task, request.number, _answer(event), event.at)
    if task.status is not TaskStatus.REVIEW:
        return task
    wanted = (f"A person asks for changes: {event.answer}",)
    if request.draft.subject is Subject.RELEASE:
        task = replace(task, source=replace(task.source, head=task.publication.head))
    if request.draft.subject in publishing.APPROVED:
        return publishing.send_back(pipeline, task, wanted, event.at)
    task = pausing.resume_if_free(replace(task, status=TaskStatus.IN_PROGRESS))
    tried = outcomes.use_retry(task, "reworks")
    if tried is None:
        return outcomes.block(task, f"{task.stage}: changes were requested as often as the pipeline allows", event.at)
    stage = pipeline.stage(task.stage)
    if stage.work.is_done_by_agent and not stage.work.verifies:
        return lifecycle.continue_stage(
            pipeline, replace(outcomes.reset_retries(tried), feedback=(), requested_changes=wanted), event.at
        )
    back = stage.on_fail or task.stage
    if stage.budget is not None:  # a person has looked: the ways back that failures took are forgotten
        spent = replace(tried.budgets[stage.budget], used=0)
        tried = replace(tried, budgets={**tried.budgets, stage.budget: spent})
    return replace(lifecycle.enter_stage(pipeline, tried, back, event.at), requested_changes=wanted)
