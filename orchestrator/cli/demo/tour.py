"""`orchestrator demo --pipeline NAME`: any pipeline from its submission to its end, with the scripted agent.

Its agent leaves what the stages ask for, a person approves what has to be approved, and everything that happens to the
task and to its children is told.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from orchestrator.cli.demo.environment import LOOK_EVERY, DemoEnvironment, DemoFailed
from orchestrator.cli.demo.printer import Printer
from orchestrator.cli.demo.progress import StoryPart, news
from orchestrator.cli.demo.scripts.job import TICKET
from orchestrator.cli.demo.scripts.script import script_of
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.publication import Publish
from orchestrator.core.task.task import TaskStatus
from orchestrator.core.task.task_policy import Autonomy
from orchestrator.core.task.user_requests import RequestKind
from orchestrator.pipelines.definitions import Definitions
from orchestrator.server.schemas.task_input import SubmissionBody, TaskFilter
from orchestrator.server.schemas.tasks import TaskView
from orchestrator.server.schemas.user_requests import RequestView

LONGEST = 120.0
"""Seconds."""
TEXTS: Mapping[str, str] = {
    "issue-plan-execute": "- Titles cannot be turned into addresses\n- README.md does not say how\n",
    "release": "Release 1.4.0\n\n## Version\n\n1.4.0\n\n## Included Changes\n\n- slugify\n",
    "review_only": "Review textkit\n\nIs it right, and can people use it without reading its code?\n",
}
"""What is submitted to pipelines that do another job than the demo's ticket."""


def parts_of_others(declared: Mapping[str, Pipeline]) -> frozenset[str]:
    """Return the pipelines that only children of others go through: their results come home to a parent."""
    return frozenset(
        name
        for name, pipeline in declared.items()
        if any(stage.work.publishes and stage.publish is Publish.PARENT for stage in pipeline.stages.values())
    )


class Tour:
    """Follows one task of a pipeline; `moments` is what happened on the way."""

    def __init__(self, root: Path, printer: Printer, pipeline: Pipeline, definitions: Definitions) -> None:
        scenario = script_of(pipeline, definitions)
        self.environment = DemoEnvironment(root, claude=False, scenario=scenario)
        self._client, self._printer, self._pipeline = self.environment.client, printer, pipeline
        self.moments: list[StoryPart] = []

    def run(self) -> TaskView:
        """Run the demo from an empty folder to the end of the task, and return that. Raises DemoFailed."""
        environment, printer = self.environment, self._printer
        environment.make()
        printer.tell(f"created a git repository with a small Python package: {environment.repository}")
        environment.start()
        printer.tell(f"the daemon runs (pid {environment.pid})")
        task = self._submit()
        known: dict[str, TaskView] = {task.id: task}
        while not (task.status.is_final and task.run is None):
            for now in self._live(task):
                self._tell(known.get(now.id), now, task.id)
                known[now.id] = now
                for request in now.waiting:
                    self._approve(request)
            task = known[task.id]
            self._refuse_to_wait(known.values())
            time.sleep(LOOK_EVERY)
        if task.status is not TaskStatus.COMPLETED:
            raise DemoFailed(f"the task ended as {task.status}: {task.block_reason}; the log is {environment.log}")
        return task

    def _submit(self) -> TaskView:
        name = self._pipeline.name
        text = TEXTS.get(name, TICKET)
        self.environment.ticket.write_text(text, encoding="utf-8")
        body = SubmissionBody(text=text, repo=self.environment.repository, pipeline=name, autonomy=Autonomy.INTERACTIVE)
        task = self._client.submit(body, key=str(self.environment.root))
        self._printer.tell(f"submitted the ticket as task {task.id}: {task.title}", self._pipeline.description)
        where = f"--file {self.environment.ticket} --repo {self.environment.repository}"
        self._printer.command(f"orchestrator submit {where} --pipeline {name} --interactive")
        return task

    def _live(self, task: TaskView) -> Iterator[TaskView]:
        """Yield the task and its children as they are, the oldest first."""
        listed = sorted(line.id for line in self._client.tasks(TaskFilter(limit=1000)).tasks)
        yield from (self._client.task(name) for name in listed if name.startswith(task.id))

    def _tell(self, before: TaskView | None, now: TaskView, parent: str) -> None:
        name = "" if now.id == parent else f"{now.id.removeprefix(parent).removeprefix('.')}: "
        if before is None:
            self._printer.tell(f"{name}{now.title}")
            return
        for line in news(before, now):
            self._printer.tell(f"{name}{line}")

    def _approve(self, request: RequestView) -> None:
        """Do a person's part: approve what is under review."""
        if request.kind is not RequestKind.REVIEW:
            raise DemoFailed(f"{request.task} asks for something: {request.text}")
        self._printer.tell(f"a person has to review it: {request.text}")
        self._client.approve(request)
        self._printer.command(f"orchestrator approve {request.task}")
        if StoryPart.REVIEW not in self.moments:
            self.moments.append(StoryPart.REVIEW)

    def _refuse_to_wait(self, tasks: Iterable[TaskView]) -> None:
        """Raise DemoFailed if a task is blocked, or if this takes too long."""
        blocked = [one for one in tasks if one.status is TaskStatus.BLOCKED]
        if blocked:
            raise DemoFailed(f"{blocked[0].id} is blocked: {blocked[0].block_reason}")
        if self._printer.elapsed() > LONGEST:
            raise DemoFailed(f"it took too long; the daemon's log is {self.environment.log}")
