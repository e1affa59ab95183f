"""Work by children: each child that the plan names is a task of its own, and its work comes home to this branch."""

from dataclasses import replace
from datetime import datetime
from typing import ClassVar

from orchestrator.core.decide import lifecycle, pausing
from orchestrator.core.decide.work import following
from orchestrator.core.decide.work.stage_work import StageWork
from orchestrator.core.task import guards
from orchestrator.core.task.guards import Evidence
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.task import NextAction, Task


class ChildrenWork(StageWork):
    """Wait until every child has ended."""

    name = "children"
    takes_role = False
    has_children = True
    commits = True
    shape: ClassVar[tuple[str, str, str]] = ("[[", "]]", "folder")

    def enter(self, task: Task) -> Task:
        """Return the task with every child that is not completed to be made again."""
        return replace(task, children=following.made_again(task))

    def begin(self, pipeline: Pipeline, task: Task, at: datetime) -> Task:
        """Return the task waiting for its children, without a slot."""
        del pipeline, at
        task = replace(task, next_action=NextAction.CHILDREN)
        if not any(child.status.is_open for child in task.children):
            return replace(task, next_action=NextAction.GATE)
        return pausing.resume_if_free(task)

    def judge(self, pipeline: Pipeline, task: Task, evidence: Evidence, at: datetime) -> Task:
        """Advance the task with the work of its children, or fail the stage."""
        task = replace(task, source=replace(task.source, head=evidence.head or task.source.head))
        if guards.missing(pipeline.stage(task.stage).guards, task, evidence):
            return lifecycle.fail_stage(pipeline, task, at, None)
        return lifecycle.advance(pipeline, task, at)
