"""The guards of issues: a result that says what came of an execution, and a batch that only plans."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from orchestrator.core.task.guards import Evidence, FileFacts, Guard, uncommitted
from orchestrator.core.task.task import Task
from orchestrator.pipelines.families.issues.batch import PLAN_ONLY

COMPLETED, FAILED = "completed", "failed: "
"""Marks of a result: that the work is completed, and that it failed, followed by the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _ResultGuard(Guard):
    """A guard of what a result says."""

    file_keys: ClassVar[tuple[str, ...]] = ("file",)
    file: str

    def missing(self, task: Task, evidence: Evidence) -> tuple[str, ...]:
        """Return why the result cannot be read, or what it lacks."""
        facts = evidence.files.get(self.file)
        if facts is None:
            return (f"{self.file} not found",)
        if not facts.marks:
            return tuple(f"{self.file}: {problem}" for problem in facts.problems or ("it is no result",))
        failure = facts.marks[0].removeprefix(FAILED) if facts.marks[0].startswith(FAILED) else ""
        return self._lacking(failure, task, evidence)

    @abstractmethod
    def _lacking(self, failure: str, task: Task, evidence: Evidence) -> tuple[str, ...]:
        """Return what a result lacks that can be read; `failure` is the reason it gives, if it reports one."""

    def sample_files(self) -> Mapping[str, FileFacts]:
        """Return a result that says completed."""
        return {self.file: FileFacts(chars=1000, marks=(COMPLETED,))}


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultReported(_ResultGuard):
    """A result can be read; what it says is completed is committed."""

    def _lacking(self, failure: str, task: Task, evidence: Evidence) -> tuple[str, ...]:
        if failure:
            return ()
        is_made = bool(evidence.commits) or task.source.commit != task.source.base_commit
        nothing = f"{self.file} says completed, but nothing is committed"
        return (*(() if is_made else (nothing,)), *uncommitted(evidence))

    def describe(self) -> str:
        return f"{self.file} says what came of it, and that is committed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultCompleted(_ResultGuard):
    """A result says that the solution was carried out."""

    def _lacking(self, failure: str, task: Task, evidence: Evidence) -> tuple[str, ...]:
        del task, evidence
        return (f"the executor reports: {failure}",) if failure else ()

    def describe(self) -> str:
        return f"{self.file} says completed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultFailed(_ResultGuard):
    """A result says that the solution was not carried out."""

    def _lacking(self, failure: str, task: Task, evidence: Evidence) -> tuple[str, ...]:
        del task, evidence
        return () if failure else (f"{self.file} says completed",)

    def describe(self) -> str:
        return f"{self.file} says failed"

    def sample_files(self) -> Mapping[str, FileFacts]:
        """Return a result that says failed."""
        return {self.file: FileFacts(chars=1000, marks=(f"{FAILED}it cannot be done",))}


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingExecuted(Guard):
    """The batch only plans: none of its issues is carried out."""

    def missing(self, task: Task, evidence: Evidence) -> tuple[str, ...]:
        """Return the issues that are carried out."""
        del evidence
        executed = [child.plan.key for child in task.children if child.plan.pipeline != PLAN_ONLY]
        return (f"carried out are {', '.join(executed[:20])}",) if executed or not task.children else ()

    def describe(self) -> str:
        return "nothing is carried out"
