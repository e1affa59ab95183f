"""What became of a batch, for people and for programs."""

from collections.abc import Mapping
from datetime import datetime

from orchestrator.core.task.task import Task
from orchestrator.formats.codec import JsonObject, stamp
from orchestrator.pipelines.families.issues.batch_state import BatchState
from orchestrator.pipelines.families.issues.issue import IssueStatus
from orchestrator.pipelines.families.issues.progress import IssueWork

PASSED, REVIEWED = 80.0, 60.0
"""Success rates in percent from which a batch passes, and from which it needs a look."""
LONGEST_CELL = 300


def summary_of(task: Task, state: BatchState, works: Mapping[str, IssueWork]) -> JsonObject:
    """Return the summary: counts, the share of issues that succeeded in percent, and how long it took."""
    total, done = len(works), sum(work.is_done for work in works.values())
    failed = state.context.failed_count
    rate = round(100 * done / total, 1) if total else 0.0
    return {
        "batch": task.id,
        "status": task.status.value,
        "total": total,
        "planned": sum(work.status is IssueStatus.PLANNED for work in works.values()),
        "completed": state.context.completed_count,
        "failed": failed,
        "pending": total - done - failed,
        "success_rate": rate,
        "quality": "pass" if rate >= PASSED else "review" if rate >= REVIEWED else "fail",
        "outcome": "completed" if done == total else "completed_with_issues" if done else "failed",
        "duration_ms": int((_end(task) - (task.timing.started_at or task.timing.created_at)).total_seconds() * 1000),
        "completed_at": stamp(_end(task)),
    }


def final_report(task: Task, state: BatchState, works: Mapping[str, IssueWork]) -> str:
    """Return the report as Markdown: the outcome, a table of the issues, and what is left to do."""
    summary = summary_of(task, state, works)
    rows = [
        f"| {key} | {_cell(state.issues[key].title)} | {work.status} | {work.solution_id or ''} | "
        f"{(work.commit or '')[:12]} |"
        for key, work in works.items()
    ]
    outcome = (
        f"{summary['completed']} of {summary['total']} issues completed, {summary['failed']} failed, "
        f"{summary['pending']} not done; {summary['success_rate']} % succeeded ({summary['quality']})."
    )
    parts = [
        f"# Issues of {task.ticket.key}: {_cell(task.title)}",
        outcome,
        f"Branch: `{task.source.branch}`, from {task.source.base_commit[:12]} of {_cell(task.source.base_branch)}.",
        "\n".join(("| Issue | Title | Status | Solution | Commit |", "|---|---|---|---|---|", *rows)),
    ]
    failures = [f"- **{key}** ({work.action}): {_cell(work.error)}" for key, work in works.items() if work.error]
    if failures:
        parts += ["## What went wrong", "\n".join(failures)]
    if left := [key for key, work in works.items() if not work.is_done]:
        parts += [
            "## What is left",
            f"{', '.join(left)}. Do them in a new batch, without those that are done:",
            f"    orchestrator submit --pipeline {task.pipeline} --issues {state.work_dir}",
        ]
    return "\n\n".join(parts) + "\n"


def _end(task: Task) -> datetime:
    return task.timing.completed_at or task.timing.failed_at or task.updated_at


def _cell(text: str | None) -> str:
    """Return a text as it can stand in one cell of a table."""
    line = " ".join((text or "").split())
    cut = line if len(line) <= LONGEST_CELL else line[: LONGEST_CELL - 1] + "…"
    return cut.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("`", "\\`")
