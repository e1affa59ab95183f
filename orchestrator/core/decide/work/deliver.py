"""Delivery: publish the finished work as the stage's `publish` says."""

from dataclasses import replace
from datetime import datetime
from typing import ClassVar

from orchestrator.core.decide.work.stage_work import StageWork
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.progress import StageFacts
from orchestrator.core.task.publication import Publish
from orchestrator.core.task.task import NextAction, Task


class DeliverWork(StageWork):
    """Deliver the finished branch, report or release; publishing.py handles what follows."""

    name = "deliver"
    facts = StageFacts.PUBLICATION
    takes_role = False
    publishes = True
    shape: ClassVar[tuple[str, str, str]] = ("([", "])", "oval")

    def begin(self, pipeline: Pipeline, task: Task, at: datetime) -> Task:
        """Return the task with the branch to be delivered, or with the rest to be published at once."""
        del at
        is_branch = pipeline.stage(task.stage).publish in (Publish.BRANCH, Publish.PULL_REQUEST, Publish.PARENT)
        return replace(task, next_action=NextAction.DELIVERY if is_branch else NextAction.PUBLISH)
