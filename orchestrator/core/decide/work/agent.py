"""An agent's work: one role leaves files, and the guards judge them."""

from datetime import datetime
from fnmatch import fnmatchcase

from orchestrator.core.decide.resume_point import Recommendation, SubStatus
from orchestrator.core.decide.state_moves import present_artifacts
from orchestrator.core.decide.work.stage_work import StageWork
from orchestrator.core.family.family import Family
from orchestrator.core.task.guards import Evidence
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.task import Task, TaskStatus
from orchestrator.formats.codec import Json, JsonObject

_ADVICE = {
    SubStatus.FRESH: Recommendation.START_OVER,
    SubStatus.PARTIAL: Recommendation.CONTINUE,
    SubStatus.REVIEW_PENDING: Recommendation.REVIEW,
}


class AgentWork(StageWork):
    """Let one role leave files."""

    name = "agent"
    is_done_by_agent = True
    needs_role = True
    judges_new_files_only = True
    wanted_title = "What you have to change now:"

    def resume_point(self, pipeline: Pipeline, task: Task, evidence: Evidence, at: datetime) -> JsonObject:
        """Return which of the stage's files exist, and whether they are still to be reviewed."""
        del at
        existing: list[Json] = [*sorted(present_artifacts(pipeline.stage(task.stage), evidence))]
        sub_status = _sub_status(pipeline.family, task, present_artifacts(pipeline.stage(task.stage), evidence))
        advice = _ADVICE[sub_status].value
        return {"sub_status": sub_status.value, "existing_artifacts": existing, "recommendation": advice}


def _sub_status(family: Family, task: Task, present: tuple[str, ...]) -> SubStatus:
    """Return how complete the files are. A draft that the stage has on record was reviewed; any other was not."""
    if task.status is TaskStatus.REVIEW:
        return SubStatus.REVIEW_PENDING
    known = task.stages[task.stage].artifacts
    unseen = [name for name in present if fnmatchcase(name, family.draft) and name not in known]
    if unseen and family.draft_review not in present:
        return SubStatus.REVIEW_PENDING
    return SubStatus.PARTIAL if present else SubStatus.FRESH
