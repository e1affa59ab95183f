"""Work by a plan: an agent does one step per turn, and each step ends with a commit and a clean worktree."""

from dataclasses import replace
from datetime import datetime
from typing import ClassVar

from orchestrator.core.decide import lifecycle, plan, prompt
from orchestrator.core.decide.outcomes import reset_retries
from orchestrator.core.decide.resume_point import Recommendation, no_step
from orchestrator.core.decide.work.stage_work import StageWork
from orchestrator.core.task import guards
from orchestrator.core.task.guards import Evidence
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.progress import StageFacts, Step, StepCheckpoint, StepStatus
from orchestrator.core.task.task import Task
from orchestrator.formats.codec import JsonObject, to_json


class StepsWork(StageWork):
    """Let one role work through the steps of the plan, a turn for each."""

    name = "steps"
    facts = StageFacts.STEPS
    is_done_by_agent = True
    needs_role = True
    has_steps = True
    commits = True
    wanted_title = "What all steps together have to achieve:"
    shape: ClassVar[tuple[str, str, str]] = ("[[", "]]", "box3d")

    def begin_turn(self, task: Task, at: datetime) -> Task:
        """Return the task with its first open step in progress; with none once every step is done."""
        step = plan.next_step(task.steps)
        if step is None:
            return task
        task = task.with_turn(replace(task.agent.turn, step=step.step_id))
        return replace(task, steps=plan.begin_step(task.steps, step.step_id, at))

    def judge(self, pipeline: Pipeline, task: Task, evidence: Evidence, at: datetime) -> Task:
        """Complete the step by the commits that were seen, or send the agent back.

        The task's head moves only with a completed step. So the look after another try still finds the commits of the
        earlier ones.
        """
        lacking = guards.missing_of_step(evidence)
        if lacking:
            return lifecycle.try_again(pipeline, task, lacking, at)
        source = replace(task.source, head=evidence.head or task.source.head)
        return _complete_step(pipeline, replace(task, source=source), evidence, at)

    def instructions(self, pipeline: Pipeline, task: Task) -> str:
        """Return the plan, with the step that is to be done in this turn."""
        return prompt.present_step(pipeline, task)

    def resume_point(self, pipeline: Pipeline, task: Task, evidence: Evidence, at: datetime) -> JsonObject:
        """Return the first open step, and what was noted when work on it was interrupted."""
        del pipeline
        step = plan.next_step(task.steps)
        if step is None:
            return no_step(Recommendation.CONTINUE if task.steps else Recommendation.START_OVER)
        checkpoint = step.last_checkpoint or _checkpoint_from_files(step, evidence, at)
        begun = step.status is not StepStatus.PENDING or any(one.status is StepStatus.COMPLETED for one in task.steps)
        return {
            "step": {"step_id": step.step_id, "description": step.description, "status": step.status.value},
            "checkpoint": to_json(checkpoint),
            "recommendation": (Recommendation.CONTINUE if begun else Recommendation.START_OVER).value,
        }


def _checkpoint_from_files(step: Step, evidence: Evidence, at: datetime) -> StepCheckpoint | None:
    """Return a checkpoint of an interrupted step without a note, from the files that are not committed."""
    if step.status is not StepStatus.IN_PROGRESS or not evidence.dirty:
        return None
    return StepCheckpoint(
        at=at,
        reason="uncommitted",
        work_in_progress=plan.NOT_NOTED,
        uncommitted_files=evidence.dirty,
    )


def _complete_step(pipeline: Pipeline, task: Task, evidence: Evidence, at: datetime) -> Task:
    """Return the task with its present step completed, and the next step or stage owed.

    Only a completed step is progress. What is still missing when all are done does not reset the retries.
    """
    steps = plan.finish_step(task.steps, task.agent.turn.step or 0, evidence.commits, at)
    task = replace(task, steps=steps, feedback=())
    task = task if task.agent.turn.step is None else reset_retries(task)
    if plan.next_step(steps) is not None:
        return lifecycle.continue_stage(pipeline, task, at)
    lacking = guards.missing(pipeline.stage(task.stage).guards, task, evidence)
    return lifecycle.try_again(pipeline, task, lacking, at) if lacking else lifecycle.advance(pipeline, task, at)
