"""What the daemon itself puts on the branch of a work: the plan before its tasks begin, and the outcome at the end."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from orchestrator.core.family.family import Files, Records
from orchestrator.core.records.projection import RECORDS
from orchestrator.core.task.task import Task
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
from orchestrator.pipelines.families.works.documents.plan import Plan
from orchestrator.pipelines.families.works.documents.progress import Progress, write_progress
from orchestrator.pipelines.families.works.documents.requirement import with_request
from orchestrator.pipelines.families.works.documents.work_list import (
    WorkRow,
    WorkStatus,
    done,
    read_work_list,
    with_work,
)
from orchestrator.pipelines.families.works.projection import activity_of, done_before, overview_of, plan_of
from orchestrator.pipelines.families.works.request import read_request


def records(task: Task, stage: str, files: Files, at: datetime) -> Records:
    """Return the plan of the work and its line in the list; once every task has ended, their outcome instead."""
    del stage
    plan = plan_of(task, files.artifact)
    if task.children and all(not child.status.is_open for child in task.children):
        return _outcome(task, plan, files, at)
    return _beginning(task, plan, files, at)


def _beginning(task: Task, plan: Plan, files: Files, at: datetime) -> Records:
    work, folder = task.ticket.key, folder_of(task.ticket.key)
    found: dict[str, str] = {}
    for name in (REQUIREMENT, PLAN, *(f"{child.plan.key}.md" for child in task.children)):
        if (text := files.artifact(name)) is not None:
            found[f"{folder}/{name}"] = with_request(text, _request(files)) if name == REQUIREMENT else text
    present = set(files.names(folder))
    for child in task.children:
        path = f"{folder}/{child.plan.key}_progress.md"
        if path not in present:
            found[path] = write_progress(Progress(task=child.plan.key))
    listed = files.committed(WORK_LIST) or ""
    title = plan.title or task.title
    if read_work_list(listed).row(work) is None:
        row = WorkRow(work=work, title=title, status=WorkStatus.IN_PROGRESS, created=at.date().isoformat())
        found[WORK_LIST] = with_work(listed, row, plan.language)
    if any(files.committed(path) != text for path, text in found.items()):
        found |= _log(task, files)
    return Records(message=f"docs({work}): plan {title}"[:100], files=found)


def _outcome(task: Task, plan: Plan, files: Files, at: datetime) -> Records:
    work, folder = task.ticket.key, folder_of(task.ticket.key)
    earlier = _overview(files.committed(f"{folder}/{OVERVIEW}"))
    live = _overview(files.artifact(f"{RECORDS}/{OVERVIEW}"))
    overview = overview_of(task, plan, done_before(files.artifact(RESUMED)), {})
    rows = tuple(_completed(row, earlier, live) for row in overview.tasks)
    overview = replace(overview, updated=at.strftime("%Y-%m-%d %H:%M"), tasks=rows, log=live.log)
    listed, is_done = files.committed(WORK_LIST) or "", all(row.state is TaskState.DONE for row in rows)
    if is_done:
        row = done(read_work_list(listed), work, plan.title or task.title, at.date().isoformat())
        listed = with_work(listed, row, plan.language)
    found = {WORK_LIST: listed} if listed else {}
    last = [entry(at, "orchestrator", LogStage.DONE, work, str)] if is_done else []
    found |= {f"{folder}/{OVERVIEW}": write_overview(overview, plan.language), **_log(task, files, last)}
    return Records(message=f"docs({work}): record its outcome", files=found)


def _request(files: Files) -> str:
    """Return the words of the request; nothing for a resumed work, whose requirement has its own."""
    ticket = json.loads(files.artifact("ticket.json") or "{}")
    text = ticket.get("description") if isinstance(ticket, dict) else ""
    return text if isinstance(text, str) and not read_request(text).resumes else ""


def _overview(text: str | None) -> Overview:
    try:
        return read_overview(text or "")
    except ValueError:
        return read_overview("")


def _completed(row: TaskRow, earlier: Overview, live: Overview) -> TaskRow:
    """Return a row with how long its task took; one of a task that was done before, as an earlier overview has it."""
    before = earlier.row(row.task)
    if not row.commit and row.state is TaskState.DONE and before is not None:
        return before if before.state is TaskState.DONE else row
    now = live.row(row.task)
    return row if now is None else replace(row, duration=now.duration)


def _log(task: Task, files: Files, last: Sequence[str] = ()) -> dict[str, str]:
    """Return the log with what was done since it was written last, and these lines at its end."""
    name = log_name(task.ticket.key)
    path = f"{folder_of(task.ticket.key)}/{name}"
    before = (files.committed(path) or "").splitlines()
    live = (files.artifact(f"{RECORDS}/{name}") or "").splitlines() or activity_of(task, {})
    known = set(before)
    return {path: "\n".join((*before, *(line for line in (*live, *last) if line not in known))) + "\n"}
