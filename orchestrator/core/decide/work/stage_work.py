"""What most kinds of work have in common: a gate judges files, and an agent that fails too often blocks the task."""

from dataclasses import replace
from datetime import datetime

from orchestrator.core.decide import lifecycle, outcomes, prompt
from orchestrator.core.decide.resume_point import Recommendation, no_step
from orchestrator.core.task import guards
from orchestrator.core.task.guards import Evidence
from orchestrator.core.task.pipeline import Pipeline, Work
from orchestrator.core.task.task import NextAction, Task
from orchestrator.formats.codec import JsonObject


class StageWork(Work):
    """Work whose result is files. Without an agent the gate looks at once."""

    def begin(self, pipeline: Pipeline, task: Task, at: datetime) -> Task:
        """Return the task with its agent owed, or the gate where no agent does the work."""
        del at
        if self.is_done_by_agent and pipeline.stage(task.stage).role is not None:
            return lifecycle.begin_agent(pipeline, task)
        return replace(task, next_action=NextAction.GATE)

    def judge(self, pipeline: Pipeline, task: Task, evidence: Evidence, at: datetime) -> Task:
        """Advance the task if its guards hold, else send its agent back with what is missing."""
        stage = pipeline.stage(task.stage)
        accepted = guards.overspent(stage.guards, task)
        lacking = tuple(one for one in guards.missing(stage.guards, task, evidence) if one not in accepted)
        if not lacking:
            source = replace(task.source, head=evidence.head or task.source.head)
            return lifecycle.advance(pipeline, replace(task, source=source), at)
        if stage.role and not task.agent.turn.tool_uses and not evidence.fresh:
            lacking = ("the turn ended without any work: no tool was used and no file was left", *lacking)
        refused = tuple(f"refused: {reason}" for reason in evidence.refused[:10])
        return lifecycle.try_again(pipeline, task, lacking + refused, at)

    def give_up(self, pipeline: Pipeline, task: Task, reason: str, at: datetime) -> Task:
        """Block the task, or fail it if its policy says so."""
        del pipeline
        return outcomes.give_up(task, f"{task.stage}: {reason}", at)

    def resume_point(self, pipeline: Pipeline, task: Task, evidence: Evidence, at: datetime) -> JsonObject:
        """Advise to start the stage over, because nothing half done is kept; in the last stage, to deliver."""
        del evidence, at
        is_last = pipeline.stage(task.stage).next is None
        return no_step(Recommendation.MERGE if is_last else Recommendation.START_OVER)

    def instructions(self, pipeline: Pipeline, task: Task) -> str:
        """Return the newest failures of the task."""
        del pipeline
        return prompt.recent_failures(task)
