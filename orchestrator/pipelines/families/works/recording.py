"""What the daemon itself puts on the branch of a work: the plan before its tasks begin, and the outcome at the end."""

import json
from collections.abc import Iterable
from datetime import datetime

from orchestrator.core.family.family import Files, Records
from orchestrator.core.task.children import Child, ChildStatus
from orchestrator.core.task.task import Task
from orchestrator.core.task.task_policy import Autonomy
from orchestrator.pipelines.families.works.beginning import RESUMED
from orchestrator.pipelines.families.works.documents.activity_log import LogStage, entry
from orchestrator.pipelines.families.works.documents.names import (
    OVERVIEW,
    PLAN,
    REQUIREMENT,
    WORK_LIST,
    folder_of,
    log_name,
)
from orchestrator.pipelines.families.works.documents.overview import (
    Overview,
    TaskRow,
    TaskState,
    read_overview,
    write_overview,
)
from orchestrator.pipelines.families.works.documents.plan import Plan, read_plan
from orchestrator.pipelines.families.works.documents.progress import Progress, write_progress
from orchestrator.pipelines.families.works.documents.work_list import (
    WorkRow,
    WorkStatus,
    done,
    read_work_list,
    with_work,
)

_STATES = {
    ChildStatus.COMPLETED: TaskState.DONE,
    ChildStatus.FAILED: TaskState.FAILED,
    ChildStatus.SKIPPED: TaskState.SKIPPED,
}


def records(task: Task, stage: str, files: Files, at: datetime) -> Records:
    """Return the plan of the work and its line in the list; once every task has ended, their outcome instead."""
    del stage
    plan = _plan(task, files)
    if task.children and all(not child.status.is_open for child in task.children):
        return _outcome(task, plan, files, at)
    return _beginning(task, plan, files, at)


def _plan(task: Task, files: Files) -> Plan:
    try:
        return read_plan(files.artifact(PLAN) or "")
    except ValueError:
        return Plan(work=task.ticket.key, title=task.title)


def _beginning(task: Task, plan: Plan, files: Files, at: datetime) -> Records:
    work, folder = task.ticket.key, folder_of(task.ticket.key)
    found: dict[str, str] = {}
    for name in (REQUIREMENT, PLAN, *(f"{child.plan.key}.md" for child in task.children)):
        if (text := files.artifact(name)) is not None:
            found[f"{folder}/{name}"] = text
    for child in task.children:
        path = f"{folder}/{child.plan.key}_progress.md"
        if files.committed(path) is None:
            found[path] = write_progress(Progress(task=child.plan.key))
    listed = files.committed(WORK_LIST) or ""
    title = plan.title or task.title
    if read_work_list(listed).row(work) is None:
        row = WorkRow(work=work, title=title, status=WorkStatus.IN_PROGRESS, created=at.date().isoformat())
        found[WORK_LIST] = with_work(listed, row, plan.language)
    if any(files.committed(path) != text for path, text in found.items()):
        keys = ", ".join(child.plan.key for child in task.children)
        entries = [
            entry(task.timing.created_at, "orchestrator", LogStage.INIT, f"{work} {task.title}", _as_it_is),
            entry(at, "orchestrator", LogStage.PLAN, f"{plan.mode or ''} {keys}".strip(), _as_it_is),
        ]
        found |= _log(work, files, entries)
    return Records(message=f"docs({work}): plan {title}"[:100], files=found)


def _outcome(task: Task, plan: Plan, files: Files, at: datetime) -> Records:
    work, folder = task.ticket.key, folder_of(task.ticket.key)
    rows = [*_done_before(plan, files, f"{folder}/{OVERVIEW}"), *map(_row, task.children)]
    minute = at.strftime("%H:%M")
    overview = Overview(
        work=work,
        updated=at.strftime("%Y-%m-%d %H:%M"),
        is_auto=task.policy.autonomy is Autonomy.AUTO,
        tasks=tuple(sorted(rows, key=lambda row: row.task)),
        log=tuple(f"[{minute}] {row.task} {row.state}" for row in rows),
    )
    entries = [
        entry(at, "committer", LogStage.COMMIT, f"{child.plan.key} {child.commit}", _as_it_is)
        if child.status is ChildStatus.COMPLETED
        else entry(at, "orchestrator", LogStage.FAILED, f"{child.plan.key} {child.reason}", _as_it_is)
        for child in task.children
    ]
    listed = files.committed(WORK_LIST) or ""
    if all(row.state is TaskState.DONE for row in rows):
        row = done(read_work_list(listed), work, plan.title or task.title, at.date().isoformat())
        listed = with_work(listed, row, plan.language)
        entries.append(entry(at, "orchestrator", LogStage.DONE, work, _as_it_is))
    found = {WORK_LIST: listed} if listed else {}
    found |= {f"{folder}/{OVERVIEW}": write_overview(overview, plan.language), **_log(work, files, entries)}
    return Records(message=f"docs({work}): record its outcome", files=found)


def _row(child: Child) -> TaskRow:
    return TaskRow(
        task=child.plan.key,
        title=child.plan.title,
        state=_STATES.get(child.status, TaskState.BLOCKED),
        commit=(child.commit or "")[:12],
    )


def _done_before(plan: Plan, files: Files, path: str) -> Iterable[TaskRow]:
    """Yield the tasks of a resumed work that were done before, as an earlier overview shows them."""
    try:
        known = {row.task: row for row in read_overview(files.committed(path) or "").tasks}
    except ValueError:
        known = {}
    titles = {task.id: task.title for task in plan.tasks}
    for key in json.loads(files.artifact(RESUMED) or "{}").get("done", ()):
        yield known.get(key) or TaskRow(task=key, title=titles.get(key, key), state=TaskState.DONE)


def _log(work: str, files: Files, entries: list[str]) -> dict[str, str]:
    path = f"{folder_of(work)}/{log_name(work)}"
    before = files.committed(path) or ""
    return {path: "\n".join(filter(None, (before.rstrip("\n"), *entries))) + "\n"}


def _as_it_is(text: str) -> str:
    """Return the text: titles and ids come from a ticket that was masked when it was taken in."""
    return text
