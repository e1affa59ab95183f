"""Events of an agent's turn: its result, its questions and reports, its inactivity, its exit.

Each handler takes a task and an event of its present attempt and returns the task afterwards. An event of an earlier
attempt, or of output that was read before, changes nothing.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import assert_never

from orchestrator.core.decide import lifecycle, outcomes, pausing
from orchestrator.core.decide.obligations import agent_run_folder
from orchestrator.core.events import events
from orchestrator.core.events.agent_events import ErrorClass
from orchestrator.core.events.agent_messages import AgentError, Recovery
from orchestrator.core.events.notice import NoticeKind
from orchestrator.core.task.agent import AgentStatus, PauseReason, ProcessState, TurnProgress
from orchestrator.core.task.budget import Spending
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.task import NextAction, Task
from orchestrator.core.task.usage_limits import back_off, probe_at, resume_at
from orchestrator.core.task.user_requests import (
    POLICY,
    Answer,
    RequestDraft,
    RequestStatus,
    Subject,
    UserRequest,
    reusable,
)

_BEING_ENDED = (ProcessState.PARKING, ProcessState.UNFREEZABLE)
SHORT_WAIT = timedelta(seconds=60)
"""How long an agent is paused that asks to be paused and tried again."""
MOST_REQUESTS = 50
"""Requests in one visit of a stage; an agent that asks again and again would cost a turn each time."""
SERVICE_ERRORS = frozenset({ErrorClass.THROTTLED, ErrorClass.OVERLOADED, ErrorClass.SERVER})
ACCOUNT_ERRORS = frozenset({ErrorClass.AUTHENTICATION, ErrorClass.BILLING})
"""Failures of a turn that every other task of the account would meet too."""


def apply_turn_event(pipeline: Pipeline, task: Task, event: events.TurnEvent) -> Task:
    """Return the task after an event of its agent."""
    match event:
        case events.SessionStarted():
            return _on_session(task, event)
        case events.TurnFinished():
            return _on_finished(pipeline, task, event)
        case events.AgentSaid():
            return _on_message(task, event)
        case events.RequestWithdrawn():
            return _on_withdrawn(task, event)
        case events.AnswerSent():
            return _on_answer_sent(task, event)
        case events.StallSeen():
            return _on_stall(pipeline, task, event)
        case events.AgentExited():
            return _on_exit(pipeline, task, event)
        case _:
            assert_never(event)


def _on_session(task: Task, event: events.SessionStarted) -> Task:
    if event.attempt != task.agent.attempt or task.agent.session.is_known:
        return task
    session = replace(task.agent.session, is_known=True, id=event.session_id)
    return replace(task, agent=replace(task.agent, session=session))


def _on_finished(pipeline: Pipeline, task: Task, event: events.TurnFinished) -> Task:
    """Return the task after the result of a turn."""
    agent = task.agent
    if event.attempt != agent.attempt or event.offset <= agent.read_offset:
        return task
    was_under_way = task.next_action in (NextAction.TURN, NextAction.INTERRUPT) and task.is_active
    after = _add_usage(task, event)
    if not was_under_way:
        return after
    if event.outcome is events.TurnOutcome.OK:
        return _on_success(pipeline, _mark_delivered(after), event)
    if event.outcome is events.TurnOutcome.INTERRUPTED:
        return lifecycle.next_turn(pipeline, after, event.at)
    return _on_failure(pipeline, after, event)


def _on_message(task: Task, event: events.AgentSaid) -> Task:
    """Return the task after its agent asked for something or reported an error."""
    agent = task.agent
    if event.attempt != agent.attempt or event.offset <= agent.read_offset:
        return task
    task = replace(task, agent=replace(agent, read_offset=event.offset, last_update=event.at))
    if not task.is_active:
        return task
    if event.trouble is not None:
        task = _on_agent_error(task, event.trouble, event.at)
    if not task.is_active:
        return task
    answers = event.answers or (None,) * len(event.asking)
    for draft, answer in zip(event.asking, answers, strict=True):
        if task.is_active:
            task = _add_request(task, draft, answer, event.at)
    return task


def _on_answer_sent(task: Task, event: events.AnswerSent) -> Task:
    """Return the task whose agent got an answer; an agent that has exited since may not have read it."""
    if event.attempt != task.agent.attempt or task.run is None:
        return task
    requests = tuple(
        replace(request, is_delivered=True)
        if request.draft.request_id == event.request_id and request.attempt == event.attempt and request.is_undelivered
        else request
        for request in task.requests
    )
    return task if requests == task.requests else replace(task, requests=requests)


def _on_withdrawn(task: Task, event: events.RequestWithdrawn) -> Task:
    """Return the task whose agent no longer waits for an answer.

    A CLI that is being stopped withdraws its requests; its session still needs the answers when it is resumed.
    """
    if task.run is not None and task.run.process in _BEING_ENDED:
        return task
    for request in task.pending_requests:
        if request.draft.request_id == event.request_id and request.attempt == event.attempt:
            withdrawn = Answer(status=RequestStatus.WITHDRAWN, by=task.agent.role or "")
            task = pausing.answer_request(task, request.number, withdrawn, event.at)
    return task


def _on_stall(pipeline: Pipeline, task: Task, event: events.StallSeen) -> Task:
    """Return the task after a stall of its agent: first noted, then interrupted, then restarted, then blocked."""
    agent = task.agent
    if (
        (event.attempt, event.turn) != (agent.attempt, agent.turn.number)
        or task.next_action is not NextAction.TURN
        or task.is_paused
    ):
        return task
    task = task.with_setbacks(replace(agent.setbacks, nudges=agent.setbacks.nudges + 1))
    match task.agent.setbacks.nudges:
        case 1:
            return task
        case 2:
            nudge = f"You showed no activity ({event.evidence}). Continue your work, or end your turn."
            return interrupt_turn(replace(task, feedback=(*task.feedback, nudge)), event.at)
        case 3:
            return lifecycle.fail_attempt(pipeline, task, f"stalled: {event.evidence}", "stalled", event.at)
        case _:
            return outcomes.give_up(task, f"{task.stage}: stalled again after a restart: {event.evidence}", event.at)


def interrupt_turn(task: Task, at: datetime) -> Task:
    """Return the task whose running turn is being interrupted, to be followed by another."""
    deadline = at + timedelta(seconds=min(60.0, task.policy.turn_timeout))
    return replace(task.with_turn(replace(task.agent.turn, deadline=deadline)), next_action=NextAction.INTERRUPT)


def _on_exit(pipeline: Pipeline, task: Task, event: events.AgentExited) -> Task:
    """Return the task after its agent's process exited."""
    run = task.run
    if run is None or run.folder != agent_run_folder(event.attempt):
        return task
    agent = replace(
        task.agent,
        status=AgentStatus.IDLE if task.agent.status is AgentStatus.RUNNING else task.agent.status,
        pid=None,
        turn=replace(_without_tools(task.agent.turn), active_since=None),
        read_offset=max(event.offset, task.agent.read_offset),
    )
    if event.code is None:
        agent = lifecycle.bank_usage(agent)
    task = replace(add_worked_time(task, event.at), run=None, agent=agent)
    if not task.is_active:
        return task
    task = _mark_undelivered(task) if task.next_action in (NextAction.TURN, NextAction.INTERRUPT) else task
    if task.next_action is NextAction.STOP:
        return (
            replace(task, next_action=NextAction.RETRY)
            if task.retry_at
            else lifecycle.continue_stage(pipeline, task, event.at)
        )
    if task.next_action not in (NextAction.AGENT, NextAction.TURN, NextAction.INTERRUPT):
        return task
    if task.is_paused or run.process in _BEING_ENDED:
        at_once = None if task.waits_for_service else event.at
        return replace(task, next_action=NextAction.RETRY, retry_at=task.retry_at or at_once)
    if event.blames_installation:
        return pausing.hold_for_account(replace(task, next_action=NextAction.RETRY), PauseReason.SERVICE)
    follow = lifecycle.lose_attempt if event.is_lost else lifecycle.fail_attempt
    return follow(pipeline, task, event.reason, "agent_lost", event.at)


def _without_tools(turn: TurnProgress) -> TurnProgress:
    """Return a turn that has ended: it has no deadline, and no tool runs."""
    return replace(turn, deadline=None, open_tools=0, tool="", tool_since=None)


def _mark_undelivered(task: Task) -> Task:
    """Return the task with the answers of an unfinished turn undelivered again; the session may not hold them."""
    now = (task.agent.attempt, task.agent.turn.number)
    requests = tuple(
        replace(request, is_delivered=False)
        if request.is_delivered and request.draft.request_id and (request.attempt, request.turn) == now
        else request
        for request in task.requests
    )
    return task if requests == task.requests else replace(task, requests=requests)


def add_worked_time(task: Task, at: datetime) -> Task:
    """Return the task with the time added that its agent has worked since it last began or continued."""
    since = task.agent.turn.active_since
    if since is None:
        return task
    task = _with_spending(task, Spending(seconds=max(0.0, (at - since).total_seconds())), at)
    return task.with_turn(replace(task.agent.turn, active_since=None))


def _add_usage(task: Task, event: events.TurnFinished) -> Task:
    agent = task.agent
    old = agent.usage
    tokens, usd = old.tokens_before_session + event.tokens, old.cost_before_session + event.cost_usd
    used = Spending(usd=max(0.0, round(usd - old.cost_usd, 6)), tokens=max(0, tokens - old.tokens), turns=1)
    task = add_worked_time(_with_spending(task, used, event.at), event.at)
    agent = replace(
        task.agent,
        read_offset=event.offset,
        turn=replace(_without_tools(task.agent.turn), tool_uses=event.tool_uses, tokens=0, usd=0.0),
        usage=replace(task.agent.usage, tokens=tokens, cost_usd=usd),
        last_update=event.at,
    )
    return replace(task, agent=agent)


def _mark_delivered(task: Task) -> Task:
    """Return the task after a successful turn: its agent knows the turn's answers and those that it waited for."""
    now = (task.agent.attempt, task.agent.turn.number)
    requests = tuple(
        replace(request, is_delivered=True)
        if request.is_undelivered and (request.draft.request_id or (request.attempt, request.turn) < now)
        else request
        for request in task.requests
    )
    return task if requests == task.requests else replace(task, requests=requests)


def _on_success(pipeline: Pipeline, task: Task, event: events.TurnFinished) -> Task:
    agent = task.agent
    rest = replace(
        agent,
        setbacks=replace(agent.setbacks, limit_waits=0, nudges=0, losses=0),
        turn=replace(agent.turn, timed_out=(), was_frozen_in_tool=False),
    )
    task = replace(task, agent=rest)
    if task.next_action is NextAction.INTERRUPT or any(
        request.is_pending or request.is_undelivered for request in _of_this_turn(task)
    ):
        return lifecycle.next_turn(pipeline, task, event.at)
    if agent.turn.was_frozen_in_tool and agent.turn.timed_out:
        rerun = tuple(
            f"the command {name!r} ran out of time only because you had been stopped meanwhile; run it again"
            for name in agent.turn.timed_out
        )
        return lifecycle.next_turn(pipeline, replace(task, feedback=rerun), event.at)
    if event.malformed and not agent.setbacks.was_corrected:
        task = task.with_setbacks(replace(task.agent.setbacks, was_corrected=True))
        task = replace(task, feedback=event.malformed)
        return lifecycle.next_turn(pipeline, task, event.at)
    if event.malformed:
        return lifecycle.try_again(pipeline, task, event.malformed, event.at)
    return replace(task, next_action=NextAction.GATE)


def _of_this_turn(task: Task) -> tuple[UserRequest, ...]:
    now = (task.agent.attempt, task.agent.turn.number)
    return tuple(
        request
        for request in task.requests
        if (request.attempt, request.turn) == now and not request.draft.subject.of_daemon
    )


def _on_failure(pipeline: Pipeline, task: Task, event: events.TurnFinished) -> Task:
    if event.error_class == ErrorClass.USAGE_LIMIT:
        return _wait_for_limit(pipeline, task, event)
    if event.error_class in SERVICE_ERRORS:
        return _wait_for_service(pipeline, task, event)
    if event.error_class in ACCOUNT_ERRORS:
        return _wait_for_account(pipeline, task, event)
    if event.blames_installation:
        return _wait_for_repair(pipeline, task, event.at)
    if event.error_class == ErrorClass.BUDGET and lifecycle.cap_reached(task) is not None:
        return pausing.park(lifecycle.next_turn(pipeline, task, event.at))
    if task.run is not None and task.run.process is ProcessState.PARKING:
        return lifecycle.next_turn(pipeline, task, event.at)
    if event.error_class and event.error_class in lifecycle.FOR_A_PERSON:
        remedy = lifecycle.FOR_A_PERSON[event.error_class]
        reason = f"{task.stage}: {event.reason or event.error_class}; to fix this, {remedy}"
        return outcomes.block(task, reason, event.at)
    if event.error_class == ErrorClass.SESSION and task.agent.session.is_resumed:
        return lifecycle.restart_session(task, event.at)
    return lifecycle.fail_attempt(pipeline, task, event.reason, event.error_class or "turn_failed", event.at)


def _wait_for_limit(pipeline: Pipeline, task: Task, event: events.TurnFinished) -> Task:
    """Return the task paused until its account's usage limit is over; its session then goes on with another turn.

    It goes on by itself only if its policy allows that.
    """
    at, policy = event.at, task.policy
    task = _count_wait(task, PauseReason.RATE_LIMIT)
    task = task.with_setbacks(replace(task.agent.setbacks, limit_window=event.window))
    known = resume_at(event.resets_at, at, policy.limit_margin, task.id) if event.resets_at else None
    until = known or probe_at(at, task.agent.setbacks.limit_waits)
    too_late = policy.latest_resume is not None and until > at + timedelta(seconds=policy.latest_resume)
    by_itself = policy.auto_resume and not too_late
    before = task.spending.total.usd if task.spending.usd_at_limit is None else task.spending.usd_at_limit
    task = lifecycle.next_turn(pipeline, replace(task, spending=replace(task.spending, usd_at_limit=before)), at)
    text = f"{event.reason}; " + (f"it goes on at {until:%Y-%m-%d %H:%M} UTC" if by_itself else "it waits for `resume`")
    task = pausing.add_notice(
        task, NoticeKind.LIMIT_REACHED, text, at, f"limit-{task.agent.attempt}-{task.agent.turn.number}"
    )
    return replace(task, retry_at=until if by_itself else None)


def _wait_for_service(pipeline: Pipeline, task: Task, event: events.TurnFinished) -> Task:
    """Return the task paused while the model's service is overloaded, throttling or out of reach."""
    task = lifecycle.next_turn(pipeline, _count_wait(task, PauseReason.SERVICE), event.at)
    return replace(task, retry_at=back_off(event.at, task.agent.setbacks.limit_waits, task.policy.retry_delay))


def _wait_for_account(pipeline: Pipeline, task: Task, event: events.TurnFinished) -> Task:
    """Return the task paused until the service accepts the account again."""
    remedy = lifecycle.FOR_A_PERSON[ErrorClass(event.error_class or ErrorClass.AUTHENTICATION)]
    task = _wait_for_repair(pipeline, task, event.at)
    text = f"the service refused the account: {event.reason}; to fix it, {remedy}"
    key = f"account-{task.agent.attempt}-{task.agent.turn.number}"
    return pausing.add_notice(task, NoticeKind.LOGIN_MISSING, text, event.at, key)


def _wait_for_repair(pipeline: Pipeline, task: Task, at: datetime) -> Task:
    """Return the task paused until agents can work again; its session then goes on with another turn.

    Its agent is ended, because a running one may have read the old login.
    """
    task = pausing.park(lifecycle.next_turn(pipeline, task, at))
    return task if pausing.is_paused_by_daemon(task) else pausing.hold_for_account(task, PauseReason.SERVICE)


def _count_wait(task: Task, by: PauseReason) -> Task:
    setbacks = task.agent.setbacks
    task = task.with_setbacks(replace(setbacks, limit_waits=setbacks.limit_waits + 1))
    return task if pausing.is_paused_by_daemon(task) else pausing.pause(task, by)


def _on_agent_error(task: Task, trouble: AgentError, at: datetime) -> Task:
    """Return the task after an error that its agent reported; a fatal one fails it, whatever the agent proposes."""
    if trouble.fatal or trouble.recovery is Recovery.CHECKPOINT_AND_FAIL:
        return outcomes.fail(task, f"{task.stage}: the agent reports: {trouble.message}", at)
    match trouble.recovery:
        case Recovery.PAUSE_AND_RETRY:
            if pausing.is_paused_by_daemon(task):
                return task
            return replace(pausing.pause(task, PauseReason.SERVICE), retry_at=at + SHORT_WAIT)
        case Recovery.NOTIFY_USER:
            text = f"The agent reports: {trouble.message}\n{trouble.details}\nWhat should it do?".strip()
            return _add_request(task, RequestDraft(subject=Subject.QUESTION, text=text[:10_000]), None, at)
        case _:
            assert_never(trouble.recovery)


def _add_request(task: Task, draft: RequestDraft, answer: Answer | None, at: datetime) -> Task:
    visit = task.stages[task.stage].visits
    if sum((request.stage, request.visit) == (task.stage, visit) for request in task.requests) >= MOST_REQUESTS:
        return outcomes.give_up(
            task, f"{task.stage}: its agent asked for something more than {MOST_REQUESTS} times", at
        )
    known = reusable(task.requests, draft, task.stage)
    if known is not None:
        same = Answer(status=known.status, text=known.answer or "", by=known.answered_by or POLICY)
        return pausing.add_answered_request(task, draft, same, at)
    decided = answer or pausing.answer_by_policy(task, draft)
    if decided is not None:
        return pausing.add_answered_request(task, draft, decided, at)
    return pausing.add_request(task, draft, at)


def _with_spending(task: Task, used: Spending, at: datetime) -> Task:
    return replace(task, spending=task.spending.with_spent(f"{at:%Y-%m-%d}", used))
