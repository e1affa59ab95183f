"""The files of a batch, as the original tool has them: its state with history, results, snapshots and reports.

issues.jsonl, state.json, state-history.json, queue.json
solutions/<issue>-plan.json, solutions/<issue>-execution.json
snapshots/snapshot-before-execute-<n>.json
planning-results.json, execution-results.json
summary.json, final-report.md           once the batch has ended
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType

import orjson

from orchestrator.core.records.projection import Projected, Projection
from orchestrator.core.task.progress import StageStatus
from orchestrator.core.task.task import Task, TaskStatus
from orchestrator.formats.codec import Json, JsonObject, stamp, to_json
from orchestrator.formats.files import parsed
from orchestrator.pipelines.families.issues.batch import ISSUES_FILE
from orchestrator.pipelines.families.issues.batch_state import (
    BatchError,
    BatchPhase,
    BatchState,
    BatchStatus,
    IssueState,
    QueueItem,
    QueueStatus,
    counts_of,
)
from orchestrator.pipelines.families.issues.issue import IssueStatus
from orchestrator.pipelines.families.issues.progress import IssueWork, work_of, works_of
from orchestrator.pipelines.families.issues.report import final_report, summary_of

STATE, HISTORY = "state.json", "state-history.json"
WHOLE_STATES = 100
"""Up to so many issues a snapshot has the whole state; of larger batches it has the issue that is to be executed."""

_IN_QUEUE: Mapping[IssueStatus, QueueStatus] = MappingProxyType(
    {
        IssueStatus.PLANNED: QueueStatus.PENDING,
        IssueStatus.EXECUTING: QueueStatus.EXECUTING,
        IssueStatus.COMPLETED: QueueStatus.COMPLETED,
        IssueStatus.FAILED: QueueStatus.FAILED,
    }
)


class BatchProjection(Projection):
    """Shows a batch by its files."""

    def facts(self, child: Task, artifact: Callable[[str], str]) -> object:
        """Return what the task of an issue has come to."""
        return work_of(child, artifact)

    def files(self, projected: Projected) -> Mapping[str, str]:
        """Return the files that the state of the batch calls for; a state that did not change is not saved again."""
        task = projected.task
        if not task.children:
            return {}
        works = works_of(task.children, projected.children)
        state = state_of(task, works)
        files = _saved(state, projected.record)
        if listed := projected.artifact(ISSUES_FILE):
            files[ISSUES_FILE] = listed
        files["queue.json"] = _json(to_json(state.queue))
        files.update(_snapshots(state, works, projected.record))
        files.update(_solutions(works))
        files["planning-results.json"] = _json(_planning(state, works))
        files["execution-results.json"] = _json(_execution(state, works))
        if _has_ended(task):
            files["summary.json"] = _json(summary_of(task, state, works))
            files["final-report.md"] = final_report(task, state, works)
        return files


def state_of(task: Task, works: Mapping[str, IssueWork]) -> BatchState:
    """Return the state of a batch."""
    issues = {
        child.plan.key: _issue(child.plan.key, child.plan.title, works[child.plan.key]) for child in task.children
    }
    executes = any(work.executions for work in works.values())
    queue = tuple(
        QueueItem(
            item_id=f"S-{number}", issue_id=issue.id, solution_id=issue.solution_id, status=_IN_QUEUE[issue.status]
        )
        for number, issue in enumerate(issues.values(), 1)
        if issue.solution_id is not None and issue.status in _IN_QUEUE
    )
    times = [task.updated_at, *(work.updated_at for work in works.values() if work.updated_at)]
    return BatchState(
        status=_status(task),
        phase=_phase(task, executes=executes),
        work_dir=task.display_path("records"),
        issues=issues,
        queue=queue,
        completed_actions=_actions(task, works),
        context=counts_of(tuple(issues.values())),
        errors=_errors(task, works),
        created_at=stamp(task.timing.created_at),
        updated_at=stamp(max(times)),
    )


def _issue(key: str, title: str, work: IssueWork) -> IssueState:
    return IssueState(
        id=key,
        title=title,
        status=work.status,
        solution_id=work.solution_id,
        planned_at=_time(work.planned_at),
        executed_at=_time(work.executed_at),
        error=work.error,
    )


def _status(task: Task) -> BatchStatus:
    """Return the status; a batch that was given up was not completed, so it is as it was then."""
    if task.timing.completed_at is not None:
        return BatchStatus.COMPLETED
    return BatchStatus.PENDING if task.timing.started_at is None else BatchStatus.RUNNING


def _phase(task: Task, *, executes: bool) -> BatchPhase:
    if task.timing.completed_at is not None:
        return BatchPhase.COMPLETE
    if task.timing.started_at is None:
        return BatchPhase.INIT
    if executes:
        return BatchPhase.EXECUTING
    return (
        BatchPhase.PLANNING if any(child.status.value != "planned" for child in task.children) else BatchPhase.LISTING
    )


def _actions(task: Task, works: Mapping[str, IssueWork]) -> tuple[str, ...]:
    """Return the actions that are completed, in the order of their ends."""
    ended = [(task.timing.started_at, "action-init")]
    listed = [record.completed_at for record in task.stages.values() if record.status is StageStatus.COMPLETED]
    ended += [(min(filter(None, listed)), "action-list")] if any(listed) else []
    for key, work in works.items():
        ended.append((work.planned_at, f"action-plan:{key}"))
        ended.append((work.executed_at, f"action-execute:{key}"))
    ended.append((task.timing.completed_at, "action-complete"))
    done = [(at, number, name) for number, (at, name) in enumerate(ended) if at is not None]
    return tuple(name for _, _, name in sorted(done))


def _errors(task: Task, works: Mapping[str, IssueWork]) -> tuple[BatchError, ...]:
    found = [
        (work.ended_at or work.updated_at or task.updated_at, f"action-{work.action}:{key}", work.error)
        for key, work in works.items()
        if work.error
    ]
    if task.block_reason:
        found.append((task.updated_at, task.stage, task.block_reason))
    elif task.status is TaskStatus.CANCELLED:
        found.append((task.updated_at, task.stage, "the batch was cancelled"))
    return tuple(BatchError(timestamp=stamp(at), action=action, message=text) for at, action, text in found)


def _saved(state: BatchState, record: Callable[[str], str]) -> dict[str, str]:
    """Return the state and, if it differs from the last one by more than its time, the history with one more entry."""
    before = _object(record(STATE))
    document = state.document
    if before and {**before, "updated_at": ""} == {**document, "updated_at": ""}:
        return {STATE: record(STATE)}
    entry: JsonObject = {
        "timestamp": state.updated_at,
        "phase": state.phase.value,
        "completed_actions": len(state.completed_actions),
        "issues_count": len(state.issues),
    }
    history = _list(record(HISTORY))
    if not history or history[-1] != entry:  # else a crash came between the two files
        history.append(entry)
    return {HISTORY: _json(history), STATE: _json(document)}


def _snapshots(state: BatchState, works: Mapping[str, IssueWork], record: Callable[[str], str]) -> dict[str, str]:
    """Return a snapshot of the state before each execution that is under way and has none yet."""
    found: dict[str, str] = {}
    for number, (key, work) in enumerate(works.items(), 1):
        if work.status is not IssueStatus.EXECUTING or work.started_at is None:
            continue
        again = f"-{work.executions}" if work.executions > 1 else ""
        name = f"snapshots/snapshot-before-execute-{number}{again}.json"
        if not record(name):
            found[name] = _json(_snapshot(state, key, work.started_at))
    return found


def _snapshot(state: BatchState, key: str, at: datetime) -> JsonObject:
    """Return the state as it was before an issue was executed."""
    planned = replace(state.issues[key], status=IssueStatus.PLANNED, executed_at=None)
    issues = {**state.issues, key: planned} if len(state.issues) <= WHOLE_STATES else {key: planned}
    queue = tuple(
        replace(item, status=QueueStatus.PENDING) if item.issue_id == key else item
        for item in state.queue
        if item.issue_id in issues
    )
    before = replace(state, phase=BatchPhase.EXECUTING, issues=issues, queue=queue, updated_at=stamp(at))
    return {
        "timestamp": stamp(at),
        "phase": before.phase.value,
        "issue_id": key,
        "solution_id": planned.solution_id,
        "state": before.document,
    }


def _solutions(works: Mapping[str, IssueWork]) -> dict[str, str]:
    """Return each issue's plan, and what came of it."""
    found: dict[str, str] = {}
    for key, work in works.items():
        if work.solution is not None:
            found[f"solutions/{key}-plan.json"] = _json(work.solution)
        if work.executed_at is not None:
            found[f"solutions/{key}-execution.json"] = _json(_executed(key, work))
    return found


def _planning(state: BatchState, works: Mapping[str, IssueWork]) -> JsonObject:
    results: list[Json] = [
        {
            "issue_id": key,
            "solution_id": work.solution_id,
            "status": "failed" if work.solution is None else "planned",
            "solution": work.solution,
            "planned_at": _time(work.planned_at),
        }
        for key, work in works.items()
        if work.solution is not None or (work.status is IssueStatus.FAILED and not work.executions)
    ]
    return {"phase": "planning", "created_at": state.created_at, "results": results}


def _execution(state: BatchState, works: Mapping[str, IssueWork]) -> JsonObject:
    """Return the results of all executions, with the keys of both shapes that the original tool has for them."""
    results: list[Json] = [_executed(key, work) for key, work in works.items() if work.executions]
    ended = [work.status for work in works.values() if work.executions]
    return {
        "phase": "execution",
        "created_at": state.created_at,
        "total": len(results),
        "completed": ended.count(IssueStatus.COMPLETED),
        "failed": ended.count(IssueStatus.FAILED),
        "results": results,
        "timestamp": max((stamp(work.ended_at) for work in works.values() if work.ended_at), default=state.created_at),
    }


def _executed(key: str, work: IssueWork) -> JsonObject:
    files: list[Json] = [*(work.result.files_modified if work.result else ())]
    return {
        "issue_id": key,
        "solution_id": work.solution_id,
        "status": work.status.value,
        "commit_hash": work.commit,
        "files_modified": files,
        "executed_at": _time(work.executed_at),
        "error": work.error,
    }


def _has_ended(task: Task) -> bool:
    return task.status.is_final or task.status is TaskStatus.BLOCKED


def _time(at: datetime | None) -> str | None:
    return None if at is None else stamp(at)


def _json(document: Json) -> str:
    return orjson.dumps(document, option=orjson.OPT_INDENT_2).decode() + "\n"


def _object(text: str) -> JsonObject:
    """Return the object that an earlier record is, an empty one if it is none."""
    return parsed(text.encode()) or {}


def _list(text: str) -> list[Json]:
    """Return the list that an earlier record is, an empty one if it is none."""
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        return []
    return found if isinstance(found, list) else []
