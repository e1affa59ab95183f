"""Where to continue a task: its stage, how much of the stage's work exists, and the open step.

The answer is derived from the recorded events, not from file names alone. For example, a design whose review asked for
no change is not sent to review again.
"""

from datetime import datetime
from enum import StrEnum

from orchestrator.core.decide.state_moves import state_of
from orchestrator.core.task.guards import Evidence
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.task import Task, TaskStatus
from orchestrator.formats.codec import JsonObject


class SubStatus(StrEnum):
    """How much of an agent's files exists."""

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
    """Return where to go on; a checkpoint that is made up from uncommitted files carries the time `at`."""
    state = state_of(task)
    if task.status is TaskStatus.BLOCKED:
        return {
            "state": state,
            "block_reason": task.block_reason,
            "failure_summary": task.failures.summary,
            "recommendation": Recommendation.PERSON.value,
        }
    if state != task.stage:
        return {"state": state, **no_step(Recommendation.NOTHING)}
    return {"state": state, **pipeline.stage(task.stage).work.resume_point(pipeline, task, evidence, at)}


def no_step(advice: Recommendation) -> JsonObject:
    """Return an answer without a step of a plan."""
    return {"step": None, "checkpoint": None, "recommendation": advice.value}
