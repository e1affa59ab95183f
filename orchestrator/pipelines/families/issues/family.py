"""What the pipelines for issues share."""

from types import MappingProxyType

from orchestrator.core.family.family import Examined, Family, Files
from orchestrator.core.task.task import Task
from orchestrator.pipelines.families.issues.batch import ISSUES_FILE, OPTIONS_FILE, begin, read_children
from orchestrator.pipelines.families.issues.document import InvalidField
from orchestrator.pipelines.families.issues.guards import (
    COMPLETED,
    FAILED,
    NothingExecuted,
    ResultCompleted,
    ResultFailed,
    ResultReported,
)
from orchestrator.pipelines.families.issues.progress import EXECUTE, PLAN, RESULT_FILE, SOLUTION_FILE
from orchestrator.pipelines.families.issues.projection import BatchProjection
from orchestrator.pipelines.families.issues.result import read_result
from orchestrator.pipelines.families.issues.solution import read_solution, score_problems


def issue_id(task: Task) -> str:
    """Return the id of the issue that a task works on: its key in the batch, or that of its ticket."""
    return task.fill("{key}") or task.ticket.key


def examine(task: Task, name: str, text: str, files: Files) -> Examined:
    """Return what a solution lacks, and what a result says of the work."""
    del files
    try:
        if name == SOLUTION_FILE:
            return Examined(problems=score_problems(read_solution(text, issue_id(task))))
        if name == RESULT_FILE:
            result = read_result(text, issue_id(task))
            return Examined(marks=(f"{FAILED}{result.failure}" if result.failure else COMPLETED,))
    except InvalidField as error:
        return Examined(problems=(str(error),))
    return Examined()


def brief(task: Task, stage: str) -> str:
    """Return the ids that the files of a stage must have."""
    issue = issue_id(task)
    if stage == PLAN:
        return f"issue_id: {issue}\nsolution id: SOL-{issue}-{task.stages[PLAN].visits}"
    if stage == EXECUTE:
        number = task.stages[EXECUTE].visits
        return f"issue_id: {issue}\nsolution: {SOLUTION_FILE} in workspace_dir\nresult id: EXR-{issue}-{number}"
    return ""


ISSUES = Family(
    name="issues",
    guards=MappingProxyType(
        {
            "result_reported": ResultReported,
            "result_completed": ResultCompleted,
            "result_failed": ResultFailed,
            "nothing_executed": NothingExecuted,
        }
    ),
    listing=ISSUES_FILE,
    given=(ISSUES_FILE, OPTIONS_FILE, SOLUTION_FILE),
    begin=begin,
    read_children=read_children,
    examine=examine,
    brief=brief,
    projection=BatchProjection(),
)
