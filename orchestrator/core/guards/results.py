"""Guards that judge the work itself: steps of the plan, the worktree, the results of checks."""

from dataclasses import dataclass, field
from typing import ClassVar

from orchestrator.core.task.checks import Verdict
from orchestrator.core.task.guards import Evidence, Guard, uncommitted
from orchestrator.core.task.progress import StepStatus
from orchestrator.core.task.task import Task

_NO_STEPS = ("the plan has no steps",)
_ACCEPTABLE = (Verdict.PASS.value, Verdict.WARN.value)
_MAY_ACCEPT = (*_ACCEPTABLE, Verdict.SKIPPED.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepsCompleted(Guard):
    """Every step of the plan is completed."""

    needs_steps: ClassVar[bool] = True

    def missing(self, task: Task, evidence: Evidence) -> tuple[str, ...]:
        """Return the steps that are not completed."""
        del evidence
        still_open = [step.step_id for step in task.steps if step.status is not StepStatus.COMPLETED]
        return tuple(f"step {number} is not completed" for number in still_open) if task.steps else _NO_STEPS

    def describe(self) -> str:
        return "every step is completed"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepsCommitted(Guard):
    """Every step of the plan has a commit, and each of these exists."""

    needs_steps: ClassVar[bool] = True

    def missing(self, task: Task, evidence: Evidence) -> tuple[str, ...]:
        """Return the steps without a commit, and the commits that do not exist."""
        uncredited = tuple(f"step {step.step_id} has no commit" for step in task.steps if not step.commits)
        absent = tuple(
            f"commit {commit:.64} of step {step.step_id} is not in the repository"
            for step in task.steps
            for commit in step.commits
            if commit in evidence.absent
        )
        return uncredited + absent if task.steps else _NO_STEPS

    def describe(self) -> str:
        return "every step has a commit"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitCount(Guard):
    """The stage made so many commits."""

    at_least: int = field(default=0, metadata={"minimum": 0})
    at_most: int = field(default=200, metadata={"minimum": 0})

    def missing(self, task: Task, evidence: Evidence) -> tuple[str, ...]:
        """Return how many commits there are, and how many there must be."""
        count = len(evidence.commits)
        if self.at_least <= count <= self.at_most:
            return ()
        undo = f"; bring them together: git reset --soft {task.source.commit}" if count > self.at_most else ""
        return (f"the stage made {_commits(count)}; {self._wanted()}{undo}",)

    def describe(self) -> str:
        return self._wanted()

    def _wanted(self) -> str:
        if self.at_least == self.at_most:
            return f"exactly {_commits(self.at_least)}"
        return f"at least {_commits(self.at_least)}" if self.at_least else f"at most {_commits(self.at_most)}"


def _commits(count: int) -> str:
    return {0: "no commits", 1: "1 commit"}.get(count, f"{count} commits")


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeClean(Guard):
    """Nothing in the worktree is uncommitted."""

    def missing(self, task: Task, evidence: Evidence) -> tuple[str, ...]:
        """Return the uncommitted files in one line."""
        del task
        return uncommitted(evidence)

    def describe(self) -> str:
        return "nothing is uncommitted"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChecksAcceptable(Guard):
    """Every check ended with one of the accepted verdicts; a skipped one only where the pipeline accepts SKIPPED."""

    accept: tuple[str, ...] = field(default=_ACCEPTABLE, metadata={"choices": _MAY_ACCEPT})

    def missing(self, task: Task, evidence: Evidence) -> tuple[str, ...]:
        """Return the checks with another verdict, or that none was run."""
        del evidence
        if not task.evaluation.results:
            return ("no check was run",)
        return tuple(
            f"{name}: {result.verdict} ({result.reason})"
            for name, result in task.evaluation.results.items()
            if result.verdict not in self.accept
        )

    def describe(self) -> str:
        return f"every check is {' or '.join(self.accept)}"

    def accepted_verdicts(self) -> tuple[str, ...]:
        """Return the accepted verdicts."""
        return self.accept
