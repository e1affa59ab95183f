"""The state machine: `decide(pipeline, task, event)` gives the task after the event and what to do about it.

Theory of operation
-------------------
Everything that changes a task goes through here, one event at a time, and here only. An event is a fact with the time
it happened; this module never reads a clock, a file or a process.

Each event has one handler, which answers with the task as it is afterwards. Moving along the pipeline (into a stage, to
the next turn, back after a failed evaluation) is in course.py. Handlers issue no commands: obligations.py derives from
a state what should be under way, and `decide` hands out what became owed by this decision. `DaemonStarted` hands out
all of it. That is the recovery: there is no other.

Late news (of an earlier attempt, turn, visit or run) gives back the very same task, and nothing is committed.
A request that the state does not allow raises InvalidTransition, and nothing has changed. Every other event is taken in
any state: processes may die at any time.

A task has at most one run (process tree). Pausing changes what is wanted (the agent's status); the run's process says
what is there. While paused, events still move the task on; what they owe goes out when a place is free again.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import assert_never

from orchestrator.core import course, events, guards, plan, transitions
from orchestrator.core.commands import Command
from orchestrator.core.model import (
    AgentStatus,
    BlockedBy,
    Budget,
    Owed,
    Process,
    StageRecord,
    Step,
    Task,
    TaskStatus,
)
from orchestrator.core.obligations import obligations, run_folder_of_agent
from orchestrator.core.pipeline import Pipeline, Work
from orchestrator.core.stream.neutral import ErrorClass

_NOTED = (events.DaemonStarted, events.ForeignEditFound)


def begin(pipeline: Pipeline, event: events.TaskSubmitted) -> tuple[Task, tuple[Command, ...]]:
    """The first decision of a task's life."""
    stages = {name: StageRecord() for name in pipeline.stages}
    budgets = {name: Budget(limit=limit) for name, limit in pipeline.budgets.items()}
    task = replace(event.task, seq=1, updated_at=event.at, stage=pipeline.start, stages=stages, budgets=budgets)
    return task, obligations(pipeline, task)


def decide(pipeline: Pipeline, task: Task, event: events.Event) -> tuple[Task, tuple[Command, ...]]:
    """The task after the event, and the commands that became owed by it.

    The same task object comes back when the event changes nothing. Raises InvalidTransition for a request that the
    task's state does not allow.
    """
    after = _after(pipeline, task, event)
    if after is task and not isinstance(event, _NOTED):
        return task, ()
    transitions.require_legal(task, after)
    after = replace(after, seq=task.seq + 1, updated_at=event.at)
    owed = obligations(pipeline, after)
    before = () if isinstance(event, events.DaemonStarted) else obligations(pipeline, task)
    return after, tuple(command for command in owed if command not in before)


def _after(pipeline: Pipeline, task: Task, event: events.Event) -> Task:  # noqa: C901, PLR0912 - one line per event
    match event:
        case events.TaskSubmitted() | events.ForeignEditFound():
            return task
        case events.DaemonStarted():
            return _daemon_started(pipeline, task, event)
        case events.TaskAdmitted():
            return _admitted(task, event)
        case events.WorkspaceReady():
            return _workspace_ready(pipeline, task, event)
        case events.RunStarted():
            return _run_began(pipeline, task, event.folder, event.pid, event.at)
        case events.SessionStarted():
            return _session_started(task, event)
        case events.TurnFinished():
            return _turn_finished(pipeline, task, event)
        case events.AgentExited():
            return _agent_exited(pipeline, task, event)
        case events.GateLooked():
            return _gate_looked(pipeline, task, event)
        case events.CheckFinished():
            return _check_finished(pipeline, task, event)
        case events.BranchDelivered():
            return _delivered(pipeline, task, event)
        case events.CommandFailed():
            return _command_failed(pipeline, task, event)
        case events.RunFrozen():
            return _run_is(task, event.folder, Process.FROZEN)
        case events.FreezeFailed():
            return _run_is(task, event.folder, Process.UNFREEZABLE)
        case events.RunThawed():
            return _thawed(task, event)
        case events.AlarmRang():
            return _alarm_rang(pipeline, task, event)
        case events.CheckpointSaved():
            return replace(task, agent=replace(task.agent, last_saved=event.at))
        case events.PauseRequested():
            return _pause_requested(task, event)
        case events.ResumeRequested():
            return _resume_requested(task, event)
        case events.CancelRequested():
            return _cancel_requested(task)
        case _:
            assert_never(event)


def _daemon_started(pipeline: Pipeline, task: Task, event: events.DaemonStarted) -> Task:
    """A run that began just before the crash is known now; in a paused task that makes its freeze owed."""
    if task.run is None or not event.run_alive:
        return task
    return _run_began(pipeline, task, task.run.folder, task.agent.pid, event.at)


def _admitted(task: Task, event: events.TaskAdmitted) -> Task:
    if not task.wants_slot:
        return task
    if task.status is TaskStatus.PENDING:
        return replace(task, status=TaskStatus.IN_PROGRESS, started_at=event.at, owed=Owed.WORKSPACE)
    status = AgentStatus.RUNNING if task.run and task.owed is not Owed.CHECKS else AgentStatus.IDLE
    return replace(task, agent=replace(task.agent, status=status))


def _workspace_ready(pipeline: Pipeline, task: Task, event: events.WorkspaceReady) -> Task:
    if task.owed is not Owed.WORKSPACE:
        return task
    task = replace(task, worktree=event.worktree, branch=event.branch, head=event.head)
    return course.enter(pipeline, task, task.stage, event.at)


def _run_began(pipeline: Pipeline, task: Task, folder: str, pid: int | None, at: datetime) -> Task:
    if task.run is None or task.run.folder != folder or task.run.process is not Process.STARTING:
        return task
    task = replace(task, run=replace(task.run, process=Process.RUNNING))
    if task.owed is not Owed.AGENT:
        return task
    task = replace(task, agent=replace(task.agent, pid=pid, last_update=at))
    return course.next_turn(pipeline, task, at)


def _session_started(task: Task, event: events.SessionStarted) -> Task:
    if event.attempt != task.agent.attempt or task.agent.session_seen:
        return task
    return replace(task, agent=replace(task.agent, session_seen=True, session_id=event.session_id))


def _turn_finished(pipeline: Pipeline, task: Task, event: events.TurnFinished) -> Task:
    agent = task.agent
    if event.attempt != agent.attempt or event.offset <= agent.read_offset:
        return task
    heard = replace(
        task,
        agent=replace(
            agent,
            read_offset=event.offset,
            tool_uses=event.tool_uses,
            tokens_used=agent.tokens_before + event.tokens,
            cost_usd=agent.cost_before + event.cost_usd,
            turn_deadline=None,
            last_update=event.at,
        ),
    )
    if task.owed is not Owed.TURN or task.status is not TaskStatus.IN_PROGRESS:
        return heard
    if event.outcome is events.TurnOutcome.OK:
        return replace(heard, owed=Owed.GATE, agent=replace(heard.agent, limit_hits=0))
    if event.error_class == ErrorClass.USAGE_LIMIT:
        return course.limited(pipeline, heard, event.resets_at, event.at)
    if event.error_class and event.error_class in course.FOR_A_PERSON:
        mend = course.FOR_A_PERSON[event.error_class]
        return course.blocked(heard, f"{task.stage}: {event.reason or event.error_class}; to mend it, {mend}")
    if event.error_class == ErrorClass.SESSION and agent.resumed:
        return course.begin_anew(heard, event.at)
    return course.attempt_failed(pipeline, heard, event.reason, event.error_class or "turn_failed", event.at)


def _agent_exited(pipeline: Pipeline, task: Task, event: events.AgentExited) -> Task:
    if task.run is None or task.run.folder != run_folder_of_agent(event.attempt):
        return task
    agent = replace(
        task.agent,
        status=AgentStatus.IDLE if task.agent.status is AgentStatus.RUNNING else task.agent.status,
        pid=None,
        turn_deadline=None,
        read_offset=max(event.offset, task.agent.read_offset),
    )
    if event.code is None:
        agent = course.totals_settled(agent)
    task = replace(task, run=None, agent=agent)
    if task.status is not TaskStatus.IN_PROGRESS:
        return task
    if task.owed is Owed.STOP:
        return replace(task, owed=Owed.RETRY) if task.retry_at else course.proceed(pipeline, task, event.at)
    if task.owed not in (Owed.AGENT, Owed.TURN):
        return task
    if task.paused:
        return replace(task, owed=Owed.RETRY, retry_at=task.retry_at or event.at)
    return course.attempt_failed(pipeline, task, event.reason, "agent_lost", event.at)


def _gate_looked(pipeline: Pipeline, task: Task, event: events.GateLooked) -> Task:
    asked = (task.stage, task.stages[task.stage].visits, task.agent.turn)
    if task.owed is not Owed.GATE or (event.stage, event.visit, event.turn) != asked:
        return task
    stage, evidence = pipeline.stage(task.stage), event.evidence
    record = task.stages[task.stage]
    artifacts = tuple(dict.fromkeys((*record.artifacts, *evidence.fresh)))
    task = replace(
        task,
        stages={**task.stages, task.stage: replace(record, artifacts=artifacts)},
        steps=_planned(pipeline, task, evidence),
    )
    match stage.work:
        case Work.STEPS:
            return _step_judged(pipeline, task, event)
        case Work.CHECKS:
            return _explanation_judged(pipeline, task, event)
        case _:
            return _artifacts_judged(pipeline, task, event)


def _step_judged(pipeline: Pipeline, task: Task, event: events.GateLooked) -> Task:
    """A step's commits are taken in with the step, so a look after another try still finds the earlier ones."""
    lacking = guards.missing_of_step(event.evidence)
    if lacking:
        return course.try_again(pipeline, task, lacking, event.at)
    task = replace(task, head=event.evidence.head or task.head)
    return course.step_done(pipeline, task, event.evidence, event.at)


def _explanation_judged(pipeline: Pipeline, task: Task, event: events.GateLooked) -> Task:
    """The failures are facts already; an agent that cannot explain them only leaves the explanation out."""
    analysis = event.evidence.analysis
    retried = None if analysis else course.spent(task, "gate_retries")
    if retried is None:
        return course.evaluation_failed(pipeline, task, event.at, analysis)
    lacking = ("failure-analysis.json with root_cause_hypothesis, confidence and suggested_fix not found",)
    return course.proceed(pipeline, replace(retried, feedback=lacking), event.at)


def _artifacts_judged(pipeline: Pipeline, task: Task, event: events.GateLooked) -> Task:
    stage, evidence = pipeline.stage(task.stage), event.evidence
    lacking = guards.missing(stage.guards, task, evidence)
    if not lacking:
        return course.advance(pipeline, task, event.at)
    if stage.role and not task.agent.tool_uses and not evidence.fresh:
        lacking = ("the turn ended without any work: no tool was used and nothing was left behind", *lacking)
    refused = tuple(f"refused: {reason}" for reason in evidence.refused[:10])
    return course.try_again(pipeline, task, lacking + refused, event.at)


def _planned(pipeline: Pipeline, task: Task, evidence: guards.Evidence) -> tuple[Step, ...]:
    """The steps of a plan that was just left behind, or else the ones the task has."""
    for stage in pipeline.stages.values():
        if stage.plan and stage.plan in evidence.fresh and stage.plan in evidence.files:
            return plan.steps_of(evidence.files[stage.plan].headings)
    return task.steps


def _check_finished(pipeline: Pipeline, task: Task, event: events.CheckFinished) -> Task:
    if task.run is None or task.run.folder != event.folder:
        return task
    task = replace(task, run=None)
    if task.status is not TaskStatus.IN_PROGRESS or task.owed is not Owed.CHECKS:
        return task
    if event.result is None:
        if task.paused:
            return replace(task, owed=Owed.RETRY, retry_at=event.at)
        return course.attempt_failed(pipeline, task, f"the check {event.name} was lost", "check_lost", event.at)
    task = replace(task, results={**task.results, event.name: event.result})
    return course.next_check(pipeline, task, event.at)


def _delivered(pipeline: Pipeline, task: Task, event: events.BranchDelivered) -> Task:
    if task.owed is not Owed.DELIVERY:
        return task
    return course.advance(pipeline, replace(task, branch=event.branch), event.at)


def _command_failed(pipeline: Pipeline, task: Task, event: events.CommandFailed) -> Task:
    """Only a task at work can be blocked by it; what has ended stays ended, though its run could not be stopped."""
    if task.status is not TaskStatus.IN_PROGRESS or event.command not in obligations(pipeline, task):
        return task
    return course.blocked(task, event.reason)


def _run_is(task: Task, folder: str, process: Process) -> Task:
    """What is not known to have begun neither stands nor goes on; that it began is told first, or told again."""
    if task.run is None or task.run.folder != folder or task.run.process in (process, Process.STARTING):
        return task
    return replace(task, run=replace(task.run, process=process))


def _thawed(task: Task, event: events.RunThawed) -> Task:
    """Time that stood still does not count against the turn."""
    after = _run_is(task, event.folder, Process.RUNNING)
    if after is task or after.agent.turn_deadline is None:
        return after
    deadline = event.at + timedelta(seconds=after.turn_timeout)
    return replace(after, agent=replace(after.agent, turn_deadline=deadline))


def _alarm_rang(pipeline: Pipeline, task: Task, event: events.AlarmRang) -> Task:
    if task.status is not TaskStatus.IN_PROGRESS:
        return task
    if task.paused:
        return _limit_over(task) if task.limited and task.retry_at and event.at >= task.retry_at else task
    if task.owed is Owed.RETRY and task.retry_at and event.at >= task.retry_at:
        return course.proceed(pipeline, task, event.at)
    deadline = task.agent.turn_deadline
    frozen = task.run is not None and task.run.process is Process.FROZEN
    if task.owed is Owed.TURN and deadline and event.at >= deadline and not frozen:
        reason = f"no result within {task.turn_timeout:.0f} s"
        return course.attempt_failed(pipeline, task, reason, "turn_timeout", event.at)
    return task


def _limit_over(task: Task) -> Task:
    """It goes on as soon as there is a place."""
    retry_at = task.retry_at if task.owed is Owed.RETRY else None
    return replace(task, retry_at=retry_at, agent=replace(task.agent, blocked_by=None))


def _pause_requested(task: Task, event: events.PauseRequested) -> Task:
    if event.blocked_by is BlockedBy.USER:
        transitions.require("pause", task)
    elif not task.holds_slot:
        return task
    return replace(task, agent=replace(task.agent, status=AgentStatus.PAUSED, blocked_by=event.blocked_by))


def _resume_requested(task: Task, event: events.ResumeRequested) -> Task:
    if event.blocked_by is BlockedBy.USER:
        transitions.require("resume", task)
    elif not task.paused or task.agent.blocked_by is not event.blocked_by:
        return task
    return replace(task, agent=replace(task.agent, blocked_by=None))


def _cancel_requested(task: Task) -> Task:
    transitions.require("cancel", task)
    agent = replace(task.agent, status=AgentStatus.FAILED, blocked_by=None)
    return replace(task, status=TaskStatus.CANCELLED, owed=Owed.NOTHING, agent=agent)
