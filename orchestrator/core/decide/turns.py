"""What an agent's turn brings: its result, what it asks and reports on the way, its silence, its end.

Each handler takes a task and an event of its present attempt and gives the task after it; one of an earlier attempt, or
of output that was taken in before, changes nothing.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import assert_never

from orchestrator.core.decide import lifecycle, outcomes, pausing
from orchestrator.core.decide.obligations import agent_run_folder
from orchestrator.core.events import events
from orchestrator.core.events.agent_events import ErrorClass
from orchestrator.core.events.agent_messages import AgentError, Recovery
from orchestrator.core.task.agent import AgentStatus, PauseReason, ProcessState
from orchestrator.core.task.budget import Spending
from orchestrator.core.task.notice import NoticeKind
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

SHORT_WAIT = timedelta(seconds=60)
"""How long an agent that asks to be paused and tried again is left alone (seed 003)."""
MOST_ASKS = 50
"""In one visit of a stage; an agent that asks again and again would cost a turn each time."""
SERVICE_ERRORS = frozenset({ErrorClass.THROTTLED, ErrorClass.OVERLOADED, ErrorClass.SERVER})


TurnEvent = (
    events.SessionStarted
    | events.TurnFinished
    | events.AgentSaid
    | events.AgentExited
    | events.RequestWithdrawn
    | events.AnswerSent
    | events.StallSeen
)
"""What is heard of an agent."""


def apply_turn_event(pipeline: Pipeline, task: Task, event: TurnEvent) -> Task:
    """The task after what was heard of its agent."""
    match event:
        case events.SessionStarted():
            return _session_started(task, event)
        case events.TurnFinished():
            return _finished(pipeline, task, event)
        case events.AgentSaid():
            return _said(task, event)
        case events.RequestWithdrawn():
            return _withdrawn(task, event)
        case events.AnswerSent():
            return _answer_sent(task, event)
        case events.StallSeen():
            return _stalled(pipeline, task, event)
        case events.AgentExited():
            return _exited(pipeline, task, event)
        case _:
            assert_never(event)


def _session_started(task: Task, event: events.SessionStarted) -> Task:
    if event.attempt != task.agent.attempt or task.agent.session.is_known:
        return task
    return replace(
        task, agent=replace(task.agent, session=replace(task.agent.session, is_known=True, id=event.session_id))
    )


def _finished(pipeline: Pipeline, task: Task, event: events.TurnFinished) -> Task:
    """The task after a turn's result."""
    agent = task.agent
    if event.attempt != agent.attempt or event.offset <= agent.read_offset:
        return task
    was_under_way = task.next_action in (NextAction.TURN, NextAction.INTERRUPT) and task.is_active
    after = _accounted(task, event)
    if not was_under_way:
        return after
    if event.outcome is events.TurnOutcome.OK:
        return _well(pipeline, _told(after), event)
    if event.outcome is events.TurnOutcome.INTERRUPTED:
        return lifecycle.next_turn(pipeline, after, event.at)
    return _badly(pipeline, after, event)


def _said(task: Task, event: events.AgentSaid) -> Task:
    """The task after its agent asked for something or reported trouble."""
    agent = task.agent
    if event.attempt != agent.attempt or event.offset <= agent.read_offset:
        return task
    task = replace(task, agent=replace(agent, read_offset=event.offset, last_update=event.at))
    if not task.is_active:
        return task
    if event.trouble is not None:
        task = _troubled(task, event.trouble, event.at)
    if not task.is_active:
        return task
    answers = event.answers or (None,) * len(event.asking)
    for asking, answer in zip(event.asking, answers, strict=True):
        if task.is_active:
            task = _asked(task, asking, answer, event.at)
    return task


def _answer_sent(task: Task, event: events.AnswerSent) -> Task:
    """The task whose agent was given an answer; one that has ended meanwhile may not have read it."""
    if event.attempt != task.agent.attempt or task.run is None:
        return task
    asks = tuple(
        replace(ask, is_delivered=True)
        if ask.draft.request_id == event.request_id and ask.attempt == event.attempt and ask.is_undelivered
        else ask
        for ask in task.requests
    )
    return task if asks == task.requests else replace(task, requests=asks)


def _withdrawn(task: Task, event: events.RequestWithdrawn) -> Task:
    """The task whose agent does not wait for an answer any more.

    One that is being ended takes back what it asks (measured); its session still wants to know when it goes on.
    """
    if task.run is not None and task.run.process in (ProcessState.PARKING, ProcessState.UNFREEZABLE):
        return task
    for ask in task.pending_requests:
        if ask.draft.request_id == event.request_id and ask.attempt == event.attempt:
            gone = Answer(status=RequestStatus.WITHDRAWN, by=task.agent.role or "")
            task = pausing.answer_request(task, ask.number, gone, event.at)
    return task


def _stalled(pipeline: Pipeline, task: Task, event: events.StallSeen) -> Task:
    """The task after no sign of life: noted, then interrupted and nudged, then begun anew, then at a halt."""
    agent = task.agent
    if (
        (event.attempt, event.turn) != (agent.attempt, agent.turn.number)
        or task.next_action is not NextAction.TURN
        or task.is_paused
    ):
        return task
    task = replace(task, agent=replace(agent, setbacks=replace(agent.setbacks, nudges=agent.setbacks.nudges + 1)))
    match task.agent.setbacks.nudges:
        case 1:
            return task
        case 2:
            nudge = f"You gave no sign of life ({event.evidence}). Go on with your work, or end your turn."
            return interrupt_turn(replace(task, feedback=(*task.feedback, nudge)), event.at)
        case 3:
            return lifecycle.fail_attempt(pipeline, task, f"stalled: {event.evidence}", "stalled", event.at)
        case _:
            return outcomes.block(
                task, f"{task.stage}: stalled again after it was begun anew: {event.evidence}", event.at
            )


def interrupt_turn(task: Task, at: datetime) -> Task:
    """The task whose running turn is being ended, to be followed by another."""
    deadline = at + timedelta(seconds=min(60.0, task.policy.turn_timeout))
    return replace(
        task,
        next_action=NextAction.INTERRUPT,
        agent=replace(task.agent, turn=replace(task.agent.turn, deadline=deadline)),
    )


def _exited(pipeline: Pipeline, task: Task, event: events.AgentExited) -> Task:
    """The task after its agent's process was gone."""
    run = task.run
    if run is None or run.folder != agent_run_folder(event.attempt):
        return task
    agent = replace(
        task.agent,
        status=AgentStatus.IDLE if task.agent.status is AgentStatus.RUNNING else task.agent.status,
        pid=None,
        turn=replace(task.agent.turn, deadline=None, open_tools=0),
        read_offset=max(event.offset, task.agent.read_offset),
    )
    if event.code is None:
        agent = lifecycle.bank_usage(agent)
    task = replace(add_worked_time(task, event.at), run=None)
    task = replace(task, agent=replace(agent, turn=replace(agent.turn, active_since=None)))
    if not task.is_active:
        return task
    task = _untold(task) if task.next_action in (NextAction.TURN, NextAction.INTERRUPT) else task
    if task.next_action is NextAction.STOP:
        return (
            replace(task, next_action=NextAction.RETRY)
            if task.retry_at
            else lifecycle.continue_stage(pipeline, task, event.at)
        )
    if task.next_action not in (NextAction.AGENT, NextAction.TURN, NextAction.INTERRUPT):
        return task
    if task.is_paused or run.process in (ProcessState.PARKING, ProcessState.UNFREEZABLE):
        at_once = None if task.waits_for_service else event.at
        return replace(task, next_action=NextAction.RETRY, retry_at=task.retry_at or at_once)
    return lifecycle.fail_attempt(pipeline, task, event.reason, "agent_lost", event.at)


def _untold(task: Task) -> Task:
    """What a process was answered in a turn that it did not end is not sure to stand in its session."""
    now = (task.agent.attempt, task.agent.turn.number)
    asks = tuple(
        replace(ask, is_delivered=False)
        if ask.is_delivered and ask.draft.request_id and (ask.attempt, ask.turn) == now
        else ask
        for ask in task.requests
    )
    return task if asks == task.requests else replace(task, requests=asks)


def add_worked_time(task: Task, at: datetime) -> Task:
    """The task with the time that its agent was at work put on its account."""
    since = task.agent.turn.active_since
    if since is None:
        return task
    task = _with_spending(task, Spending(seconds=max(0.0, (at - since).total_seconds())), at)
    return replace(task, agent=replace(task.agent, turn=replace(task.agent.turn, active_since=None)))


def _accounted(task: Task, event: events.TurnFinished) -> Task:
    agent = task.agent
    tokens, usd = agent.usage.tokens_before_session + event.tokens, agent.usage.cost_before_session + event.cost_usd
    used = Spending(
        usd=max(0.0, round(usd - agent.usage.cost_usd, 6)), tokens=max(0, tokens - agent.usage.tokens), turns=1
    )
    task = add_worked_time(_with_spending(task, used, event.at), event.at)
    agent = replace(
        task.agent,
        read_offset=event.offset,
        turn=replace(task.agent.turn, tool_uses=event.tool_uses, deadline=None, tokens=0, open_tools=0),
        usage=replace(task.agent.usage, tokens=tokens, cost_usd=usd),
        last_update=event.at,
    )
    return replace(task, agent=agent)


def _told(task: Task) -> Task:
    """After a turn that went well its agent knows the answers that stood in the text, and those it had waited for."""
    now = (task.agent.attempt, task.agent.turn.number)
    asks = tuple(
        replace(ask, is_delivered=True)
        if ask.is_undelivered and (ask.draft.request_id or (ask.attempt, ask.turn) < now)
        else ask
        for ask in task.requests
    )
    return task if asks == task.requests else replace(task, requests=asks)


def _well(pipeline: Pipeline, task: Task, event: events.TurnFinished) -> Task:
    agent = task.agent
    rest = replace(
        agent,
        setbacks=replace(agent.setbacks, limit_waits=0, nudges=0),
        turn=replace(agent.turn, timed_out=(), was_frozen_in_tool=False),
    )
    task = replace(task, agent=rest)
    if task.next_action is NextAction.INTERRUPT or any(
        ask.is_pending or ask.is_undelivered for ask in _of_this_turn(task)
    ):
        return lifecycle.next_turn(pipeline, task, event.at)
    if agent.turn.was_frozen_in_tool and agent.turn.timed_out:
        unfair = tuple(
            f"the command {name!r} ran out of time only because you had been stopped meanwhile; run it again"
            for name in agent.turn.timed_out
        )
        return lifecycle.next_turn(pipeline, replace(task, feedback=unfair), event.at)
    if event.malformed and not agent.setbacks.was_corrected:
        task = replace(
            task,
            agent=replace(task.agent, setbacks=replace(task.agent.setbacks, was_corrected=True)),
            feedback=event.malformed,
        )
        return lifecycle.next_turn(pipeline, task, event.at)
    if event.malformed:
        return lifecycle.try_again(pipeline, task, event.malformed, event.at)
    return replace(task, next_action=NextAction.GATE)


def _of_this_turn(task: Task) -> tuple[UserRequest, ...]:
    now = (task.agent.attempt, task.agent.turn.number)
    return tuple(ask for ask in task.requests if (ask.attempt, ask.turn) == now and not ask.draft.subject.of_daemon)


def _badly(pipeline: Pipeline, task: Task, event: events.TurnFinished) -> Task:
    if event.error_class == ErrorClass.USAGE_LIMIT:
        return _limited(pipeline, task, event)
    if event.error_class in SERVICE_ERRORS:
        return _out_of_service(pipeline, task, event)
    if event.error_class == ErrorClass.BUDGET and lifecycle.cap_reached(task) is not None:
        return pausing.park(lifecycle.next_turn(pipeline, task, event.at))
    if task.run is not None and task.run.process is ProcessState.PARKING:
        return lifecycle.next_turn(pipeline, task, event.at)
    if event.error_class and event.error_class in lifecycle.FOR_A_PERSON:
        mend = lifecycle.FOR_A_PERSON[event.error_class]
        reason = f"{task.stage}: {event.reason or event.error_class}; to mend it, {mend}"
        return outcomes.block(task, reason, event.at)
    if event.error_class == ErrorClass.SESSION and task.agent.session.is_resumed:
        return lifecycle.restart_session(task, event.at)
    return lifecycle.fail_attempt(pipeline, task, event.reason, event.error_class or "turn_failed", event.at)


def _limited(pipeline: Pipeline, task: Task, event: events.TurnFinished) -> Task:
    """The task standing still until its account's usage limit is over; its session goes on with another turn then.

    It goes on by itself only as its terms allow.
    """
    at, terms = event.at, task.policy
    task = _waiting(task, PauseReason.RATE_LIMIT)
    task = replace(task, agent=replace(task.agent, setbacks=replace(task.agent.setbacks, limit_window=event.window)))
    known = resume_at(event.resets_at, at, terms.limit_margin, task.id) if event.resets_at else None
    until = known or probe_at(at, task.agent.setbacks.limit_waits)
    too_late = terms.latest_resume is not None and until > at + timedelta(seconds=terms.latest_resume)
    by_itself = terms.auto_resume and not too_late
    before = task.spending.total.usd if task.spending.usd_at_limit is None else task.spending.usd_at_limit
    task = lifecycle.next_turn(pipeline, replace(task, spending=replace(task.spending, usd_at_limit=before)), at)
    text = f"{event.reason}; " + (f"it goes on at {until:%Y-%m-%d %H:%M} UTC" if by_itself else "it waits for `resume`")
    task = pausing.add_notice(
        task, NoticeKind.LIMIT_REACHED, text, at, f"limit-{task.agent.attempt}-{task.agent.turn.number}"
    )
    return replace(task, retry_at=until if by_itself else None)


def _out_of_service(pipeline: Pipeline, task: Task, event: events.TurnFinished) -> Task:
    """The task standing still while the model's service is overloaded, throttling or out of reach."""
    task = lifecycle.next_turn(pipeline, _waiting(task, PauseReason.SERVICE), event.at)
    return replace(task, retry_at=back_off(event.at, task.agent.setbacks.limit_waits, task.policy.retry_delay))


def _waiting(task: Task, by: PauseReason) -> Task:
    task = replace(
        task,
        agent=replace(
            task.agent, setbacks=replace(task.agent.setbacks, limit_waits=task.agent.setbacks.limit_waits + 1)
        ),
    )
    return task if pausing.is_paused_by_daemon(task) else pausing.pause(task, by)


def _troubled(task: Task, trouble: AgentError, at: datetime) -> Task:
    """A fatal one ends the task, whatever else the agent wants done about it."""
    if trouble.fatal or trouble.recovery is Recovery.CHECKPOINT_AND_FAIL:
        return outcomes.fail(task, f"{task.stage}: the agent reports: {trouble.message}", at)
    match trouble.recovery:
        case Recovery.PAUSE_AND_RETRY:
            if pausing.is_paused_by_daemon(task):
                return task
            return replace(pausing.pause(task, PauseReason.SERVICE), retry_at=at + SHORT_WAIT)
        case Recovery.NOTIFY_USER:
            text = f"The agent reports: {trouble.message}\n{trouble.details}\nWhat shall it do?".strip()
            return _asked(task, RequestDraft(subject=Subject.QUESTION, text=text[:10_000]), None, at)
        case _:
            assert_never(trouble.recovery)


def _asked(task: Task, asking: RequestDraft, answer: Answer | None, at: datetime) -> Task:
    visit = task.stages[task.stage].visits
    if sum((ask.stage, ask.visit) == (task.stage, visit) for ask in task.requests) >= MOST_ASKS:
        return outcomes.block(task, f"{task.stage}: its agent asked for something more than {MOST_ASKS} times", at)
    known = reusable(task.requests, asking, task.stage)
    if known is not None:
        same = Answer(status=known.status, text=known.answer or "", by=known.answered_by or POLICY)
        return pausing.add_answered_request(task, asking, same, at)
    decided = answer or pausing.answer_by_policy(task, asking)
    if decided is not None:
        return pausing.add_answered_request(task, asking, decided, at)
    return pausing.add_request(task, asking, at)


def _with_spending(task: Task, used: Spending, at: datetime) -> Task:
    day = f"{at:%Y-%m-%d}"
    return replace(
        task, spending=replace(task.spending, by_day={**task.spending.by_day, day: task.spending.on(day) + used})
    )
