"""Guards of works: what only this family asks of its files and commits."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from orchestrator.core.task.guards import Evidence, FileFacts, Guard
from orchestrator.core.task.task import Task
from orchestrator.pipelines.families.works.documents.names import PLAN, task_id
from orchestrator.pipelines.families.works.documents.progress import NOT_FOUND

SMALL = "small"
"""The mark of a requirement that is small enough to be planned by its specifier."""
FIRST_TASK = f"{task_id(0)}.md"
_SUBJECT = re.compile(r"(?:feat|fix|refactor|test|docs|chore)\((?P<task>TASK-\d{2,9})\): \S.*")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkIsSmall(Guard):
    """The requirement is so small that its specifier plans the work."""

    file_keys: ClassVar[tuple[str, ...]] = ("file",)
    file: str

    def missing(self, task: Task, evidence: Evidence) -> tuple[str, ...]:
        """Return that the work is not small."""
        del task
        facts = evidence.files.get(self.file)
        return () if facts and SMALL in facts.marks else (f"{self.file} describes no small work",)

    def describe(self) -> str:
        return "the work is small"

    def sample_files(self) -> Mapping[str, FileFacts]:
        """Return a small requirement."""
        return {self.file: FileFacts(chars=300, marks=(SMALL,))}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedIfSmall(Guard):
    """If the requirement is small, its specifier has planned the work as one task."""

    file_keys: ClassVar[tuple[str, ...]] = ("file",)
    file: str

    def missing(self, task: Task, evidence: Evidence) -> tuple[str, ...]:
        """Return what the plan of a small work lacks."""
        del task
        facts = evidence.files.get(self.file)
        return planned_directly(evidence) if facts and SMALL in facts.marks else ()

    def describe(self) -> str:
        return "a small work is planned as one task"

    def sample_files(self) -> Mapping[str, FileFacts]:
        """Return a requirement that is not small."""
        return {self.file: FileFacts(chars=300)}


def planned_directly(evidence: Evidence) -> tuple[str, ...]:
    """Return what the specifier's own plan lacks: PLAN.md and the file of its only task."""
    lacking: list[str] = []
    for name in (PLAN, FIRST_TASK):
        facts = evidence.files.get(name)
        if facts is None:
            lacking.append(f"the work is small, so you plan it: {name} not found")
        else:
            lacking += [f"{name}: {problem}" for problem in facts.problems[:10]]
    plan = evidence.files.get(PLAN)
    if plan and not plan.problems and len(plan.children) != 1:
        lacking.append(f"{PLAN} names {len(plan.children)} tasks; a small work has one, TASK-00")
    return tuple(lacking)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressCompleted(Guard):
    """The progress file of a task says that it is completed, and which files it changed."""

    file_keys: ClassVar[tuple[str, ...]] = ("file",)
    file: str

    def missing(self, task: Task, evidence: Evidence) -> tuple[str, ...]:
        """Return why the progress file does not pass."""
        name = task.fill(self.file)
        facts = evidence.files.get(name)
        return (f"{name}: {NOT_FOUND}",) if facts is None else tuple(f"{name}: {one}" for one in facts.problems)

    def describe(self) -> str:
        return "the progress file says COMPLETED and names changed files"

    def sample_files(self) -> Mapping[str, FileFacts]:
        """Return a completed progress file."""
        return {self.file: FileFacts(chars=100)}


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitSubject(Guard):
    """Every commit of the stage is named `type(TASK-NN): title`, after the task."""

    def missing(self, task: Task, evidence: Evidence) -> tuple[str, ...]:
        """Return the subjects of another form."""
        key = task.fill("{key}")
        odd = [one for one in evidence.subjects if not (found := _SUBJECT.fullmatch(one)) or found["task"] != key]
        return tuple(
            f"the subject {one[:80]!r} must have the form 'feat({key}): title', or fix, refactor, test, docs or chore"
            for one in odd[:5]
        )

    def describe(self) -> str:
        return "commits are named type(TASK-NN): title"
