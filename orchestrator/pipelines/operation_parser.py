"""State operations that programs and agents send as JSON, read into values.

Unknown keys are ignored and long texts are cut, because this input is untrusted and is kept for long.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import cast

from orchestrator.core.events.operations import FailureReport, OperationRefused, Refusal, StepUpdate, Transition
from orchestrator.core.task.failures import Analysis, Failure
from orchestrator.core.task.progress import StepCheckpoint, StepStatus
from orchestrator.formats.codec import Json, time_of, to_json
from orchestrator.storage.state_document import shown_failure

LINE, PARAGRAPH, PAGE = 300, 2000, 10_000
"""Characters that are kept of a name, of a sentence or two, and of details."""
MOST = 100
"""Items that are kept of a list."""


def transition_of(document: Mapping[str, Json]) -> Transition:
    """Return the move that a document asks for. Raises OperationRefused (MALFORMED)."""
    return Transition(
        from_state=_needed(document, "from_state", LINE),
        to_state=_needed(document, "to_state", LINE),
        artifacts=_list(document, "artifacts"),
        reason=_text(document, "reason", PARAGRAPH) or "",
    )


def step_of(document: Mapping[str, Json]) -> StepUpdate:
    """Return the update of a step; a checkpoint that is null removes the old one.

    Raises OperationRefused (MALFORMED).
    """
    number, status = document.get("step_id"), document.get("status")
    if type(number) is not int:
        raise _malformed("step_id", "has to be a whole number")
    if status not in tuple(StepStatus):
        raise _malformed("status", f"has to be one of {', '.join(StepStatus)}")
    noted = document.get("checkpoint")
    return StepUpdate(
        step_id=number,
        status=StepStatus(str(status)),
        commits=_list(document, "commits"),
        checkpoint=checkpoint_of(_object(document, "checkpoint")) if noted is not None else None,
        forget_checkpoint="checkpoint" in document and noted is None,
    )


def checkpoint_of(document: Mapping[str, Json]) -> StepCheckpoint:
    """Return the note on an interrupted step. Raises OperationRefused (MALFORMED)."""
    at = _time(document, "at")
    if at is None:
        raise _malformed("at", "is missing in the checkpoint; say when, such as 2026-05-28T01:45:00Z")
    return StepCheckpoint(
        at=at,
        reason=_text(document, "reason", LINE) or "",
        work_in_progress=_text(document, "work_in_progress", PARAGRAPH) or "",
        uncommitted_files=_list(document, "uncommitted_files"),
    )


def failure_of(document: Mapping[str, Json], state: str, at: datetime) -> FailureReport:
    """Return the failure that a document reports, in `state` and at the time `at` unless it says otherwise.

    Raises OperationRefused (MALFORMED).
    """
    tried, outcome = _object(document, "attempted_action"), _object(document, "actual_outcome")
    analysis, resolution = _object(document, "agent_analysis"), _object(document, "resolution")
    exit_code, retries = outcome.get("exit_code"), resolution.get("retry_count")
    failure = Failure(
        id=_text(document, "id", LINE) or "",
        occurred_at=_time(document, "occurred_at") or at,
        state=_text(document, "state", LINE) or state,
        agent=_text(document, "agent", LINE),
        step=_text(document, "step", LINE),
        attempted=_text(tried, "description", PARAGRAPH) or "",
        command=_text(tried, "command", PARAGRAPH),
        expected=_text(document, "expected_outcome", PARAGRAPH) or "",
        type=_needed(outcome, "type", LINE, "actual_outcome."),
        summary=_needed(outcome, "summary", PARAGRAPH, "actual_outcome."),
        details=_text(outcome, "details", PAGE) or "",
        exit_code=exit_code if type(exit_code) is int else None,
        log_file=_text(outcome, "log_file", LINE),
        analysis=_analysis(analysis) if analysis else None,
        action=_text(resolution, "action", LINE),
        transitioned_to=_text(resolution, "transitioned_to", LINE),
        retry_count=retries if type(retries) is int else 0,
        related_plan_step=_text(tried, "related_plan_step", LINE),
        related_design=_text(tried, "related_design", LINE),
        modified_files=_list(tried, "modified_files"),
    )
    return FailureReport(failure=failure)


def show_transition(move: Transition) -> dict[str, Json]:
    """Return the same move as JSON."""
    return cast(dict[str, Json], to_json(move))


def show_step(update: StepUpdate) -> dict[str, Json]:
    """Return the same update as JSON."""
    commits: list[Json] = [*update.commits]
    shown: dict[str, Json] = {"step_id": update.step_id, "status": update.status.value, "commits": commits}
    if update.forget_checkpoint or update.checkpoint is not None:
        shown["checkpoint"] = to_json(update.checkpoint)
    return shown


def show_failure(report: FailureReport) -> dict[str, Json]:
    """Return the document of a failure report."""
    return shown_failure(report.failure)


def _analysis(document: Mapping[str, Json]) -> Analysis:
    return Analysis(
        root_cause_hypothesis=_text(document, "root_cause_hypothesis", PARAGRAPH) or "",
        confidence=_text(document, "confidence", LINE) or "",
        suggested_fix=_text(document, "suggested_fix", PARAGRAPH) or "",
    )


def _object(document: Mapping[str, Json], name: str) -> Mapping[str, Json]:
    value = document.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _malformed(name, "has to be an object")
    return value


def _needed(document: Mapping[str, Json], name: str, longest: int, where: str = "") -> str:
    text = _text(document, name, longest)
    if not text:
        raise _malformed(where + name, "is missing")
    return text


def _text(document: Mapping[str, Json], name: str, longest: int) -> str | None:
    """Return a text or None; a number counts as text, because a step may be named by its number."""
    value = document.get(name)
    if value is None:
        return None
    if isinstance(value, bool | list | dict):
        raise _malformed(name, "has to be a text")
    return str(value)[:longest].encode("utf-8", "replace").decode()


def _list(document: Mapping[str, Json], name: str) -> tuple[str, ...]:
    value = document.get(name)
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise _malformed(name, "has to be a list of texts")
    return tuple(str(item)[:LINE].encode("utf-8", "replace").decode() for item in value[:MOST])


def _time(document: Mapping[str, Json], name: str) -> datetime | None:
    text = _text(document, name, LINE)
    try:
        return time_of(text) if text else None
    except (ValueError, OverflowError):
        raise _malformed(name, "has to be a time such as 2026-05-28T01:45:00Z") from None


def _malformed(name: str, problem: str) -> OperationRefused:
    return OperationRefused(Refusal.MALFORMED, {"field": name, "reason": problem}, f"{name} {problem}")
