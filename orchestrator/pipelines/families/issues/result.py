"""The result of an execution: what its agent says about it. What the agent reports as failed has failed."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from orchestrator.pipelines.families.issues.document import NAME, TEXT, Fields, sized


class ResultStatus(StrEnum):
    """How an execution, or a task of it, ended."""

    COMPLETED = "completed"
    FAILED = "failed"


_STATUSES: Mapping[str, ResultStatus] = MappingProxyType({one.value: one for one in ResultStatus})
_TASK_STATUSES: Mapping[str, str] = MappingProxyType(
    {word: word for word in ("completed", "failed", "skipped", "pending")}
)
_VERIFICATION = ("all_tests_passed", "all_acceptance_met", "no_regressions")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionResult:
    """What an executor reports; `failure` says why it counts as failed, empty if it does not."""

    issue: str
    solution: str
    status: ResultStatus
    failure: str = ""
    files_modified: tuple[str, ...] = ()


def read_result(text: str | bytes, issue: str | None = None, solution: str | None = None) -> ExecutionResult:
    """Return the result in a JSON document; where `issue` and `solution` are given, it has to be about them.

    A result that says completed, and names a failed task or an unmet check, counts as failed. Raises InvalidField.
    """
    fields = Fields.parse(sized(text))
    about = {"issue_id": fields.text("issue_id"), "solution_id": fields.text("solution_id")}
    for name, wanted in (("issue_id", issue), ("solution_id", solution)):
        if wanted is not None and about[name] != wanted:
            raise fields.refuse(name, f"{about[name]!r:.80} is another one than {wanted}")
    status = fields.choice("status", _STATUSES)
    tasks = fields.objects("executed_tasks")
    outcomes = [(one.text("task_id"), one.choice("status", _TASK_STATUSES)) for one in tasks]
    unmet = [name for name in _VERIFICATION if fields.inner("verification").flag(name) is False]
    reason = fields.text("failure_reason", TEXT, default="").strip()
    not_done = [f"{name} is {word}" for name, word in outcomes if word != "completed"]
    objections = [*not_done, *(f"{name} is false" for name in unmet)]
    failure = ""
    if status is ResultStatus.FAILED or objections:
        failure = reason or "; ".join(objections[:20]) or "no reason is given"
    files = [name for one in tasks for name in one.texts("files_modified", limit=NAME * 5)]
    return ExecutionResult(
        issue=about["issue_id"],
        solution=about["solution_id"],
        status=ResultStatus.FAILED if failure else ResultStatus.COMPLETED,
        failure=failure[:2000],
        files_modified=tuple(dict.fromkeys((*files, *fields.texts("files_modified", limit=NAME * 5)))),
    )
