"""An evaluation: the daemon runs every check on the finished commit; the stage's role, if any, explains what failed."""

from dataclasses import replace
from datetime import datetime
from typing import ClassVar

from orchestrator.core.decide import lifecycle, prompt
from orchestrator.core.decide.obligations import check_run_folder
from orchestrator.core.decide.outcomes import record_failure, use_retry
from orchestrator.core.decide.resume_point import Recommendation
from orchestrator.core.decide.work.stage_work import StageWork
from orchestrator.core.task import guards
from orchestrator.core.task.agent import AgentStatus, Run
from orchestrator.core.task.checks import REPORT_FILE, CheckResult, Verdict, first_try
from orchestrator.core.task.failures import Analysis, Failure
from orchestrator.core.task.guards import Evidence
from orchestrator.core.task.pipeline import Pipeline, Stage
from orchestrator.core.task.progress import StageFacts
from orchestrator.core.task.task import NextAction, Task
from orchestrator.formats.codec import JsonObject


class ChecksWork(StageWork):
    """Run the checks and, if some failed, have a role explain why before the task goes back."""

    name = "checks"
    facts = StageFacts.CHECKS
    shape: ClassVar[tuple[str, str, str]] = ("{{", "}}", "hexagon")

    def enter(self, task: Task) -> Task:
        """Drop the results of an earlier evaluation, because they are about another commit."""
        return replace(task, evaluation=replace(task.evaluation, results={}))

    def begin(self, pipeline: Pipeline, task: Task, at: datetime) -> Task:
        """Return the task with the next check owed; when all have run, conclude the evaluation."""
        check = task.evaluation.next_check
        if check is None:
            return _conclude(pipeline, task, at)
        again = task.seq if task.retry_at or first_try(check.name) in task.evaluation.results else None
        run = Run(folder=check_run_folder(evaluations(pipeline, task), check.name, again))
        agent = replace(task.agent, status=task.agent.status if task.is_paused else AgentStatus.IDLE)
        retry_at = lifecycle.service_retry_at(task)
        return replace(task, next_action=NextAction.CHECKS, run=run, agent=agent, retry_at=retry_at)

    def judge(self, pipeline: Pipeline, task: Task, evidence: Evidence, at: datetime) -> Task:
        """Send the task back with the explanation of its failed checks, or without one after the last retry."""
        analysis = evidence.analysis
        retried = None if analysis else use_retry(task, "gate_retries")
        if retried is None:
            return lifecycle.fail_stage(pipeline, task, at, analysis)
        lacking = (
            f"{pipeline.family.failure_analysis} with root_cause_hypothesis, confidence and suggested_fix not found"
        )
        return lifecycle.continue_stage(pipeline, replace(retried, feedback=(lacking,)), at)

    def give_up(self, pipeline: Pipeline, task: Task, reason: str, at: datetime) -> Task:
        """Do without an explanation if all checks have run; else block the task."""
        if task.evaluation.next_check is None:
            return lifecycle.fail_stage(pipeline, task, at, None)
        return super().give_up(pipeline, task, reason, at)

    def instructions(self, pipeline: Pipeline, task: Task) -> str:
        """Return the checks that failed, with the paths of their output."""
        return prompt.failed_checks(task.evaluation.results, guards.accepted(pipeline.stage(task.stage).guards))

    def resume_point(self, pipeline: Pipeline, task: Task, evidence: Evidence, at: datetime) -> JsonObject:
        """Return the last check with a result, and the first without."""
        del pipeline, evidence, at
        done = [check.name for check in task.evaluation.checks if check.name in task.evaluation.results]
        return {
            "last_stage_completed": done[-1] if done else None,
            "next_stage": task.evaluation.next_check.name if task.evaluation.next_check else None,
            "recommendation": (Recommendation.CONTINUE if done else Recommendation.START_OVER).value,
        }

    def reason(self) -> str:
        """Return why failed checks need an agent."""
        return "Checks failed on the finished commit, and the next planner needs to know why."

    def unfinished(self, task: Task) -> tuple[str, ...]:
        """Return the checks that have not run."""
        return tuple(
            f"{check.name} has no result"
            for check in task.evaluation.checks
            if check.name not in task.evaluation.results
        )

    def under_review(self, task: Task) -> str:
        """Return the report of the evaluation."""
        del task
        return REPORT_FILE

    def record_failures(self, stage: Stage, task: Task, cause: Analysis | None, back: str | None, at: datetime) -> Task:
        """Return the task with an entry in its failure log for each check that failed."""
        cycle = task.stages[task.stage].visits
        accepted = guards.accepted(stage.guards)
        for check in task.evaluation.checks:
            result = task.evaluation.results.get(check.name)
            if result is None or result.verdict in accepted:
                continue
            task = record_failure(task, at, Failure(
                id="", occurred_at=at, state=task.stage, agent=stage.role, step=check.name,
                attempted=f"evaluation {cycle} of {(task.source.head or '')[:12]}", command=check.command,
                expected=f"{check.name} passes", type=check.kind.failure, summary=result.reason,
                exit_code=result.exit_code, log_file=result.log, analysis=cause,
                action="retry_cycle" if back else "user_intervention",
                transitioned_to=back, retry_count=cycle, details=result.details, modified_files=result.modified_files,
            ))  # fmt: skip
        return task


def evaluations(pipeline: Pipeline, task: Task) -> int:
    """Return how many evaluations were begun, over all stages that evaluate."""
    return sum(
        task.stages[name].visits for name, stage in pipeline.stages.items() if isinstance(stage.work, ChecksWork)
    )


def _conclude(pipeline: Pipeline, task: Task, at: datetime) -> Task:
    """Return the task after its last check: advanced, or with an agent owed that explains what failed."""
    stage = pipeline.stage(task.stage)
    results = task.evaluation.results
    if not any(check.command for check in task.evaluation.checks):
        none = CheckResult(verdict=Verdict.SKIPPED, reason="no check is configured or was found in the repository")
        results = {"unit_test": none, **results}
    task = replace(task, evaluation=replace(task.evaluation, results=results, report_path=REPORT_FILE))
    if not guards.missing(stage.guards, task, guards.NOTHING_SEEN):
        return lifecycle.advance(pipeline, task, at)
    if stage.role is not None:
        return lifecycle.begin_agent(pipeline, task)
    return lifecycle.fail_stage(pipeline, task, at, None)
