"""Continue a live workspace of the original system as a task: what of its state a new task takes over."""

from collections.abc import Collection
from dataclasses import replace

from orchestrator.core.decide.machine import stage_facts
from orchestrator.core.decide.state_moves import update_plan
from orchestrator.core.task.guards import Evidence
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.progress import StageRecord, StageStatus, Step, StepStatus
from orchestrator.core.task.task import Task, TaskStatus
from orchestrator.pipelines.families.tickets.standalone_state import LIMITS


def continued(new: Task, old: Task, pipeline: Pipeline, evidence: Evidence, commits: Collection[str]) -> Task:
    """Return the new task at the beginning of the stage that the workspace `old` is in.

    `evidence` are the files of the workspace, `commits` those that its branch has. A step is completed only by such a
    commit. A workspace that was blocked gets its tries back, as by a retry.
    """
    stages = {
        name: replace(old.stages.get(name, StageRecord()), facts=stage_facts(pipeline, stage))
        for name, stage in pipeline.stages.items()
    }
    here = replace(stages[old.stage], status=StageStatus.PENDING, started_at=None, completed_at=None, visits=0)
    is_blocked = old.status is TaskStatus.BLOCKED
    budgets = {
        name: replace(budget, used=0 if is_blocked else budget.used)
        for name, budget in old.budgets.items()
        if name in LIMITS and name in pipeline.budgets
    }
    return replace(
        new,
        stage=old.stage,
        stages={**stages, old.stage: here},
        steps=tuple(_seen(step, commits) for step in _planned(old, pipeline, evidence)),
        failures=old.failures,
        budgets=budgets,
    )


def _planned(old: Task, pipeline: Pipeline, evidence: Evidence) -> tuple[Step, ...]:
    """Return the steps of the plan in the workspace, with what is recorded about those whose text is the same."""
    recorded = {(step.step_id, step.description): step for step in old.steps}
    for stage in pipeline.stages.values():
        planned = update_plan(stage, replace(old, steps=()), evidence).steps
        if planned:
            return tuple(
                replace(recorded.get((step.step_id, step.description), step), digest=step.digest) for step in planned
            )
    return old.steps


def _seen(step: Step, commits: Collection[str]) -> Step:
    """Return the step with those of its commits that exist; without one it is still to be done."""
    known = tuple(full for commit in step.commits for full in commits if commit and full.startswith(commit))
    if step.status is StepStatus.COMPLETED and known:
        return replace(step, commits=known)
    return replace(step, status=StepStatus.PENDING, commits=known, completed_at=None)
