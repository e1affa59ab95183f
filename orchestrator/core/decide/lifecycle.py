"""Move a task along its pipeline: into a stage, from turn to turn, to the next stage, or back; or block it.

Each function takes a task and returns the task afterwards. None issues commands; obligations.py derives them from the
state.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from types import MappingProxyType
from uuid import NAMESPACE_URL, uuid5

from orchestrator.core.decide import plan
from orchestrator.core.decide.final_message import final_message
from orchestrator.core.decide.obligations import agent_run_folder
from orchestrator.core.decide.outcomes import fail, give_up, record_failed_turn, reset_retries, use_retry
from orchestrator.core.decide.pausing import (
    add_answered_request,
    add_notice,
    add_request,
    answer_by_policy,
    is_paused_by_daemon,
    pause,
)
from orchestrator.core.events.agent_events import ErrorClass
from orchestrator.core.events.notice import NoticeKind
from orchestrator.core.task import guards
from orchestrator.core.task.agent import (
    Agent,
    AgentStatus,
    AgentUsage,
    KeptSession,
    PauseReason,
    ProcessState,
    Run,
    Session,
    SessionOrigin,
    TurnProgress,
)
from orchestrator.core.task.budget import NO_CAPS, Spending, reached_cap, seconds_left
from orchestrator.core.task.failures import ACCEPTED, Analysis
from orchestrator.core.task.pipeline import OnExhausted, Pipeline, Stage
from orchestrator.core.task.progress import StageStatus, StepStatus
from orchestrator.core.task.task import NextAction, Task, TaskStatus
from orchestrator.core.task.task_policy import Autonomy, OnBlocked
from orchestrator.core.task.user_requests import RequestDraft, RequestStatus, Subject

LONGEST_RETRY_DELAY = 300.0
LOSSES_ALLOWED = 10
"""The longest delay in seconds before another attempt, and the losses in a row that cost the agent no retry."""
FOR_A_PERSON: Mapping[str, str] = MappingProxyType(
    {
        ErrorClass.AUTHENTICATION: "log in the agents' account as `orchestrator doctor` says, or correct its key",
        ErrorClass.BILLING: "add credit to the account",
        ErrorClass.MODEL: "name a model that the account may use, in the role's file or as agent.model",
    }
)
"""Failures that another attempt cannot fix, and what a person has to do about each of them."""
ONCE_MORE = (
    "This is the last pass: do only what makes the failing checks pass and the ticket's criteria hold, and leave out "
    "every step that does not serve that."
)


def enter_stage(pipeline: Pipeline, task: Task, stage: str, at: datetime) -> Task:
    """Return the task at the beginning of a stage, with its retries reset."""
    record = task.stages[stage]
    entered = replace(
        record, status=StageStatus.IN_PROGRESS, started_at=at, completed_at=None, visits=record.visits + 1
    )
    task = replace(
        task,
        stage=stage,
        stages={**task.stages, stage: entered},
        feedback=(),
        agent=replace(task.agent, turn=replace(task.agent.turn, step=None)),
    )
    return continue_stage(pipeline, reset_retries(pipeline.stage(stage).work.enter(task)), at)


def continue_stage(pipeline: Pipeline, task: Task, at: datetime) -> Task:
    """Return the task with the next action of its stage owed; a process that cannot be used for that is ended first."""
    if pipeline.is_manual:
        return replace(task, next_action=NextAction.NOTHING)
    stage = pipeline.stage(task.stage)
    if task.run is None:
        return stage.work.begin(pipeline, task, at)
    is_alive = task.run.process in (ProcessState.RUNNING, ProcessState.FROZEN) and task.run.is_of_agent
    if is_alive and stage.work.is_done_by_agent and task.agent.role == stage.role:
        return next_turn(pipeline, task, at)
    return replace(task, next_action=NextAction.STOP)


def begin_agent(pipeline: Pipeline, task: Task) -> Task:
    """Return the task with a new attempt owed, which resumes the session of an earlier one of the same role, if any."""
    old, stage = task.agent, pipeline.stage(task.stage)
    role, attempt = stage.role or "", old.attempt + 1
    task = _keep_session(pipeline, task, role)
    kept = task.sessions.get(role) if stage.resume_session and old.role != role else None
    session = _next_session(task, role, attempt, kept)
    used = _bank(old.usage) if kept or not session.is_resumed else old.usage
    if kept:
        used = replace(
            used,
            tokens_before_session=used.tokens - kept.tokens,
            cost_before_session=used.cost_usd - kept.cost_usd,
        )
    agent = Agent(
        status=old.status if task.is_paused else AgentStatus.RUNNING,
        blocked_by=old.blocked_by,
        role=role,
        attempt=attempt,
        session=session,
        turn=TurnProgress(step=old.turn.step),
        usage=used,
        last_saved=old.last_saved,
        setbacks=replace(old.setbacks, limit_window=None, was_corrected=False),
    )
    task = replace(task, agent=agent, run=Run(folder=agent_run_folder(attempt)), next_action=NextAction.AGENT)
    task = replace(task, retry_at=service_retry_at(task))
    return pause_if_over_caps(task)


def _keep_session(pipeline: Pipeline, task: Task, role: str) -> Task:
    """Return the task with its agent's session kept, if another role's stage comes before the one that continues it."""
    old, session = task.agent, task.agent.session
    wanted = {stage.role for stage in pipeline.stages.values() if stage.resume_session}
    if old.role is None or old.role == role or old.role not in wanted or session.id is None or not session.is_known:
        return task
    used = old.usage
    tokens, usd = used.tokens - used.tokens_before_session, used.cost_usd - used.cost_before_session
    kept = KeptSession(id=session.id, tokens=tokens, cost_usd=usd)
    return replace(task, sessions={**task.sessions, old.role: kept})


def _next_session(task: Task, role: str, attempt: int, kept: KeptSession | None) -> Session:
    """Return a new attempt's session: the last one of its role if the CLI knows it, or the one kept, else a new one."""
    old = task.agent
    if kept is not None:
        return Session(id=kept.id, origin=SessionOrigin.CONTINUED)
    if old.role == role and old.session.is_known and old.session.id is not None:
        return Session(id=old.session.id, origin=SessionOrigin.RESUMED)
    origin = SessionOrigin.RESTARTED if old.role == role else SessionOrigin.NEW
    return Session(id=str(uuid5(NAMESPACE_URL, f"orchestrator:{task.id}/{attempt}")), origin=origin)


def _bank(usage: AgentUsage) -> AgentUsage:
    """Return the usage at the beginning of a new session, whose totals count from zero."""
    return replace(usage, tokens_before_session=usage.tokens, cost_before_session=usage.cost_usd)


def service_retry_at(task: Task) -> datetime | None:
    """Return when a task that waits for the model's service tries again; None if it does not wait for that."""
    return task.retry_at if task.waits_for_service else None


def bank_usage(agent: Agent) -> Agent:
    """Return the agent with the usage of its session added up.

    A killed CLI saves no totals, so the next process counts from zero. A CLI that exits by itself or by SIGTERM saves
    them, and the resumed session counts on.
    """
    return replace(agent, usage=_bank(agent.usage))


def next_turn(pipeline: Pipeline, task: Task, at: datetime) -> Task:
    """Return the task with its agent's next turn owed."""
    turn = TurnProgress(
        number=task.agent.turn.number + 1,
        deadline=deadline(task, at),
        active_since=None if task.is_paused else at,
    )
    task = pipeline.stage(task.stage).work.begin_turn(task.with_turn(turn), at)
    return pause_if_over_caps(replace(task, next_action=NextAction.TURN))


def deadline(task: Task, at: datetime) -> datetime:
    """Return when a turn that begins or continues now is out of time: by its own limit, or by the task's hours.

    A millisecond is added to the hours that are left, which are rounded to one: the cap is surely reached by then.
    """
    left = seconds_left(task.spending.whole, task.policy.caps)
    allowed = task.policy.turn_timeout if left is None else min(task.policy.turn_timeout, left + 0.001)
    return at + timedelta(milliseconds=round(1000 * allowed))


def cap_reached(task: Task) -> str | None:
    """Return which of the task's caps is reached, in words for a person; None while something is left of each.

    The running turn counts with what it has used so far, as far as that is known, and so does what ended children used.
    """
    caps, most, before = task.policy.caps, task.policy.usd_after_limit, task.spending.usd_at_limit
    if caps == NO_CAPS and most is None:
        return None
    used = Spending(usd=task.agent.turn.usd, tokens=task.agent.turn.tokens)
    if most is not None and before is not None and (since := (task.spending.total + used).usd - before) >= most:
        return f"${since:.2f} of the ${most:.2f} that may follow a usage limit are spent"
    return reached_cap(task.spending.whole + used, caps)


def pause_if_over_caps(task: Task) -> Task:
    """Return the task, paused if its agent's next turn would exceed its caps."""
    if cap_reached(task) is None or is_paused_by_daemon(task):
        return task
    return pause(task, PauseReason.BUDGET)


def advance(pipeline: Pipeline, task: Task, at: datetime) -> Task:
    """Return the task in the next stage, or completed after the last one.

    A stage that asks for a review, or that exceeded a budget, has to be approved first: by a person, or by the task's
    policy.
    """
    stage = pipeline.stage(task.stage)
    overspent = guards.overspent(stage.guards, task)
    if (stage.review or overspent) and not _is_reviewed(task):
        return _ask_for_review(pipeline, task, overspent, at)
    record = replace(task.stages[task.stage], status=StageStatus.COMPLETED, completed_at=at)
    wanted = () if stage.on_fail or stage.review else task.requested_changes
    task = replace(task, stages={**task.stages, task.stage: record}, requested_changes=wanted)
    following = record.way or stage.next
    if following is not None:
        return enter_stage(pipeline, task, following, at)
    agent = replace(task.agent, status=AgentStatus.COMPLETED, blocked_by=None)
    done = replace(
        task,
        status=TaskStatus.COMPLETED,
        timing=replace(task.timing, completed_at=at),
        next_action=NextAction.NOTHING,
        agent=agent,
    )
    return add_notice(done, NoticeKind.COMPLETED, final_message(done, at), at, "completed")


def choose(task: Task, way: str) -> Task:
    """Return the task with the stage noted that follows its present one."""
    return replace(task, stages={**task.stages, task.stage: replace(task.stages[task.stage], way=way)})


def _ask_for_review(pipeline: Pipeline, task: Task, overspent: tuple[str, ...], at: datetime) -> Task:
    stage = pipeline.stage(task.stage)
    files = (stage.work.under_review(task), *(task.fill(path) for path in stage.documents))
    artifacts = ", ".join(filter(None, files))
    text = f"{task.stage} is done: review " + (artifacts or f"commit {task.source.commit[:12]}")
    text = "; ".join((text, *overspent))
    draft = RequestDraft(
        subject=Subject.STAGE,
        text=text,
        name=task.stage,
        content=f"{task.source.head} {task.stages[task.stage].digest} {artifacts}",
    )
    decided = answer_by_policy(task, draft)
    if overspent:
        action = ACCEPTED if decided else "user_intervention"
        task = record_failed_turn(task, at, "budget_exceeded", "; ".join(overspent), action)
    if decided is not None:
        return advance(pipeline, add_answered_request(task, draft, decided, at), at)
    return add_request(replace(task, status=TaskStatus.REVIEW, next_action=NextAction.NOTHING), draft, at)


def _is_reviewed(task: Task) -> bool:
    """Return whether the present visit of the stage was approved after it was last judged."""
    visit = task.stages[task.stage].visits
    reviews = [
        request
        for request in task.requests
        if request.draft.subject is Subject.STAGE and (request.stage, request.visit) == (task.stage, visit)
    ]
    return bool(reviews) and reviews[-1].status is RequestStatus.APPROVED


def try_again(pipeline: Pipeline, task: Task, lacking: tuple[str, ...], at: datetime) -> Task:
    """Return the task with a turn owed in which its agent is told what is missing, or given up if no retry is left."""
    if pipeline.stage(task.stage).role is None:
        return give_up(task, f"{task.stage}: {'; '.join(lacking)}", at)
    tried = use_retry(task, "gate_retries")
    if tried is not None:
        return continue_stage(pipeline, replace(tried, feedback=lacking), at)
    why = f"still incomplete after every try: {'; '.join(lacking)}"
    return give_up(_record_giving_up(task, why, at), f"{task.stage} is {why}", at)


def _record_giving_up(task: Task, why: str, at: datetime) -> Task:
    """Return the task with the failure of its stage, or of its present step, on record."""
    step = task.agent.turn.step
    steps = plan.with_status(task.steps, step, StepStatus.FAILED) if step else task.steps
    kind = "step_failed" if step else "stage_failed"
    return record_failed_turn(replace(task, steps=steps), at, kind, why, "user_intervention")


def fail_attempt(pipeline: Pipeline, task: Task, reason: str, kind: str, at: datetime) -> Task:
    """Return the task with its agent's failure on record; while retries last, another attempt is owed after a delay."""
    tried = use_retry(task, "agent_retries")
    task = record_failed_turn(task, at, kind, reason, "retry" if tried else "user_intervention")
    if tried is None:
        return pipeline.stage(task.stage).work.give_up(pipeline, task, reason, at)
    return _retry_later(replace(task, budgets=tried.budgets), tried.budgets["agent_retries"].used, at)


def lose_attempt(pipeline: Pipeline, task: Task, reason: str, kind: str, at: datetime) -> Task:
    """Return the task whose run was lost with its holder or the machine: with another attempt owed, at the cost of no
    retry, because the agent did nothing wrong.

    Work that brings the machine down would do so forever. So the losses without progress in between are counted, and
    beyond LOSSES_ALLOWED of them each one is a failure like others.
    """
    losses = task.agent.setbacks.losses + 1
    task = task.with_setbacks(replace(task.agent.setbacks, losses=losses))
    if losses > LOSSES_ALLOWED:
        return fail_attempt(pipeline, task, f"{reason}; that happened {losses} times in a row", kind, at)
    return _retry_later(record_failed_turn(task, at, kind, reason, "retry"), losses, at)


def _retry_later(task: Task, tries: int, at: datetime) -> Task:
    """Return the task with its next attempt owed after a delay that doubles with each try."""
    delay = min(task.policy.retry_delay * 2 ** (tries - 1), LONGEST_RETRY_DELAY)
    next_action = NextAction.STOP if task.run else NextAction.RETRY
    return replace(task, retry_at=at + timedelta(seconds=delay), next_action=next_action)


def restart_session(task: Task, at: datetime) -> Task:
    """Return the task with an attempt in a new session owed at once, because the old session cannot be resumed.

    This costs no retry. A CLI that was killed before its first answer has reported a session id but left nothing to
    resume. Answers given in this stage are sent again, because only the old session knew them.
    """
    agent = replace(task.agent, session=replace(task.agent.session, is_known=False))
    requests = tuple(
        replace(request, is_delivered=False) if request.stage == task.stage else request for request in task.requests
    )
    return replace(
        task, agent=agent, requests=requests, retry_at=at, next_action=NextAction.STOP if task.run else NextAction.RETRY
    )


def fail_stage(
    pipeline: Pipeline, task: Task, at: datetime, analysis: Analysis | None, failures: tuple[str, ...] = ()
) -> Task:
    """Return the task with the failure of its stage on record, back in the stage `on_fail` while the budget lasts.

    `failures` are what is to be changed there. When the budget is used up and the task's policy says so, one last pass
    of the smallest scope is made.
    """
    stage = pipeline.stage(task.stage)
    task = replace(task, requested_changes=failures or task.requested_changes)
    tried = use_retry(task, stage.budget) if stage.budget else None
    again = tried is not None and tried.budgets[stage.budget or ""].left > 0 and stage.on_fail is not None
    last_pass = None if again or stage.on_fail is None else _use_last_pass(tried or task)
    back = stage.on_fail if again or last_pass else None
    task = stage.work.record_failures(stage, task, analysis, back, at)
    counted = last_pass or tried
    task = replace(task, budgets=counted.budgets) if counted else task
    if back is None:
        lacking = failures or guards.missing(stage.guards, task, guards.NOTHING_SEEN)
        return _exhausted(stage, task, f"{stage.name} failed, and no try is left: {'; '.join(lacking)}", at)
    record = replace(task.stages[task.stage], status=StageStatus.FAILED, completed_at=at)
    wanted = task.requested_changes + ((ONCE_MORE,) if last_pass else ())
    left = replace(task, stages={**task.stages, task.stage: record}, requested_changes=wanted)
    return enter_stage(pipeline, left, back, at)


def _exhausted(stage: Stage, task: Task, why: str, at: datetime) -> Task:
    """Return the task after a stage failed and no way back is left. Nobody is asked by a task that must not ask."""
    if stage.on_exhausted is OnExhausted.FAIL:
        return fail(task, why, at)
    if stage.on_exhausted is OnExhausted.BLOCK or task.policy.autonomy is Autonomy.AUTO:
        return give_up(task, why, at)
    draft = RequestDraft(
        subject=Subject.STAGE,
        text=f"{why}; approve it as it is, or request changes"[:2000],
        name=stage.name,
        content=f"{task.source.head} {task.stages[stage.name].digest} {why}",
    )
    return add_request(replace(task, status=TaskStatus.REVIEW, next_action=NextAction.NOTHING), draft, at)


def _use_last_pass(task: Task) -> Task | None:
    """Return the task with its one last pass used; None where its policy wants none, or it was used before."""
    return use_retry(task, "escalations") if task.policy.on_blocked is OnBlocked.ESCALATE else None
