"""What a state operation may do: the moves from a state, the steps of a plan, entries of the failure log.

Guards judge evidence that the program looked for, never what the caller says about its own work.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import assert_never, cast

from orchestrator.core.decide import plan
from orchestrator.core.decide.outcomes import use_retry
from orchestrator.core.events.operations import OperationRefused, Refusal, StepUpdate, Transition, blocked, mismatch
from orchestrator.core.task import guards
from orchestrator.core.task.failures import Failure
from orchestrator.core.task.guards import Evidence
from orchestrator.core.task.pipeline import Pipeline, Stage
from orchestrator.core.task.progress import Step, StepStatus
from orchestrator.core.task.task import AS_STATE, Task, TaskStatus
from orchestrator.formats.codec import Json, JsonObject


class TransitionKind(StrEnum):
    """How a state is left."""

    NEXT = "next"
    BACK = "back"
    END = "end"
    HALT = "halt"
    AGAIN = "again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """An allowed move, and the stage that it leads to; ending, blocking and retrying keep the stage."""

    way: TransitionKind
    stage: str


BLOCKED, COMPLETED = AS_STATE[TaskStatus.BLOCKED], AS_STATE[TaskStatus.COMPLETED]


def state_of(task: Task) -> str:
    """Return the task's state as files and state operations name it."""
    return AS_STATE.get(task.status, task.stage)


def stage_named(pipeline: Pipeline, state: str) -> str:
    """Return the stage that a state stands for, or the state itself."""
    alias = pipeline.family.aliases.get(state)
    return alias.stage if alias else state


def current(pipeline: Pipeline, task: Task, document: JsonObject) -> JsonObject:
    """Return what `state get` answers: where the task is, the record of that state, plan and failures in short."""
    step = plan.next_step(task.steps)
    progress: Json = {
        "total_steps": len(task.steps),
        "completed_steps": sum(one.status is StepStatus.COMPLETED for one in task.steps),
        "current_step": step.description if step else None,
    }
    return {
        "ticket_id": task.ticket.key,
        "current_state": state_of(task),
        "current_agent": task.agent.role,
        "state": cast(JsonObject, document["states"]).get(task.stage),
        "plan_progress": progress if pipeline.stage(task.stage).work.has_steps else None,
        "failure_summary": document["failure_summary"],
    }


def check_move(pipeline: Pipeline, task: Task, move: Transition, evidence: Evidence) -> Move:
    """Return the transition that a move asks for.

    Raises OperationRefused: STATE_MISMATCH, or TRANSITION_BLOCKED with what is missing.
    """
    if stage_named(pipeline, move.from_state) != state_of(task):
        raise mismatch(move.from_state, state_of(task))
    edge = _edge(pipeline, task, move)
    lacking = _lacking(pipeline.stage(task.stage), task, edge, evidence)
    if lacking:
        raise blocked(move.from_state, move.to_state, lacking)
    return edge


def update_step(steps: tuple[Step, ...], update: StepUpdate, at: datetime) -> tuple[Step, ...]:
    """Return the steps after news about one of them. Raises OperationRefused (UNKNOWN_STEP)."""
    require_step(steps, update.step_id)
    match update.status:
        case StepStatus.COMPLETED:
            return plan.finish_step(steps, update.step_id, update.commits, at)
        case StepStatus.IN_PROGRESS:
            steps = plan.begin_step(steps, update.step_id, at)
        case StepStatus.PENDING | StepStatus.FAILED:
            steps = plan.with_status(steps, update.step_id, update.status)
        case _:
            assert_never(update.status)
    return tuple(_with_note(step, update) if step.step_id == update.step_id else step for step in steps)


def require_step(steps: tuple[Step, ...], step_id: int) -> Step:
    """Return the step with that number. Raises OperationRefused (UNKNOWN_STEP)."""
    found = next((step for step in steps if step.step_id == step_id), None)
    if found is None:
        numbers: list[Json] = [step.step_id for step in steps]
        remedy = f"the plan has no step {step_id}; it has {', '.join(map(str, numbers)) or 'none'}"
        raise OperationRefused(Refusal.UNKNOWN_STEP, {"step_id": step_id, "known": numbers}, remedy)
    return found


def require_new(task: Task, failure: Failure) -> None:
    """Refuse a failure whose id is on record already. Raises OperationRefused (FAILURE_EXISTS)."""
    if failure.id and any(entry.id == failure.id for entry in task.failures.entries):
        remedy = f"{failure.id} is on record already; leave the id out and the next one is given"
        raise OperationRefused(Refusal.FAILURE_EXISTS, {"failure_id": failure.id}, remedy)


def update_plan(stage: Stage, task: Task, evidence: Evidence) -> Task:
    """Return the task with the steps of the plan of a stage; completed ones whose text is the same stay completed.

    All other steps are replaced by those of the present plan.
    """
    if not stage.work.has_steps or stage.plan is None or stage.plan not in evidence.files:
        return task
    facts = evidence.files[stage.plan]
    unmarked = {
        (step.step_id, step.description): step
        for step in task.steps
        if step.status is StepStatus.COMPLETED and not step.digest
    }
    planned = plan.steps_of(facts.headings, facts.digests, task.steps)
    kept = tuple(unmarked.get((step.step_id, step.description), step) for step in planned)
    return replace(task, steps=kept or task.steps)


def present_artifacts(stage: Stage, evidence: Evidence) -> tuple[str, ...]:
    """Return the names of a stage's artifacts that exist."""
    return tuple(name for name in evidence.files if any(fnmatchcase(name, wanted) for wanted in stage.artifacts))


def record_bypass(task: Task, by: str) -> Task:
    """Return the task with the name of the person who accepted a ticket that was not scanned for secrets."""
    check = task.ticket.sensitive_check
    if check is None or check.result != guards.LOCAL_BYPASS or check.allowed_by is not None:
        return task
    return replace(task, ticket=replace(task.ticket, sensitive_check=replace(check, allowed_by=by)))


def _edge(pipeline: Pipeline, task: Task, move: Transition) -> Move:
    stage, target = pipeline.stage(task.stage), move.to_state
    ways = _ways(stage, task.status)
    alias = pipeline.family.aliases.get(target)
    if alias is not None and alias.stage == stage.name:
        wanted = TransitionKind.BACK if alias.failed else TransitionKind.NEXT
        target = next((name for name, edge in ways.items() if edge.way is wanted), target)
    if target not in ways:
        from_here = f"from {state_of(task)} the task can go to {' or '.join(ways) or 'no other state'}"
        raise blocked(move.from_state, move.to_state, (f"no transition leads there; {from_here}",))
    return ways[target]


def _ways(stage: Stage, status: TaskStatus) -> dict[str, Move]:
    """Return every state that can be reached from here, and how."""
    here = stage.name
    if status is TaskStatus.BLOCKED:
        return {here: Move(way=TransitionKind.AGAIN, stage=here)}
    if status.is_final:
        return {}
    ways = {name: Move(way=TransitionKind.NEXT, stage=name) for name in stage.ways_on}
    if not ways:
        ways[COMPLETED] = Move(way=TransitionKind.END, stage=here)
    if stage.on_fail:
        ways[stage.on_fail] = Move(way=TransitionKind.BACK, stage=stage.on_fail)
    return {**ways, BLOCKED: Move(way=TransitionKind.HALT, stage=here)}


def _lacking(stage: Stage, task: Task, edge: Move, evidence: Evidence) -> tuple[str, ...]:
    match edge.way:
        case TransitionKind.HALT | TransitionKind.AGAIN:
            return ()
        case TransitionKind.NEXT | TransitionKind.END:
            return guards.missing(stage.guards, task, evidence) + stage.work.unfinished(task)
        case TransitionKind.BACK:
            accepted = guards.accepted(stage.guards)
            failed = any(result.verdict not in accepted for result in task.evaluation.results.values())
            return (() if failed else ("no check failed",)) + out_of_cycles(stage, task)
        case _:
            assert_never(edge.way)


def out_of_cycles(stage: Stage, task: Task) -> tuple[str, ...]:
    """Return that no cycle is left. The present failure counts: after the third of three, only BLOCKED is reachable."""
    if stage.budget is None:
        return ()
    tried = use_retry(task, stage.budget)
    if tried is not None and tried.budgets[stage.budget].left:
        return ()
    limit = task.budgets[stage.budget].limit if stage.budget in task.budgets else 0
    return (f"the budget {stage.budget} is used up ({limit} of {limit})",)


def _with_note(step: Step, update: StepUpdate) -> Step:
    checkpoint = None if update.forget_checkpoint else update.checkpoint or step.last_checkpoint
    return replace(step, commits=tuple(dict.fromkeys((*step.commits, *update.commits))), last_checkpoint=checkpoint)
