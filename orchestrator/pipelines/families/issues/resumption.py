"""The issues of an earlier batch, from the files that it left: what is finished is known, and plans are kept."""

from collections.abc import Mapping
from dataclasses import replace

from orchestrator.pipelines.families.issues.batch_state import IssueState, read_state
from orchestrator.pipelines.families.issues.document import InvalidField
from orchestrator.pipelines.families.issues.issue import Issue, IssueStatus, read_issues
from orchestrator.pipelines.families.issues.solution import Solution, read_solution


def issues_of_batch(state: str, listed: str, plans: Mapping[str, str]) -> tuple[Issue, ...]:
    """Return the issues of a batch: `state` is its state.json, `listed` its issues.jsonl, if there is one, and `plans`
    has the solutions by issue. Raises InvalidField.

    A batch of the original tool lists no issues, so their titles are all that is known of them.
    """
    known = {issue.id: issue for issue in read_issues(listed)} if listed.strip() else {}
    found = read_state(state).issues.values()
    if not found:
        raise InvalidField("issues", "the state names none")
    return tuple(_issue(one, known.get(one.id), plans.get(one.id, "")) for one in found)


def _issue(state: IssueState, listed: Issue | None, plan: str) -> Issue:
    issue = listed or Issue(id=state.id, title=state.title or state.id)
    solution = issue.solution or _solution(plan, state.id)
    is_done = state.status is IssueStatus.COMPLETED
    status = state.status if is_done else IssueStatus.PLANNED if solution else IssueStatus.REGISTERED
    said = (f"failure: {state.error}",) if state.error and not is_done else ()
    return replace(issue, status=status, solution=solution, feedback=(*issue.feedback, *said))


def _solution(plan: str, issue: str) -> Solution | None:
    try:
        return read_solution(plan, issue)
    except InvalidField:
        return None
