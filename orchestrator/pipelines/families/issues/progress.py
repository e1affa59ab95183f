"""How far the issues of a batch are, derived from the tasks that work on them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from orchestrator.core.task.children import Child, ChildStatus
from orchestrator.core.task.progress import StageRecord, StageStatus
from orchestrator.core.task.task import Task, TaskStatus
from orchestrator.formats.codec import JsonObject
from orchestrator.pipelines.families.issues.document import InvalidField
from orchestrator.pipelines.families.issues.issue import IssueStatus
from orchestrator.pipelines.families.issues.result import ExecutionResult, read_result
from orchestrator.pipelines.families.issues.solution import read_solution

PLAN, EXECUTE = "PLAN", "EXECUTE"
"""The stages in which an issue is planned and its solution carried out."""
SOLUTION_FILE, RESULT_FILE = "solution.json", "result.json"
_NEVER = StageRecord()


@dataclass(frozen=True, slots=True, kw_only=True)
class IssueWork:
    """What the task of an issue has come to. `executions` counts the starts of its execution, `started_at` is the
    newest of them; `action` is the one that `error` is about. `is_done` says whether all that was asked for is done.
    """

    status: IssueStatus
    action: str
    is_done: bool = False
    error: str | None = None
    solution_id: str | None = None
    solution: JsonObject | None = None
    result: ExecutionResult | None = None
    commit: str | None = None
    planned_at: datetime | None = None
    executed_at: datetime | None = None
    ended_at: datetime | None = None
    executions: int = 0
    started_at: datetime | None = None
    updated_at: datetime | None = None


NOT_BEGUN = IssueWork(status=IssueStatus.REGISTERED, action="plan")


def work_of(task: Task, artifact: Callable[[str], str]) -> IssueWork:
    """Return what the task of an issue has come to, with what its agents left."""
    planning, executing = task.stages.get(PLAN, _NEVER), task.stages.get(EXECUTE, _NEVER)
    document, named = _solution(artifact(SOLUTION_FILE))
    is_planned = planning.status is StageStatus.COMPLETED or (PLAN not in task.stages and document is not None)
    return IssueWork(
        status=_status(task, is_planned=is_planned),
        action="execute" if executing.visits else "plan",
        is_done=task.timing.completed_at is not None,
        error=task.block_reason,
        solution_id=named if is_planned else None,
        solution=document if is_planned else None,
        result=_result(artifact(RESULT_FILE)),
        commit=task.source.head if executing.visits else None,
        planned_at=planning.completed_at or (task.timing.created_at if is_planned else None),
        executed_at=executing.completed_at,
        ended_at=task.timing.completed_at or task.timing.failed_at,
        executions=executing.visits,
        started_at=executing.started_at,
        updated_at=task.updated_at,
    )


def _status(task: Task, *, is_planned: bool) -> IssueStatus:
    if task.timing.completed_at is not None:
        return IssueStatus.COMPLETED if EXECUTE in task.stages else IssueStatus.PLANNED
    if task.status is TaskStatus.FAILED:
        return IssueStatus.FAILED
    if task.status is not TaskStatus.CANCELLED:
        if task.stages.get(EXECUTE, _NEVER).visits:
            return IssueStatus.EXECUTING
        if task.stages.get(PLAN, _NEVER).status is StageStatus.IN_PROGRESS:
            return IssueStatus.PLANNING
    return IssueStatus.PLANNED if is_planned else IssueStatus.REGISTERED


def _solution(text: str) -> tuple[JsonObject | None, str | None]:
    try:
        solution = read_solution(text)
    except InvalidField:
        return None, None
    return solution.document, solution.id


def _result(text: str) -> ExecutionResult | None:
    try:
        return read_result(text)
    except InvalidField:
        return None


def as_parent_knows(child: Child, work: IssueWork) -> IssueWork:
    """Return what an issue has come to, with how its parent saw it end."""
    match child.status:
        case ChildStatus.COMPLETED:
            return replace(work, commit=child.commit if work.executions else None)
        case ChildStatus.FAILED:
            return replace(work, status=IssueStatus.FAILED, error=work.error or child.reason or "it failed")
        case ChildStatus.SKIPPED:
            return replace(work, error=child.reason or None)
        case _:
            return work


def works_of(children: tuple[Child, ...], facts: Mapping[str, object]) -> dict[str, IssueWork]:
    """Return what every issue of a batch has come to, by its id."""
    found: dict[str, IssueWork] = {}
    for child in children:
        work = facts.get(child.task)
        found[child.plan.key] = as_parent_knows(child, work if isinstance(work, IssueWork) else NOT_BEGUN)
    return found
