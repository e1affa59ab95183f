"""Where a task goes on (seed 000, resume-point): the stage, how much of its work is there, the step that is open.

What is there is judged by what really happened, not by what the original system guessed from file names: a design that
was reviewed is not up for review for ever because no change of it was noted (sources.md §5.2 row 61).
"""

from datetime import datetime
from enum import StrEnum

from orchestrator.core.decide import plan
from orchestrator.core.decide.state_moves import present_artifacts, state_of
from orchestrator.core.task.guards import Evidence
from orchestrator.core.task.pipeline import Pipeline, Stage, Work
from orchestrator.core.task.progress import Step, StepCheckpoint, StepStatus
from orchestrator.core.task.task import Task, TaskStatus
from orchestrator.formats.codec import Json, JsonObject, to_json
from orchestrator.storage.state_document import to_document

DRAFT = "design-v"
REVIEWED = "design-changelog.md"
"""What a review leaves behind that had something to say of the draft."""


class SubStatus(StrEnum):
    """How much of a stage's work is there (seed 000)."""

    FRESH = "fresh"
    PARTIAL = "partial"
    REVIEW_PENDING = "review_pending"


class Recommendation(StrEnum):
    """What to do."""

    START_OVER = "start the stage over"
    CONTINUE = "go on with what is there"
    REVIEW = "let somebody review what is there"
    PERSON = "a person has to look at it"
    MERGE = "deliver the branch, or merge it"
    NOTHING = "nothing is left to do"


def resume_point(pipeline: Pipeline, task: Task, evidence: Evidence, at: datetime) -> JsonObject:
    """Where to go on, in the seed's forms; `at` stands on a checkpoint that is made up from what lies uncommitted."""
    state = state_of(task)
    if task.status is TaskStatus.BLOCKED:
        return {
            "state": state,
            "block_reason": task.block_reason,
            "failure_summary": to_document(task)["failure_summary"],
            "recommendation": Recommendation.PERSON.value,
        }
    stage = pipeline.stage(task.stage)
    if state != stage.name:
        return {"state": state, "step": None, "checkpoint": None, "recommendation": Recommendation.NOTHING.value}
    match stage.work:
        case Work.AGENT:
            return {"state": state, **_of_artifacts(stage, task, evidence)}
        case Work.STEPS:
            return {"state": state, **_of_steps(task, evidence, at)}
        case Work.CHECKS:
            return {"state": state, **_of_checks(task)}
        case _:
            last = stage.next is None
            advice = Recommendation.MERGE if last else Recommendation.START_OVER
            return {"state": state, "step": None, "checkpoint": None, "recommendation": advice.value}


def _of_artifacts(stage: Stage, task: Task, evidence: Evidence) -> JsonObject:
    there = sorted(present_artifacts(stage, evidence))
    sub_status = _sub_status(task, there)
    advice = {
        SubStatus.FRESH: Recommendation.START_OVER,
        SubStatus.PARTIAL: Recommendation.CONTINUE,
        SubStatus.REVIEW_PENDING: Recommendation.REVIEW,
    }
    existing: list[Json] = [*there]
    return {
        "sub_status": sub_status.value,
        "existing_artifacts": existing,
        "recommendation": advice[sub_status].value,
    }


def _sub_status(task: Task, there: list[str]) -> SubStatus:
    """A draft that the stage has on record was looked at before; any other is still to be looked at."""
    if task.status is TaskStatus.REVIEW:
        return SubStatus.REVIEW_PENDING
    known = task.stages[task.stage].artifacts
    unseen = [name for name in there if name.startswith(DRAFT) and name not in known]
    if unseen and REVIEWED not in there:
        return SubStatus.REVIEW_PENDING
    return SubStatus.PARTIAL if there else SubStatus.FRESH


def _of_steps(task: Task, evidence: Evidence, at: datetime) -> JsonObject:
    step = plan.next_step(task.steps)
    if step is None:
        advice = Recommendation.CONTINUE if task.steps else Recommendation.START_OVER
        return {"step": None, "checkpoint": None, "recommendation": advice.value}
    checkpoint = step.last_checkpoint or _made_up(step, evidence, at)
    begun = step.status is not StepStatus.PENDING or any(one.status is StepStatus.COMPLETED for one in task.steps)
    return {
        "step": {"step_id": step.step_id, "description": step.description, "status": step.status.value},
        "checkpoint": to_json(checkpoint),
        "recommendation": (Recommendation.CONTINUE if begun else Recommendation.START_OVER).value,
    }


def _made_up(step: Step, evidence: Evidence, at: datetime) -> StepCheckpoint | None:
    """What lies uncommitted tells of a step that was broken off without a word."""
    if step.status is not StepStatus.IN_PROGRESS or not evidence.dirty:
        return None
    return StepCheckpoint(
        at=at,
        reason="uncommitted",
        work_in_progress="nothing was noted; see what lies uncommitted",
        uncommitted_files=evidence.dirty,
    )


def _of_checks(task: Task) -> JsonObject:
    """The checks in their order: the last that has a result, and the first that has none."""
    names = [check.name for check in task.evaluation.checks]
    done = [name for name in names if name in task.evaluation.results]
    following = next((name for name in names if name not in task.evaluation.results), None)
    advice = Recommendation.CONTINUE if done else Recommendation.START_OVER
    return {
        "last_stage_completed": done[-1] if done else None,
        "next_stage": following,
        "recommendation": advice.value,
    }
