"""The state machine: `decide(pipeline, task, event, allowance)` returns the task after an event, and its commands.

Everything that changes a task goes through here, one event at a time. An event is a fact with the time when it
happened; this module never reads a clock, a file or a process.

Each event has one handler, which returns the task afterwards. Events of an agent's turn are handled in turns.py,
requests of people in requests.py, state operations in state_operations.py, publishing in publishing.py, children in
work/following.py, the rest here. lifecycle.py moves a task along its pipeline, pausing.py pauses and resumes it.

Handlers issue no commands. obligations.py derives from a state what should be under way, and `decide` returns what
became owed by this decision. After `DaemonStarted` it returns everything that is owed; recovery needs nothing else.

A late event (of an earlier attempt, turn, visit or run) returns the same task object, and nothing is committed. A
request that the state does not allow raises InvalidTransition. Every other event is accepted in any state, because
processes may die at any time.

A task has at most one run (a process tree). Pausing changes what is wanted, which is the agent's status; the run's
process says what exists. While a task is paused, events still move it on; what they owe is dispatched when a slot is
free again.
"""

import fnmatch
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from types import MappingProxyType
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
from orchestrator.core.decide.work import following
from orchestrator.core.events import events, run_events
from orchestrator.core.events.child_events import ChildEvent
from orchestrator.core.events.commands import Command
from orchestrator.core.events.notice import NoticeKind
from orchestrator.core.task import guards
from orchestrator.core.task.agent import AgentStatus, PauseReason, ProcessState
from orchestrator.core.task.checkpoint import Reason
from orchestrator.core.task.checks import with_result
from orchestrator.core.task.pipeline import Pipeline, Stage
from orchestrator.core.task.progress import Budget, StageFacts, StageRecord, Step
from orchestrator.core.task.task import NextAction, Task, TaskStatus
from orchestrator.core.task.usage_limits import EVERYTHING, Allowance

STOPPED: Mapping[Reason, str] = MappingProxyType(
    {Reason.LIMIT: "token_limit", Reason.USER: "manual_stop", Reason.FREEZE: "manual_stop"}
)
"""Why work on a step was stopped, in the words of its checkpoint, by the reason of the task's."""


def begin(pipeline: Pipeline, event: events.TaskSubmitted) -> tuple[Task, tuple[Command, ...]]:
    """Return the submitted task as it begins, and the first commands.

    One that was begun elsewhere brings its stage with it, its records of stages, and the budgets that it has used.
    """
    fresh = {
        name: StageRecord(facts=stage_facts(pipeline, stage), phase=stage.phase)
        for name, stage in pipeline.stages.items()
    }
    owed = NextAction.NOTHING if event.task.status is TaskStatus.DRAFT else event.task.next_action
    budgets = {name: Budget(limit=limit) for name, limit in pipeline.budgets.items()}
    task = replace(
        event.task,
        seq=1,
        updated_at=event.at,
        stage=event.task.stage or pipeline.start,
        stages={**fresh, **event.task.stages},
        budgets={**budgets, **event.task.budgets},
        next_action=owed,
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
    after = _apply(pipeline, task, event)
    if after is task and not _is_noted(pipeline, task, event):
        return task, ()
    transitions.require_legal(task, after)
    if after.failures is not task.failures:
        after = outcomes.name_related(pipeline, task, after)
    after = _with_thaw_in_doubt(task, _hold_turn(allowance, task, after, event.at))
    after = replace(after, seq=task.seq + 1, updated_at=event.at)
    owed = obligations(pipeline, after)
    before = () if isinstance(event, events.DaemonStarted) else obligations(pipeline, task)
    return after, tuple(command for command in owed if command not in before)


def _is_noted(pipeline: Pipeline, task: Task, event: events.Event) -> bool:
    """Return whether an event is on record although it changes nothing: what was found, or that the daemon started.

    A start is nothing to a task that has not begun and owes no command: hundreds of these may wait for a slot.
    """
    if isinstance(event, events.DaemonStarted):
        return task.status is not TaskStatus.PENDING or bool(obligations(pipeline, task))
    return isinstance(event, events.ForeignEditFound)


def _hold_turn(allowance: Allowance, before: Task, after: Task, at: datetime) -> Task:
    """Return the task paused before a turn that its living agent would be sent now but is not allowed."""
    follows = (after.agent.attempt, after.agent.turn.number) != (before.agent.attempt, before.agent.turn.number)
    if not follows or after.next_action is not NextAction.TURN or not after.holds_slot:
        return after
    reason = allowance.forbids_turn(after.spending.on(f"{at:%Y-%m-%d}"), after.spending.whole)
    return pausing.hold_for_account(after, reason) if reason else after


def _with_thaw_in_doubt(before: Task, after: Task) -> Task:
    """Return the task with its run as one that works, if it is paused while it was being thawed: its freeze is owed.

    The thaw may have been done and not be recorded yet, and after a crash it never is.
    """
    run, old = after.run, before.run
    if run is None or old is None or before.is_paused or not after.is_paused or run.folder != old.folder:
        return after
    if old.process is not ProcessState.FROZEN or run.process is not ProcessState.FROZEN:
        return after
    return replace(after, run=replace(run, process=ProcessState.RUNNING, park_at=None))


def _apply(pipeline: Pipeline, task: Task, event: events.Event) -> Task:  # noqa: C901, PLR0912 - one line per event
    if isinstance(event, events.TurnEvent):
        return turns.apply_turn_event(pipeline, task, event)
    if isinstance(event, ChildEvent):
        return following.apply_child_event(pipeline, task, event)
    if isinstance(event, events.DeliveryEvent):
        return publishing.apply_publish_event(pipeline, task, event)
    if isinstance(event, events.Request):
        return requests.apply_request(pipeline, task, event)
    match event:
        case events.TaskSubmitted() | events.ForeignEditFound():
            return task
        case events.DaemonStarted():
            return _on_daemon_start(pipeline, task, event)
        case events.TaskAdmitted():
            return _on_admitted(task, event)
        case events.WorkspaceReady():
            return _on_workspace(pipeline, task, event)
        case run_events.RunStarted():
            return _begin_run(pipeline, task, event)
        case events.GateLooked():
            return _on_gate(pipeline, task, event)
        case run_events.CheckFinished():
            return _on_check(pipeline, task, event)
        case events.CommandFailed():
            return _on_command_failure(pipeline, task, event)
        case run_events.RunFrozen():
            return _on_frozen(task, event)
        case run_events.FreezeFailed():
            return _with_run_state(task, event.folder, ProcessState.UNFREEZABLE)
        case run_events.RunThawed():
            return _on_thawed(task, event)
        case events.AlarmRang():
            return _on_alarm(pipeline, task, event)
        case events.CheckpointSaved():
            return _on_checkpoint(task, event)
        case events.OperationRequested():
            return state_operations.apply_operation(pipeline, task, event)
        case events.LoginMissed():
            kind = NoticeKind.INSTALLATION_BROKEN if event.blames_installation else NoticeKind.LOGIN_MISSING
            return pausing.add_notice(task, kind, event.reason, event.at, f"login-{task.seq}")
        case events.PersonTold():
            return replace(task, notices=tuple(notice for notice in task.notices if notice.key != event.key))
        case _:
            assert_never(event)


def _on_daemon_start(pipeline: Pipeline, task: Task, event: events.DaemonStarted) -> Task:
    """Record a run that began just before the daemon stopped; in a paused task its freeze becomes owed."""
    if task.run is None or not event.run_alive:
        return task
    begun = run_events.RunStarted(at=event.at, folder=task.run.folder, pid=task.agent.pid, holder=task.run.holder)
    return _begin_run(pipeline, task, begun)


def _on_admitted(task: Task, event: events.TaskAdmitted) -> Task:
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
    return task if stood or task.agent.turn.active_since is not None else _restart_deadline(task, event.at)


def _on_workspace(pipeline: Pipeline, task: Task, event: events.WorkspaceReady) -> Task:
    if event.restored_from:
        return replace(task)  # an equal task, but not the same: that it was restored is on record
    if task.next_action is not NextAction.WORKSPACE:
        return task
    base = event.base or task.source.base_commit
    source = replace(task.source, worktree=event.worktree, branch=event.branch, head=event.head, base_commit=base)
    task = replace(task, source=source)
    return lifecycle.enter_stage(pipeline, task, task.stage, event.at)


def _begin_run(pipeline: Pipeline, task: Task, event: run_events.RunStarted) -> Task:
    if task.run is None or task.run.folder != event.folder or task.run.process is not ProcessState.STARTING:
        return task
    task = replace(task, run=replace(task.run, process=ProcessState.RUNNING, holder=event.holder))
    if task.next_action is not NextAction.AGENT:
        return task
    task = replace(task, agent=replace(task.agent, pid=event.pid, last_update=event.at))
    return lifecycle.next_turn(pipeline, task, event.at)


def _on_gate(pipeline: Pipeline, task: Task, event: events.GateLooked) -> Task:
    asked = (task.stage, task.stages[task.stage].visits, task.agent.turn.number)
    if task.next_action is not NextAction.GATE or (event.stage, event.visit, event.turn) != asked:
        return task
    stage, evidence = pipeline.stage(task.stage), event.evidence
    record = task.stages[task.stage]
    artifacts = tuple(dict.fromkeys((*record.artifacts, *evidence.fresh)))
    task = replace(
        task,
        stages={**task.stages, task.stage: replace(record, artifacts=artifacts, digest=evidence.digest)},
        steps=_plan_steps(pipeline, task, evidence),
        children=following.planned(pipeline, task, evidence),
    )
    task = _count_drafts(pipeline, task, evidence)
    if stage.choices:
        open_ways = (choice.next for choice in stage.choices if not guards.missing(choice.when, task, evidence))
        task = lifecycle.choose(task, next(open_ways, stage.next or ""))
    return stage.work.judge(pipeline, task, evidence, event.at)


def _count_drafts(pipeline: Pipeline, task: Task, evidence: guards.Evidence) -> Task:
    """Return the task with the drafts counted that their review rejected: all but one in each visit of the stage."""
    family, record = pipeline.family, task.stages[task.stage]
    budget = task.budgets.get(family.draft_budget)
    if budget is None or not fnmatch.filter(evidence.fresh, family.draft):
        return task
    used = max(0, len(fnmatch.filter(record.artifacts, family.draft)) - record.visits)
    return replace(task, budgets={**task.budgets, family.draft_budget: replace(budget, used=used)})


def _plan_steps(pipeline: Pipeline, task: Task, evidence: guards.Evidence) -> tuple[Step, ...]:
    """Return the steps of a plan that was just left behind, else the task's present steps."""
    for stage in pipeline.stages.values():
        if stage.plan and stage.plan in evidence.fresh and stage.plan in evidence.files:
            facts = evidence.files[stage.plan]
            return plan.steps_of(facts.headings, facts.digests, task.steps)
    return task.steps


def _on_check(pipeline: Pipeline, task: Task, event: run_events.CheckFinished) -> Task:
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
        return lifecycle.lose_attempt(pipeline, task, f"the check {event.name} was lost", "check_lost", event.at)
    task = replace(
        task.with_setbacks(replace(task.agent.setbacks, losses=0)),
        evaluation=replace(
            task.evaluation,
            results=with_result(task.evaluation.checks, task.evaluation.results, event.name, event.result),
        ),
    )
    return lifecycle.continue_stage(pipeline, task, event.at)


def _on_command_failure(pipeline: Pipeline, task: Task, event: events.CommandFailed) -> Task:
    """Block the task if the command is still owed; a task that has ended stays as it is."""
    if not task.is_active or event.command not in obligations(pipeline, task):
        return task
    return outcomes.block(task, event.reason, event.at)


def _on_checkpoint(task: Task, event: events.CheckpointSaved) -> Task:
    """Return the task with the checkpoint noted, at its present step too while the work on that is stopped."""
    task = replace(task, agent=replace(task.agent, last_saved=event.at))
    why = STOPPED.get(event.reason) if event.reason else None
    if why is None or not task.is_paused:
        return task
    return replace(task, steps=plan.note_stop(task.steps, task.agent.turn.step, why, event.uncommitted, event.at))


def _with_run_state(task: Task, folder: str, process: ProcessState) -> Task:
    """Return the task with its run's state changed. Ignore reports about runs that are starting or stopping."""
    unmoved = (process, ProcessState.STARTING, ProcessState.PARKING)
    if task.run is None or task.run.folder != folder or task.run.process in unmoved:
        return task
    return replace(task, run=replace(task.run, process=process))


def _on_frozen(task: Task, event: run_events.RunFrozen) -> Task:
    """Return the task with its run frozen: no working time, and after a while the run is stopped to free memory."""
    after = _with_run_state(task, event.folder, ProcessState.FROZEN)
    if after is task or after.run is None or not after.run.is_of_agent:
        return after
    park_at = event.at + timedelta(seconds=after.policy.park_after)
    after = _with_frozen_tool(replace(after, run=replace(after.run, park_at=park_at)))
    return turns.add_worked_time(after, event.at)


def _on_thawed(task: Task, event: run_events.RunThawed) -> Task:
    """Return the task with its run going on. Its turn has its whole time again; a command may have timed out."""
    after = _with_run_state(task, event.folder, ProcessState.RUNNING)
    if after is task or after.run is None or not after.run.is_of_agent:
        return after
    return _restart_deadline(replace(_with_frozen_tool(after), run=replace(after.run, park_at=None)), event.at)


def _with_frozen_tool(task: Task) -> Task:
    """Return the task with it noted if a tool was running while its processes were frozen.

    That is seen at the freeze, because the turn may end before its thaw is reported; and at the thaw, because the
    output that says that a tool had begun may be read while the agent is frozen.
    """
    turn = task.agent.turn
    if turn.deadline is None or turn.open_tools == 0:
        return task
    return task.with_turn(replace(turn, was_frozen_in_tool=True))


def _restart_deadline(task: Task, at: datetime) -> Task:
    """Return the task with the deadline of its turn, if one is under way, counted from now."""
    if task.agent.turn.deadline is None:
        return task
    return task.with_turn(replace(task.agent.turn, deadline=lifecycle.deadline(task, at), active_since=at))


def _on_alarm(pipeline: Pipeline, task: Task, event: events.AlarmRang) -> Task:
    if not task.is_active:
        return task
    task = pausing.apply_deadlines(task, event.at)
    if task.is_paused:
        return _alarm_while_paused(task, event.at)
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


def _alarm_while_paused(task: Task, at: datetime) -> Task:
    """Return the paused task, resumed if the time it waits for has come, or parked if it was frozen for too long."""
    if task.waits_for_service and task.retry_at and at >= task.retry_at:
        retry_at = task.retry_at if task.next_action is NextAction.RETRY else None
        return pausing.unpause(replace(task, retry_at=retry_at))
    if task.waits_for_merge and task.retry_at and at >= task.retry_at:
        return publishing.look_again(task, at)
    run = task.run
    if run is not None and run.process is ProcessState.FROZEN and run.park_at and at >= run.park_at:
        return pausing.park(task)
    return task
