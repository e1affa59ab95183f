"""Verification: another role than the author's judges what earlier stages left, beside what the daemon checks."""

from datetime import datetime

from orchestrator.core.decide import lifecycle
from orchestrator.core.decide.outcomes import record_failure
from orchestrator.core.decide.work.agent import AgentWork
from orchestrator.core.task import guards
from orchestrator.core.task.failures import Analysis, Failure
from orchestrator.core.task.guards import Evidence
from orchestrator.core.task.pipeline import Pipeline, Stage
from orchestrator.core.task.task import Task


class VerifyWork(AgentWork):
    """Let one role judge the work; what it finds goes back to the stage `on_fail` as requested changes."""

    name = "verify"
    verifies = True
    wanted_title = "What an earlier verification or a person asked to be changed:"
    shape = ("{{", "}}", "hexagon")

    def judge(self, pipeline: Pipeline, task: Task, evidence: Evidence, at: datetime) -> Task:
        """Advance the task if the verifier passed it, send it back if not, and ask again for a verdict nobody can read.

        The guards of the stage must hold too: a verdict never stands in for them.
        """
        stage = pipeline.stage(task.stage)
        facts = evidence.files.get(stage.artifacts[0])
        if facts is None or facts.verdict is None:
            problems = facts.problems if facts else ("it was not found",)
            lacking = tuple(f"{stage.artifacts[0]}: {problem}" for problem in problems)
            return lifecycle.try_again(pipeline, task, lacking, at)
        failures = facts.verdict.failures if not facts.verdict.passed else ()
        failures += guards.missing(stage.guards, task, evidence)
        if failures or not facts.verdict.passed:
            return lifecycle.fail_stage(pipeline, task, at, None, failures or ("the verifier gave no reason",))
        return lifecycle.advance(pipeline, task, at)

    def record_failures(self, stage: Stage, task: Task, cause: Analysis | None, back: str | None, at: datetime) -> Task:
        """Return the task with an entry in its failure log for the verification that did not pass."""
        visits, found = task.stages[task.stage].visits, task.requested_changes
        return record_failure(task, at, Failure(
            id="", occurred_at=at, state=task.stage, agent=stage.role, step=None,
            attempted=f"verification {visits} of {task.source.commit[:12]}", command=None,
            expected="a verification that passes", type="verification_failed", summary=found[0][:500],
            details="\n".join(found)[:2000], analysis=cause, transitioned_to=back, retry_count=visits,
            action="retry_cycle" if back else "user_intervention",
        ))  # fmt: skip
