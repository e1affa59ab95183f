"""How a task moves along its pipeline: into a stage, from turn to turn, on to the next, back, or to a halt.

Each function takes a task and gives the task after it; none issues commands (obligations.py reads those off).
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from types import MappingProxyType
from uuid import NAMESPACE_URL, uuid5

from orchestrator.core import guards, plan
from orchestrator.core.asks import Asking, AskStatus, Subject
from orchestrator.core.budget import Spending, reached, seconds_left
from orchestrator.core.checking import first_try
from orchestrator.core.closing import closing
from orchestrator.core.failures import ACCEPTED, Analysis, Failure
from orchestrator.core.guards import Evidence
from orchestrator.core.halts import blocked, renewed, spent, with_failed_turn, with_failure
from orchestrator.core.model import (
    Agent,
    AgentStatus,
    BlockedBy,
    CheckResult,
    Owed,
    Process,
    Run,
    StageStatus,
    StepStatus,
    Task,
    TaskStatus,
    Verdict,
)
from orchestrator.core.notice import NoticeKind
from orchestrator.core.obligations import run_folder_of_agent, run_folder_of_check
from orchestrator.core.pipeline import Pipeline, Stage, Work
from orchestrator.core.publication import Publish
from orchestrator.core.standing import (
    answered_by_policy,
    held,
    is_held,
    with_answered_ask,
    with_ask,
    with_notice,
)
from orchestrator.core.stream.neutral import ErrorClass
from orchestrator.core.terms import OnBlocked

LONGEST_RETRY_DELAY = 300.0
REPORT_FILE = "test-report.md"
FOR_A_PERSON: Mapping[str, str] = MappingProxyType(
    {
        ErrorClass.AUTHENTICATION: "log the agents' account in as `orchestrator doctor` says, or set right its key",
        ErrorClass.BILLING: "see to the account's credit",
        ErrorClass.MODEL: "name a model that the account may use, in the role's file or as agent.model",
    }
)
"""Failures that no other attempt mends, and what does (collected.md §3.4)."""
ONCE_MORE = (
    "This is the last pass: do only what makes the failing checks pass and the ticket's criteria hold, and leave out "
    "every step that does not serve that."
)


def enter(pipeline: Pipeline, task: Task, stage: str, at: datetime) -> Task:
    """The task at the beginning of a stage, its tries renewed."""
    record = task.stages[stage]
    work = pipeline.stage(stage).work
    entered = replace(
        record, status=StageStatus.IN_PROGRESS, started_at=at, completed_at=None, visits=record.visits + 1
    )
    task = replace(
        task,
        stage=stage,
        stages={**task.stages, stage: entered},
        feedback=(),
        results={} if work is Work.CHECKS else task.results,
        agent=replace(task.agent, current_step=None),
    )
    return proceed(pipeline, renewed(task), at)


def proceed(pipeline: Pipeline, task: Task, at: datetime) -> Task:
    """The task with what its stage begins with owed, after whatever still runs and cannot go on has ended."""
    stage = pipeline.stage(task.stage)
    hands_on = stage.work in (Work.AGENT, Work.STEPS)
    if task.run is not None:
        goes_on = task.run.process in (Process.RUNNING, Process.FROZEN) and task.run.of_agent
        same = hands_on and task.agent.role == stage.role and goes_on
        return next_turn(pipeline, task, at) if same else replace(task, owed=Owed.STOP)
    if stage.role is not None and hands_on:
        return begin_agent(task, stage.role)
    match stage.work:
        case Work.CHECKS:
            return next_check(pipeline, task, at)
        case Work.DELIVER:
            home = stage.publish in (Publish.BRANCH, Publish.PULL_REQUEST)
            return replace(task, owed=Owed.DELIVERY if home else Owed.PUBLISH)
        case _:
            return replace(task, owed=Owed.GATE)


def begin_agent(task: Task, role: str) -> Task:
    """The task with a new attempt owed; it goes on with the session of an attempt of the same role that had one."""
    old = task.agent
    attempt = old.attempt + 1
    resumed = old.role == role and old.session_seen and old.session_id is not None
    fresh_session = str(uuid5(NAMESPACE_URL, f"orchestrator:{task.id}/{attempt}"))
    agent = Agent(
        status=old.status if task.paused else AgentStatus.RUNNING,
        blocked_by=old.blocked_by,
        role=role,
        attempt=attempt,
        session_id=old.session_id if resumed else fresh_session,
        resumed=resumed,
        begun_anew=old.role == role and not resumed,
        current_step=old.current_step,
        tokens_used=old.tokens_used,
        cost_usd=old.cost_usd,
        tokens_before=old.tokens_before if resumed else old.tokens_used,
        cost_before=old.cost_before if resumed else old.cost_usd,
        last_saved=old.last_saved,
        waits=old.waits,
        nudges=old.nudges,
    )
    task = replace(task, agent=agent, run=Run(folder=run_folder_of_agent(attempt)), owed=Owed.AGENT)
    task = replace(task, retry_at=_until(task))
    return within_caps(task)


def _until(task: Task) -> datetime | None:
    """Until when it stands still for the model's sake: what it owes next has no time of its own."""
    return task.retry_at if task.waits_for_service else None


def totals_settled(agent: Agent) -> Agent:
    """The agent with what its session has used put by: a killed CLI saved no totals, its successor counts from zero.

    One that ends by itself or by SIGTERM saves them, and the resumed session counts on (both measured).
    """
    return replace(agent, tokens_before=agent.tokens_used, cost_before=agent.cost_usd)


def next_turn(pipeline: Pipeline, task: Task, at: datetime) -> Task:
    """The task with its agent's next turn owed, which in a stage of steps is the first open step's."""
    step = plan.first_open(task.steps) if pipeline.stage(task.stage).work is Work.STEPS else None
    agent = replace(
        task.agent,
        turn=task.agent.turn + 1,
        turn_deadline=deadline(task, at),
        at_work_since=None if task.paused else at,
        tool_uses=0,
        turn_tokens=0,
        open_tools=0,
        timed_out=(),
        thawed_at_work=False,
        current_step=step.step_id if step else None,
    )
    steps = plan.begun(task.steps, step.step_id, at) if step else task.steps
    return within_caps(replace(task, agent=agent, steps=steps, owed=Owed.TURN))


def deadline(task: Task, at: datetime) -> datetime:
    """When a turn that begins or goes on now is out of time: by its own limit, or the task's hours."""
    left = seconds_left(task.total_spent, task.terms.caps)
    allowed = task.terms.turn_timeout if left is None else min(task.terms.turn_timeout, left)
    return at + timedelta(seconds=allowed)


def cap_reached(task: Task) -> str | None:
    """Which of the task's caps is reached, in words for a person; None while something is left."""
    spent_so_far = task.total_spent + Spending(tokens=task.agent.turn_tokens)
    since = task.total_spent.usd - (task.spent_at_limit or 0.0)
    most = task.terms.usd_after_limit
    if most is not None and task.spent_at_limit is not None and since >= most:
        return f"${since:.2f} of the ${most:.2f} that may follow a usage limit are spent"
    return reached(spent_so_far, task.terms.caps)


def within_caps(task: Task) -> Task:
    """The task, held if what it owes its agent next would cost more than it may."""
    if cap_reached(task) is None or is_held(task):
        return task
    return held(task, BlockedBy.BUDGET)


def next_check(pipeline: Pipeline, task: Task, at: datetime) -> Task:
    """The task with the next check owed, or with the evaluation concluded when all have run."""
    check = task.next_check
    if check is not None:
        again = task.seq if task.retry_at or first_try(check.name) in task.results else None
        run = Run(folder=run_folder_of_check(evaluations(pipeline, task), check.name, again))
        agent = replace(task.agent, status=task.agent.status if task.paused else AgentStatus.IDLE)
        return replace(task, owed=Owed.CHECKS, run=run, agent=agent, retry_at=_until(task))
    if not any(check.command for check in task.checks):
        none = CheckResult(verdict=Verdict.SKIPPED, reason="no check is configured or was found in the repository")
        task = replace(task, results={"unit_test": none, **task.results})
    task = replace(task, report_path=REPORT_FILE)
    lacking = guards.missing(pipeline.stage(task.stage).guards, task, guards.NOTHING_SEEN)
    role = pipeline.stage(task.stage).role
    if not lacking:
        return advance(pipeline, task, at)
    return begin_agent(task, role) if role else evaluation_failed(pipeline, task, at, None)


def evaluations(pipeline: Pipeline, task: Task) -> int:
    """How many evaluations were begun, of whichever stage."""
    return sum(task.stages[stage.name].visits for stage in pipeline.stages.values() if stage.work is Work.CHECKS)


def advance(pipeline: Pipeline, task: Task, at: datetime) -> Task:
    """The task in the stage after this one, this one being done; the last stage completes it.

    A stage that asks for a review, or took more tries than it has, is not done before somebody approved it, or the
    task's terms did.
    """
    stage = pipeline.stage(task.stage)
    overspent = guards.overspent(stage.guards, task)
    if (stage.review or overspent) and not _reviewed(task):
        return _under_review(pipeline, task, overspent, at)
    record = replace(task.stages[task.stage], status=StageStatus.COMPLETED, completed_at=at)
    wanted = () if stage.on_fail or stage.review else task.wanted
    task = replace(task, stages={**task.stages, task.stage: record}, wanted=wanted)
    following = stage.next
    if following is not None:
        return enter(pipeline, task, following, at)
    agent = replace(task.agent, status=AgentStatus.COMPLETED, blocked_by=None)
    done = replace(task, status=TaskStatus.COMPLETED, completed_at=at, owed=Owed.NOTHING, agent=agent)
    return with_notice(done, NoticeKind.COMPLETED, closing(done, at), at, "completed")


def _under_review(pipeline: Pipeline, task: Task, overspent: tuple[str, ...], at: datetime) -> Task:
    checked = pipeline.stage(task.stage).work is Work.CHECKS
    artifacts = REPORT_FILE if checked else ", ".join(task.stages[task.stage].artifacts)
    text = f"{task.stage} is done: review " + (artifacts or f"commit {(task.head or task.base_commit)[:12]}")
    text = "; ".join((text, *overspent))
    asking = Asking(
        subject=Subject.STAGE,
        text=text,
        name=task.stage,
        content=f"{task.head} {task.stages[task.stage].digest} {artifacts}",
    )
    decided = answered_by_policy(task, asking)
    if overspent:
        action = ACCEPTED if decided else "user_intervention"
        task = with_failed_turn(task, at, "budget_exceeded", "; ".join(overspent), action)
    if decided is not None:
        return advance(pipeline, with_answered_ask(task, asking, decided, at), at)
    return with_ask(replace(task, status=TaskStatus.REVIEW, owed=Owed.NOTHING), asking, at)


def _reviewed(task: Task) -> bool:
    """Whether the present visit of the stage was approved since it was last looked at."""
    visit = task.stages[task.stage].visits
    reviews = [
        ask
        for ask in task.asks
        if ask.asking.subject is Subject.STAGE and (ask.stage, ask.visit) == (task.stage, visit)
    ]
    return bool(reviews) and reviews[-1].status is AskStatus.APPROVED


def step_done(pipeline: Pipeline, task: Task, evidence: Evidence, at: datetime) -> Task:
    """The task with its present step completed by the commits seen, and the next step or stage owed.

    Only a step that gets done is progress: what is still missing when all are done does not renew the tries.
    """
    steps = plan.finished(task.steps, task.agent.current_step or 0, evidence.commits, at)
    task = replace(task, steps=steps, feedback=())
    task = task if task.agent.current_step is None else renewed(task)
    if plan.first_open(steps) is not None:
        return proceed(pipeline, task, at)
    lacking = guards.missing(pipeline.stage(task.stage).guards, task, evidence)
    return try_again(pipeline, task, lacking, at) if lacking else advance(pipeline, task, at)


def try_again(pipeline: Pipeline, task: Task, lacking: tuple[str, ...], at: datetime) -> Task:
    """The task with its agent told what the gate misses, or blocked when that was told often enough."""
    if pipeline.stage(task.stage).role is None:
        return blocked(task, f"{task.stage}: {'; '.join(lacking)}", at)
    tried = spent(task, "gate_retries")
    if tried is not None:
        return proceed(pipeline, replace(tried, feedback=lacking), at)
    why = f"still incomplete after every try: {'; '.join(lacking)}"
    return blocked(_given_up(task, why, at), f"{task.stage} is {why}", at)


def _given_up(task: Task, why: str, at: datetime) -> Task:
    """The task with it on record that its stage, or the step that is open in it, could not be done."""
    step = task.agent.current_step
    steps = plan.with_status(task.steps, step, StepStatus.FAILED) if step else task.steps
    kind = "step_failed" if step else "stage_failed"
    return with_failed_turn(replace(task, steps=steps), at, kind, why, "user_intervention")


def attempt_failed(pipeline: Pipeline, task: Task, reason: str, kind: str, at: datetime) -> Task:
    """The task with its agent's failure on record, and another attempt owed after a growing pause while tries last."""
    tried = spent(task, "agent_retries")
    where = task.stage
    task = with_failed_turn(task, at, kind, reason, "retry" if tried else "user_intervention")
    if tried is None:
        if pipeline.stage(where).work is Work.CHECKS and task.next_check is None:
            return evaluation_failed(pipeline, task, at, None)
        return blocked(task, f"{where}: {reason}", at)
    budget = tried.budgets["agent_retries"]
    delay = min(task.terms.retry_delay * 2 ** (budget.used - 1), LONGEST_RETRY_DELAY)
    return replace(
        task,
        budgets=tried.budgets,
        retry_at=at + timedelta(seconds=delay),
        owed=Owed.STOP if task.run else Owed.RETRY,
    )


def begin_anew(task: Task, at: datetime) -> Task:
    """The task with an attempt in a new session owed at once: the one to resume is gone. That costs no try.

    A CLI that was killed before its first answer has told its session's id and left nothing to resume (measured).
    What was answered in this stage is told once more, for only the old session knew it.
    """
    agent = replace(task.agent, session_seen=False)
    asks = tuple(replace(ask, told=False) if ask.stage == task.stage else ask for ask in task.asks)
    return replace(task, agent=agent, asks=asks, retry_at=at, owed=Owed.STOP if task.run else Owed.RETRY)


def evaluation_failed(pipeline: Pipeline, task: Task, at: datetime, analysis: Analysis | None) -> Task:
    """The task with its failed checks on record, back in the stage that mends them while the budget lasts.

    When it is used up and the terms say so, one more pass is made of the smallest scope (seed 001, escalation).
    """
    stage = pipeline.stage(task.stage)
    tried = spent(task, stage.budget) if stage.budget else None
    again = tried is not None and tried.budgets[stage.budget or ""].left > 0 and stage.on_fail is not None
    last_pass = None if again or stage.on_fail is None else _escalated(tried or task)
    back = stage.on_fail if again or last_pass else None
    task = _with_failed_checks(stage, task, at, analysis, back)
    counted = last_pass or tried
    task = replace(task, budgets=counted.budgets) if counted else task
    if back is None:
        lacking = guards.missing(stage.guards, task, guards.NOTHING_SEEN)
        return blocked(task, f"{stage.name} failed, and no try is left: {'; '.join(lacking)}", at)
    record = replace(task.stages[task.stage], status=StageStatus.FAILED, completed_at=at)
    back_there = enter(pipeline, replace(task, stages={**task.stages, task.stage: record}), back, at)
    return replace(back_there, wanted=(*back_there.wanted, ONCE_MORE)) if last_pass else back_there


def _escalated(task: Task) -> Task | None:
    """The task with its one last pass taken; None where its terms do not want one, or it was taken before."""
    return spent(task, "escalations") if task.terms.on_blocked is OnBlocked.ESCALATE else None


def _with_failed_checks(stage: Stage, task: Task, at: datetime, analysis: Analysis | None, back: str | None) -> Task:
    cycle = task.stages[task.stage].visits
    accepted = guards.accepted(stage.guards)
    for check in task.checks:
        result = task.results.get(check.name)
        if result is None or result.verdict in accepted:
            continue
        task = with_failure(task, at, Failure(
            id="", occurred_at=at, state=task.stage, agent=stage.role, step=check.name,
            attempted=f"evaluation {cycle} of {(task.head or '')[:12]}", command=check.command,
            expected=f"{check.name} passes", type=check.kind.failure, summary=result.reason,
            exit_code=result.exit_code, log_file=result.log, analysis=analysis,
            action="retry_cycle" if back else "user_intervention",
            transitioned_to=back, retry_count=cycle,
        ))  # fmt: skip
    return task
