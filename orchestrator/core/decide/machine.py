"""The state machine: `decide(pipeline, task, event)` gives the task after the event and what to do about it.

Theory of operation
-------------------
Everything that changes a task goes through here, one event at a time, and here only. An event is a fact with the time
it happened; this module never reads a clock, a file or a process.

Each event has one handler, which answers with the task as it is afterwards: what an agent's turn brings is in turns.py,
what people ask for in requests.py, the rest here. Moving along the pipeline (into a stage, to the next turn, back after
a failed evaluation) is in course.py, standing still in standing.py. Handlers issue no commands: obligations.py derives
from a state what should be under way, and `decide` hands out what became owed by this decision. `DaemonStarted` hands
out all of it. That is the recovery: there is no other.

Late news (of an earlier attempt, turn, visit or run) gives back the very same task, and nothing is committed.
A request that the state does not allow raises InvalidTransition, and nothing has changed. Every other event is taken in
any state: processes may die at any time.

A task has at most one run (process tree). Pausing changes what is wanted (the agent's status); the run's process says
what is there. While paused, events still move the task on; what they owe goes out when a place is free again.
"""

import fnmatch
from dataclasses import replace
from datetime import datetime, timedelta
from typing import assert_never

from orchestrator.core.decide import (
    lifecycle,
    outcomes,
    pausing,
    plan,
    publishing,
    requests,
    state_operations,
    transitions,
    turns,
)
from orchestrator.core.decide.obligations import obligations
from orchestrator.core.events import events
from orchestrator.core.events.commands import Command
from orchestrator.core.task import guards
from orchestrator.core.task.agent import AgentStatus, PauseReason, ProcessState
from orchestrator.core.task.checks import with_result
from orchestrator.core.task.notice import NoticeKind
from orchestrator.core.task.pipeline import Pipeline, Stage
from orchestrator.core.task.progress import Budget, StageFacts, StageRecord, Step
from orchestrator.core.task.task import NextAction, Task, TaskStatus
from orchestrator.core.task.usage_limits import EVERYTHING, Allowance

_NOTED = (events.DaemonStarted, events.ForeignEditFound)


def begin(pipeline: Pipeline, event: events.TaskSubmitted) -> tuple[Task, tuple[Command, ...]]:
    """The first decision of a task's life."""
    stages = {name: StageRecord(facts=stage_facts(pipeline, stage)) for name, stage in pipeline.stages.items()}
    owed = NextAction.NOTHING if event.task.status is TaskStatus.DRAFT else event.task.next_action
    budgets = {name: Budget(limit=limit) for name, limit in pipeline.budgets.items()}
    task = replace(
        event.task, seq=1, updated_at=event.at, stage=pipeline.start, stages=stages, budgets=budgets, next_action=owed
    )
    if event.held and task.status is TaskStatus.PENDING:
        task = pausing.pause(task, PauseReason.USER)
    return task, obligations(pipeline, task)


def stage_facts(pipeline: Pipeline, stage: Stage) -> StageFacts | None:
    """Return what state.json shows in a stage; the drafts are shown where their budget is a condition."""
    budgets = {getattr(guard, key) for guard in stage.guards for key in guard.budget_keys}
    return StageFacts.DRAFTS if pipeline.family.draft_budget in budgets else stage.work.facts


def decide(
    pipeline: Pipeline, task: Task, event: events.Event, allowance: Allowance = EVERYTHING
) -> tuple[Task, tuple[Command, ...]]:
    """Return the task after the event, and the commands that became owed by it.

    A next turn that the account or the day does not allow is not sent: the task waits. The same task object comes back
    when the event changes nothing. Raises InvalidTransition for a request that the task's state does not allow.
    """
    after = _after(pipeline, task, event)
    if after is task and not isinstance(event, _NOTED):
        return task, ()
    transitions.require_legal(task, after)
    after = replace(_within(allowance, task, after, event.at), seq=task.seq + 1, updated_at=event.at)
    owed = obligations(pipeline, after)
    before = () if isinstance(event, events.DaemonStarted) else obligations(pipeline, task)
    return after, tuple(command for command in owed if command not in before)


def _within(allowance: Allowance, before: Task, after: Task, at: datetime) -> Task:
    """Return the task paused before a turn that its living agent would be sent now but is not allowed."""
    follows = (after.agent.attempt, after.agent.turn.number) != (before.agent.attempt, before.agent.turn.number)
    if not follows or after.next_action is not NextAction.TURN or not after.holds_slot:
        return after
    reason = allowance.forbids_turn(after.spending.on(f"{at:%Y-%m-%d}"))
    return pausing.hold_for_account(after, reason) if reason else after


def _after(pipeline: Pipeline, task: Task, event: events.Event) -> Task:  # noqa: C901, PLR0912 - one line per event
    if isinstance(event, turns.TurnEvent):
        return turns.apply_turn_event(pipeline, task, event)
    if isinstance(event, publishing.PublishEvent):
        return publishing.apply_publish_event(pipeline, task, event)
    if isinstance(event, requests.Request):
        return requests.apply_request(pipeline, task, event)
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
        case events.GateLooked():
            return _gate_looked(pipeline, task, event)
        case events.CheckFinished():
            return _check_finished(pipeline, task, event)
        case events.CommandFailed():
            return _command_failed(pipeline, task, event)
        case events.RunFrozen():
            return _frozen(task, event)
        case events.FreezeFailed():
            return _run_is(task, event.folder, ProcessState.UNFREEZABLE)
        case events.RunThawed():
            return _thawed(task, event)
        case events.AlarmRang():
            return _alarm_rang(pipeline, task, event)
        case events.CheckpointSaved():
            return replace(task, agent=replace(task.agent, last_saved=event.at))
        case events.OperationRequested():
            return state_operations.apply_operation(pipeline, task, event)
        case events.LoginMissed():
            key = f"login-{task.seq}"
            return pausing.add_notice(task, NoticeKind.LOGIN_MISSING, event.reason, event.at, key)
        case events.PersonTold():
            return replace(task, notices=tuple(notice for notice in task.notices if notice.key != event.key))
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
        agent = replace(task.agent, status=AgentStatus.IDLE, blocked_by=None)
        return replace(
            task,
            status=TaskStatus.IN_PROGRESS,
            timing=replace(task.timing, started_at=event.at),
            next_action=NextAction.WORKSPACE,
            agent=agent,
        )
    if task.next_action in (NextAction.AGENT, NextAction.TURN) and lifecycle.cap_reached(task) is not None:
        return pausing.pause(task, PauseReason.BUDGET)
    status = AgentStatus.RUNNING if task.run and task.next_action is not NextAction.CHECKS else AgentStatus.IDLE
    task = replace(task, agent=replace(task.agent, status=status))
    stood = task.run is not None and task.run.process is not ProcessState.RUNNING
    return task if stood or task.agent.turn.active_since is not None else _timed(task, event.at)


def _workspace_ready(pipeline: Pipeline, task: Task, event: events.WorkspaceReady) -> Task:
    if task.next_action is not NextAction.WORKSPACE:
        return task
    task = replace(task, source=replace(task.source, worktree=event.worktree, branch=event.branch, head=event.head))
    return lifecycle.enter_stage(pipeline, task, task.stage, event.at)


def _run_began(pipeline: Pipeline, task: Task, folder: str, pid: int | None, at: datetime) -> Task:
    if task.run is None or task.run.folder != folder or task.run.process is not ProcessState.STARTING:
        return task
    task = replace(task, run=replace(task.run, process=ProcessState.RUNNING))
    if task.next_action is not NextAction.AGENT:
        return task
    task = replace(task, agent=replace(task.agent, pid=pid, last_update=at))
    return lifecycle.next_turn(pipeline, task, at)


def _gate_looked(pipeline: Pipeline, task: Task, event: events.GateLooked) -> Task:
    asked = (task.stage, task.stages[task.stage].visits, task.agent.turn.number)
    if task.next_action is not NextAction.GATE or (event.stage, event.visit, event.turn) != asked:
        return task
    stage, evidence = pipeline.stage(task.stage), event.evidence
    record = task.stages[task.stage]
    artifacts = tuple(dict.fromkeys((*record.artifacts, *evidence.fresh)))
    task = replace(
        task,
        stages={**task.stages, task.stage: replace(record, artifacts=artifacts, digest=evidence.digest)},
        steps=_planned(pipeline, task, evidence),
    )
    task = _count_drafts(pipeline, task, evidence)
    return stage.work.judge(pipeline, task, evidence, event.at)


def _count_drafts(pipeline: Pipeline, task: Task, evidence: guards.Evidence) -> Task:
    """Return the task with the drafts counted that their review rejected: all but one in each visit of the stage."""
    family, record = pipeline.family, task.stages[task.stage]
    budget = task.budgets.get(family.draft_budget)
    if budget is None or not fnmatch.filter(evidence.fresh, family.draft):
        return task
    used = max(0, len(fnmatch.filter(record.artifacts, family.draft)) - record.visits)
    return replace(task, budgets={**task.budgets, family.draft_budget: replace(budget, used=used)})


def _planned(pipeline: Pipeline, task: Task, evidence: guards.Evidence) -> tuple[Step, ...]:
    """The steps of a plan that was just left behind, or else the ones the task has."""
    for stage in pipeline.stages.values():
        if stage.plan and stage.plan in evidence.fresh and stage.plan in evidence.files:
            facts = evidence.files[stage.plan]
            return plan.steps_of(facts.headings, facts.digests, task.steps)
    return task.steps


def _check_finished(pipeline: Pipeline, task: Task, event: events.CheckFinished) -> Task:
    if task.run is None or task.run.folder != event.folder:
        return task
    task = replace(task, run=None)
    if task.is_active and task.next_action is NextAction.STOP:
        return lifecycle.continue_stage(pipeline, task, event.at)
    if not task.is_active or task.next_action is not NextAction.CHECKS:
        return task
    if event.result is None:
        if task.is_paused:
            return replace(task, next_action=NextAction.RETRY, retry_at=event.at)
        return lifecycle.fail_attempt(pipeline, task, f"the check {event.name} was lost", "check_lost", event.at)
    task = replace(
        task,
        evaluation=replace(
            task.evaluation,
            results=with_result(task.evaluation.checks, task.evaluation.results, event.name, event.result),
        ),
    )
    return lifecycle.continue_stage(pipeline, task, event.at)


def _command_failed(pipeline: Pipeline, task: Task, event: events.CommandFailed) -> Task:
    """Only a task at work can be blocked by it; what has ended stays ended, though its run could not be stopped."""
    if not task.is_active or event.command not in obligations(pipeline, task):
        return task
    return outcomes.block(task, event.reason, event.at)


def _run_is(task: Task, folder: str, process: ProcessState) -> Task:
    """What is not known to have begun neither stands nor goes on, and what is being ended does so whatever is told."""
    unmoved = (process, ProcessState.STARTING, ProcessState.PARKING)
    if task.run is None or task.run.folder != folder or task.run.process in unmoved:
        return task
    return replace(task, run=replace(task.run, process=process))


def _frozen(task: Task, event: events.RunFrozen) -> Task:
    """What stands still costs memory, so it is ended after a while; time that stands still costs no working time."""
    after = _run_is(task, event.folder, ProcessState.FROZEN)
    if after is task or after.run is None or not after.run.is_of_agent:
        return after
    park_at = event.at + timedelta(seconds=after.policy.park_after)
    return turns.add_worked_time(replace(after, run=replace(after.run, park_at=park_at)), event.at)


def _thawed(task: Task, event: events.RunThawed) -> Task:
    """Time that stood still does not count against the turn, but may have used up that of a command."""
    after = _run_is(task, event.folder, ProcessState.RUNNING)
    if after is task or after.run is None or not after.run.is_of_agent:
        return after
    at_work = after.agent.turn.deadline is not None and after.agent.turn.open_tools > 0
    agent = replace(
        after.agent, turn=replace(after.agent.turn, was_frozen_in_tool=after.agent.turn.was_frozen_in_tool or at_work)
    )
    return _timed(replace(after, agent=agent, run=replace(after.run, park_at=None)), event.at)


def _timed(task: Task, at: datetime) -> Task:
    """The task whose turn, if one is under way, has its time from now on."""
    if task.agent.turn.deadline is None:
        return task
    return replace(
        task,
        agent=replace(
            task.agent, turn=replace(task.agent.turn, deadline=lifecycle.deadline(task, at), active_since=at)
        ),
    )


def _alarm_rang(pipeline: Pipeline, task: Task, event: events.AlarmRang) -> Task:
    if not task.is_active:
        return task
    task = pausing.apply_deadlines(task, event.at)
    if task.is_paused:
        return _while_standing(task, event.at)
    if task.next_action is NextAction.RETRY and task.retry_at and event.at >= task.retry_at:
        return lifecycle.continue_stage(pipeline, task, event.at)
    deadline = task.agent.turn.deadline
    if task.run is None or task.run.process in (ProcessState.FROZEN, ProcessState.PARKING):
        return task
    if task.next_action is NextAction.TURN and lifecycle.cap_reached(turns.add_worked_time(task, event.at)) is not None:
        return turns.interrupt_turn(task, event.at)
    if task.next_action in (NextAction.TURN, NextAction.INTERRUPT) and deadline and event.at >= deadline:
        began = f"no result within {task.policy.turn_timeout:.0f} s"
        reason = began if task.next_action is NextAction.TURN else "it did not end its turn when it was told to"
        return lifecycle.fail_attempt(pipeline, task, reason, "turn_timeout", event.at)
    return task


def _while_standing(task: Task, at: datetime) -> Task:
    """It goes on when what it waited for may be over, and its process is ended when it has stood for long."""
    if task.waits_for_service and task.retry_at and at >= task.retry_at:
        retry_at = task.retry_at if task.next_action is NextAction.RETRY else None
        return pausing.unpause(replace(task, retry_at=retry_at))
    if task.waits_for_merge and task.retry_at and at >= task.retry_at:
        return replace(task, retry_at=None)
    run = task.run
    if run is not None and run.process is ProcessState.FROZEN and run.park_at and at >= run.park_at:
        return pausing.park(task)
    return task
