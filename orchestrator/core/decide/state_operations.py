"""State operations: transitions, step updates and failure reports that people, programs and agents request.

The daemon does not trust what an agent reports about its own work. A step is completed only by commits that the daemon
saw, and a transition needs what the guards find. Only a person may force a transition; the reason is recorded.

A workspace without a daemon has a manual pipeline. Its callers do the work, so what they report about steps and files
counts, and no command is owed. Guards and transitions are the same.
"""

import fnmatch
from dataclasses import replace
from typing import assert_never

from orchestrator.core.decide import lifecycle, outcomes, pausing, requests, state_moves, transitions
from orchestrator.core.decide.state_moves import TransitionKind
from orchestrator.core.events import events
from orchestrator.core.events.operations import (
    FailureReport,
    ForcedTransition,
    Operation,
    StepUpdate,
    Transition,
    blocked,
    mismatch,
    no_steps_here,
    not_at_work,
)
from orchestrator.core.task import guards
from orchestrator.core.task.agent import AgentStatus
from orchestrator.core.task.guards import Evidence
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.progress import StageFacts, StepStatus
from orchestrator.core.task.task import NextAction, Task, TaskStatus
from orchestrator.core.task.user_requests import Answer, RequestStatus, Subject
from orchestrator.errors import InvalidTransition
from orchestrator.formats.person import person_name

_TURN = (NextAction.TURN, NextAction.INTERRUPT)


def apply_operation(pipeline: Pipeline, task: Task, event: events.OperationRequested) -> Task:
    """Return the task after an operation. Raises OperationRefused and InvalidTransition."""
    if not pipeline.is_manual:
        require_begun(pipeline, task, event.operation)
    match event.operation:
        case Transition():
            return _move(pipeline, task, event, event.operation)
        case ForcedTransition():
            return _force(pipeline, task, event, event.operation)
        case StepUpdate():
            return _update_step(pipeline, task, event, event.operation)
        case FailureReport():
            state_moves.require_new(task, event.operation.failure)
            return outcomes.record_failure(task, event.at, event.operation.failure)
        case _:
            assert_never(event.operation)


def require_begun(pipeline: Pipeline, task: Task, operation: Operation) -> None:
    """Refuse an operation on a task that has not begun or has ended.

    Raises OperationRefused with a document for programs, and InvalidTransition for a person's forced transition.
    """
    if task.is_active or task.status is TaskStatus.BLOCKED:
        return
    state, can = state_moves.state_of(task), transitions.allowed(task)
    match operation:
        case ForcedTransition():
            raise InvalidTransition("change the state of", task.status, task.stage, can)
        case Transition(from_state=origin) if state_moves.stage_named(pipeline, origin) != state:
            raise mismatch(origin, state)
        case Transition(from_state=origin, to_state=target):
            raise blocked(origin, target, (f"the task is {task.status}; allowed now: {', '.join(can)}",))
        case StepUpdate() | FailureReport():
            raise not_at_work(state, task.status, can)
        case _:
            assert_never(operation)


def _update_step(pipeline: Pipeline, task: Task, event: events.OperationRequested, update: StepUpdate) -> Task:
    """Return the task after a step update. Only commits seen on the branch count, unless the pipeline is manual."""
    step = state_moves.require_step(task.steps, update.step_id)
    if pipeline.is_manual:
        return replace(task, steps=state_moves.update_step(task.steps, update, event.at))
    credited = {commit for other in task.steps if other is not step for commit in other.commits}
    seen = tuple(commit for commit in event.evidence.commits if commit not in credited)
    lacking = tuple(
        f"commit {commit} was not seen on the task's branch"
        for commit in update.commits
        if not any(known.startswith(commit) for known in (*seen, *step.commits))
    )
    if not pipeline.stage(task.stage).work.has_steps:
        raise no_steps_here(task.stage, step.step_id)
    if step.status is StepStatus.COMPLETED and update.status is not StepStatus.COMPLETED:
        lacking += (f"step {step.step_id} is completed by its commits",)
    elif update.status is StepStatus.COMPLETED:
        lacking += guards.missing_of_step(replace(event.evidence, commits=seen or step.commits))
    if lacking:
        raise blocked(step.status, update.status, lacking)
    full = tuple(known for known in seen if any(known.startswith(commit) for commit in update.commits))
    commits = seen if update.status is StepStatus.COMPLETED else full
    return replace(task, steps=state_moves.update_step(task.steps, replace(update, commits=commits), event.at))


def _count_revisions(pipeline: Pipeline, task: Task, evidence: Evidence) -> Task:
    """Return the task of a manual pipeline with the drafts counted as revisions beyond the first of each cycle."""
    name, here = pipeline.family.draft_budget, task.stages[task.stage]
    budget = task.budgets.get(name)
    if not pipeline.is_manual or budget is None or here.facts is not StageFacts.DRAFTS:
        return task
    used = len(fnmatch.filter(evidence.files, pipeline.family.draft)) - task.cycle
    return replace(task, budgets={**task.budgets, name: replace(budget, used=max(budget.used, used))})


def _move(pipeline: Pipeline, task: Task, event: events.OperationRequested, move: Transition) -> Task:
    task = _count_revisions(pipeline, task, event.evidence)
    edge = state_moves.check_move(pipeline, task, move, event.evidence)
    if edge.way is TransitionKind.HALT:
        return outcomes.block(task, _halt_reason(pipeline, task, event, move), event.at)
    if edge.way is not TransitionKind.AGAIN and task.source.worktree is None:
        raise blocked(move.from_state, move.to_state, ("the task's worktree is not prepared yet",))
    if task.status is TaskStatus.REVIEW:
        raise blocked(move.from_state, move.to_state, ("the result of the stage has to be approved first",))
    task = state_moves.update_plan(pipeline.stage(edge.stage), task, event.evidence)
    if edge.way is TransitionKind.AGAIN:
        return requests.apply_request(pipeline, task, events.RetryRequested(at=event.at, by=event.by))
    left = state_moves.record_bypass(_with_artifacts(pipeline, task, event, move), event.by)
    if edge.way is TransitionKind.BACK:
        return _end_turn_first(task, lifecycle.fail_stage(pipeline, left, event.at, None))
    if pipeline.stage(task.stage).choices:
        left = lifecycle.choose(left, edge.stage)
    return _end_turn_first(task, lifecycle.advance(pipeline, left, event.at))


def _halt_reason(pipeline: Pipeline, task: Task, event: events.OperationRequested, move: Transition) -> str:
    if pipeline.is_manual:
        used_up = state_moves.out_of_cycles(pipeline.stage(task.stage), task)
        return move.reason or "; ".join(used_up) or f"{person_name(event.by) or 'a caller'} blocked it"
    return f"{task.stage}: " + (move.reason or f"{person_name(event.by) or 'a caller'} blocked it")


def _with_artifacts(pipeline: Pipeline, task: Task, event: events.OperationRequested, move: Transition) -> Task:
    """Return the task with the files on record that its stage left; named files count only in a manual pipeline."""
    named = move.artifacts if pipeline.is_manual else ()
    record = task.stages[task.stage]
    present = state_moves.present_artifacts(pipeline.stage(task.stage), event.evidence)
    artifacts = tuple(dict.fromkeys((*record.artifacts, *named, *present)))
    return replace(task, stages={**task.stages, task.stage: replace(record, artifacts=artifacts)})


def _force(pipeline: Pipeline, task: Task, event: events.OperationRequested, move: ForcedTransition) -> Task:
    """Return the task at the beginning of the stage that a person names, its open reviews withdrawn."""
    origin = state_moves.state_of(task)
    if move.to_state not in pipeline.stages:
        known = ", ".join(pipeline.stages)
        raise blocked(origin, move.to_state, (f"{pipeline.name} has no stage of that name; it has {known}",))
    if task.source.worktree is None:
        raise blocked(origin, move.to_state, ("the task's worktree is not prepared yet",))
    for request in task.pending_requests:
        if request.draft.subject is Subject.STAGE or task.status is TaskStatus.REVIEW:
            withdrawn = Answer(status=RequestStatus.WITHDRAWN, by=event.by)
            task = pausing.answer_request(task, request.number, withdrawn, event.at)
    if task.status is TaskStatus.BLOCKED:
        task = replace(task, agent=replace(task.agent, status=AgentStatus.PAUSED, blocked_by=None))
    free = replace(task, status=TaskStatus.IN_PROGRESS, block_reason=None, retry_at=None)
    return _end_turn_first(task, lifecycle.enter_stage(pipeline, free, move.to_state, event.at))


def _end_turn_first(before: Task, after: Task) -> Task:
    """Return the task with the turn for the old stage ended first, with its process; its session goes on afterwards."""
    if (
        before.next_action not in _TURN
        or before.run is None
        or after.run != before.run
        or after.next_action is not NextAction.TURN
    ):
        return after
    old = before.agent.turn
    turn = replace(after.agent.turn, number=old.number, deadline=old.deadline)
    return replace(after.with_turn(turn), next_action=NextAction.STOP)
