"""The final message about a task: what became of it, where the result is, what to do next.

It is sent as a notice and written to summary.md and BLOCKED-summary.md; `show` and `submit --wait` end with it.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime

from orchestrator.core.task.checks import nothing_ran
from orchestrator.core.task.failures import Failure, Pattern
from orchestrator.core.task.task import Task, TaskStatus

FEW_PATTERNS = 2
_LONGEST_TITLE = 200
_LONGEST_REASON = 600
_LONGEST_HINT = 300
_REPORT = "report.md"


def has_ended(task: Task) -> bool:
    """Return whether only a person can change the task now."""
    return task.status.is_final or task.status is TaskStatus.BLOCKED


def ended_at(task: Task) -> datetime:
    """Return when the task ended or was blocked; for an active task, when it last changed."""
    return task.timing.completed_at or task.timing.failed_at or task.updated_at


def final_message(task: Task, at: datetime) -> str:
    """Return the message about a task that has ended or is blocked; its first line is a summary."""
    since = task.timing.started_at or task.timing.created_at
    where = "" if task.status is TaskStatus.COMPLETED else f" in {task.stage}"
    first = f"{task.ticket.key} {task.status}{where} after {_span(at, since)}: {_line(task.title, _LONGEST_TITLE)}"
    return "\n".join((first, *_outcome(task), *(_problems(task) if task.status is not TaskStatus.COMPLETED else ())))


def report_file(task: Task) -> str | None:
    """Return the newest report that a stage left in the task's folder: a file whose name ends in report.md."""
    names = [name for record in task.stages.values() for name in record.artifacts if name.endswith(_REPORT)]
    return names[-1] if names else None


def top_patterns(task: Task) -> tuple[Pattern, ...]:
    """Return the patterns of failures that recur, most frequent first."""
    return tuple(sorted(task.failures.patterns, key=lambda found: -found.occurrences))


def counted(counts: Mapping[str, int]) -> str:
    """Return counts by name in one line, largest first."""
    rows = sorted(counts.items(), key=lambda row: (-row[1], row[0]))
    return ", ".join(f"{name} {count}" for name, count in rows)


def recommended(task: Task) -> str:
    """Return what a person should do about a task that is blocked or failed."""
    newest = task.failures.entries[-1] if task.failures.entries else None
    again = f"orchestrator retry {task.id}, or orchestrator cancel {task.id}"
    anew = f"orchestrator retry {task.id}, which makes a new task of it"
    return f"{_hint(task, newest)}; then {again if task.status is TaskStatus.BLOCKED else anew}"


def _outcome(task: Task) -> Iterator[str]:
    """Yield where the results of the task are."""
    published, report = task.publication, report_file(task)
    if published.pr_url:
        merged = f", merged as {published.merge_commit[:12]}" if published.merge_commit else ""
        yield f"pull request: {published.pr_url}{merged}"
    if published.tag:
        yield f"tag: {published.tag} (git -C {task.source.repo} show {published.tag} -- CHANGELOG.md)"
    if report:
        posted = f", posted at {published.report_url}" if published.report_url else ""
        yield f"report: {task.display_path(report)}{posted}"
    if task.status is not TaskStatus.COMPLETED or task.source.head in {None, task.source.base_commit}:
        return
    if not (published.pr_url or published.tag):
        plain = task.source.plain_folder
        yield f"files: {plain}" if plain else f"branch: {task.source.branch} in {task.source.repo}"
    if nothing_ran(task.evaluation.checks, task.evaluation.results):
        yield "no check ran: nothing shows that this change works"


def _problems(task: Task) -> Iterator[str]:
    """Yield why the task did not complete, its failures, and what to do next."""
    if task.block_reason:
        yield f"reason: {_line(task.block_reason, _LONGEST_REASON)}"
    log = task.failures
    if log.total:
        yield f"failures: {log.total} ({counted(log.by_state)}; {counted(log.by_type)})"
    for found in top_patterns(task)[:FEW_PATTERNS]:
        yield f"recurring: {found.pattern} ({found.occurrences} times)"
    if task.status in (TaskStatus.BLOCKED, TaskStatus.FAILED):
        yield f"next: {recommended(task)}"


def _hint(task: Task, newest: Failure | None) -> str:
    """Return what to do first: follow the newest analysis, read the log, or resolve what prevents the merge.

    The failure of another stage than the one in which the task ended is not its cause.
    """
    if newest is not None and newest.state != task.stage:
        newest = None
    if newest is not None and newest.analysis is not None and newest.analysis.suggested_fix.strip():
        return f"try what {newest.agent or 'its agent'} suggests: {_line(newest.analysis.suggested_fix, _LONGEST_HINT)}"
    if newest is not None and newest.log_file:
        return f"read {task.display_path(newest.log_file)}"
    if task.publication.hindrances:
        return f"resolve what prevents the merge: {_line('; '.join(task.publication.hindrances), _LONGEST_HINT)}"
    return "fix what the reason says"


def _span(until: datetime, since: datetime) -> str:
    """Return the time between two moments in hours, minutes and seconds."""
    seconds = max(0, int((until - since).total_seconds()))
    hours, minutes = seconds // 3600, seconds // 60 % 60
    if hours:
        return f"{hours}h{minutes:02d}m"
    return f"{minutes}m{seconds % 60:02d}s" if minutes else f"{seconds}s"


def _line(text: str, limit: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
