"""`show`, `why`, `tasks`: tasks as the daemon has them."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from orchestrator.cli.context import Json, TaskName, context_of, has_stopped
from orchestrator.cli.output import (
    ago,
    budget_of,
    console,
    facts,
    line,
    local,
    note,
    plain,
    print_json,
    status_text,
    table,
)
from orchestrator.cli.parsing.options import Format
from orchestrator.cli.request_output import render_request
from orchestrator.cli.terminal import PIPE_WIDTH
from orchestrator.core.task.checks import REPORT_FILE, Verdict, first_try
from orchestrator.core.task.progress import StageStatus, StepStatus
from orchestrator.core.task.task import TaskStatus
from orchestrator.core.task.user_requests import RequestKind, RequestStatus
from orchestrator.daemon.reporting.summary import BLOCKED_FILE, SUMMARY_FILE
from orchestrator.formats.person import person_name
from orchestrator.server.schemas.task_input import TaskFilter
from orchestrator.server.schemas.tasks import PublicationView, TaskLine, TaskView

SHOWN_FAILURES = 10

MARKS = {
    "pending": Text("·", style="dim"),
    "in_progress": Text("▸", style="cyan"),
    "completed": Text("✓", style="green"),
    "failed": Text("✗", style="red"),
    "stopped": Text("■", style="red"),
}
VERDICTS = {Verdict.PASS: "green", Verdict.WARN: "yellow", Verdict.FAIL: "red", Verdict.SKIPPED: "dim"}


def show(context: typer.Context, task: TaskName, json: Json = False) -> None:
    """Show one task in full: its status, stages and steps, checks, failures, and where its files are."""
    with context_of(context).client() as client:
        found = client.task(task)
        requests = [
            client.review(request) if request.kind is RequestKind.REVIEW else request for request in found.waiting
        ]
    if json:
        print_json(found)
        return
    screen = console()
    screen.print(Text(plain(found.title), style="bold"))
    screen.print(facts(_facts(found)))
    for request in requests:
        screen.print()
        for words in render_request(request):
            screen.print(words)
    for heading, part in _parts(found):
        screen.print()
        screen.print(Text(heading, style="bold"))
        screen.print(part)
    _print_failures(screen, found)
    if found.closing:
        screen.print()
        screen.print(Text(plain(found.closing)))


def _facts(task: TaskView) -> list[tuple[str, Text | str | None]]:
    status = status_text(task.status, paused=task.paused, blocked_by=task.agent.blocked_by) + Text(
        f"  {task.stage}  {task.progress}%"
    )
    agent = task.agent
    who = f"{agent.role}, {agent.status}, attempt {agent.attempt}" + (f", pid {agent.pid}" * bool(agent.pid))
    budgets = ", ".join(
        f"{name} {budget.used} of {budget.limit}" for name, budget in task.budgets.items() if budget.used
    )
    return [
        ("id", task.id),
        ("status", status),
        ("blocked", task.block_reason),
        ("ticket", f"{task.ticket.key} ({task.ticket.type}), pipeline {task.pipeline}, priority {task.priority}"),
        ("repository", task.repo),
        ("branch", f"{task.branch}, from {task.base_branch} at {task.base_commit[:12]}"),
        ("head", task.head and task.head[:12]),
        ("part of", task.parent),
        ("after", ", ".join(task.after)),
        ("starts at", local(task.start_at)),
        ("made by", _made_by(task)),
        ("submitted", local(task.created_at)),
        ("started", local(task.started_at)),
        ("ended", local(task.completed_at or task.failed_at)),
        ("agent", who * bool(agent.attempt)),
        ("used", _used(task) * bool(agent.attempt)),
        ("budget", budget_of(task)),
        ("retries used", budgets),
        ("changes requested", "; ".join(task.requested_changes)),
        ("feedback", "; ".join(task.feedback)),
        *_published(task.publication),
        ("worktree", task.worktree),
        ("folder", task.folder),
        ("to read", _to_read(task)),
    ]


def _made_by(task: TaskView) -> str | None:
    """Return which schedule submitted a task, and for which of its times."""
    name, _, due = (task.made_by or "").partition("@")
    if not due:
        return name and f"schedule {name}"
    return f"schedule {name}, due {local(datetime.fromisoformat(due))}"


def _to_read(task: TaskView) -> str:
    """Return the files in its folder that report the outcome, one on each line."""
    if not (has_stopped(task.status) or task.status is TaskStatus.REVIEW):
        return ""
    summary = BLOCKED_FILE if task.status is TaskStatus.BLOCKED else SUMMARY_FILE
    names = (summary, *[REPORT_FILE] * bool(task.results))
    return "\n".join(f"{task.folder}/{name}" for name in names)


def _used(task: TaskView) -> str:
    spent, agent = task.spent, task.agent
    return f"{agent.tokens_used:,} tokens, ${agent.cost_usd:.2f}, {spent.turns} turns, {spent.hours:.1f} hours of work"


def _published(publication: PublicationView) -> list[tuple[str, Text | str | None]]:
    """Return where the change was published."""
    merged = f", merged at {local(publication.merged_at)}" if publication.merged_at else ""
    into = f" as {publication.merge_commit[:12]}" if publication.merge_commit else ""
    rounds = f"{publication.round}" if publication.round else ""
    return [
        ("pull request", publication.pr_url and f"{publication.pr_url}{merged}{into}"),
        ("review rounds", rounds),
        ("merge blocked by", "; ".join(publication.hindrances)),
        ("release", publication.tag or publication.version),
        ("report", publication.report_url),
    ]


def _parts(task: TaskView) -> Iterator[tuple[str, Table]]:
    """Yield the sections that have something to show, each with its heading."""
    stages = [
        (
            _mark(task, record.status),
            name,
            local(record.started_at) or "",
            local(record.completed_at) or "",
            f"{record.visits} times" if record.visits > 1 else "",
            ", ".join(record.artifacts),
        )
        for name, record in task.stages.items()
    ]
    yield "Stages", table(("", "STAGE", "BEGAN", "ENDED", "", "LEFT BEHIND"), stages)
    steps = [
        (_mark(task, step.status), str(step.step_id), " ".join(sha[:12] for sha in step.commits), step.description)
        for step in task.steps
    ]
    if steps:
        yield "Steps", table(("", "STEP", "COMMITS", "WHAT"), steps)
    children = [(child.status.value, child.key, child.task, child.title, child.reason) for child in task.children]
    if children:
        yield "Children", table(("", "CHILD", "TASK", "WHAT", "WHY"), children)
    commands = {check.name: check.command or "(evaluated by the daemon)" for check in task.checks}
    checks = [
        (_verdict(task, name), name, _seconds(task, name), commands.get(name, ""), _reason(task, name))
        for name in _in_order(commands, task.results)
    ]
    if checks:
        yield "Checks", table(("VERDICT", "CHECK", "TIME", "COMMAND", "WHY"), checks)
    requests = [
        (
            str(request.number),
            request.subject.value,
            request.status.replace("_", " "),
            person_name(request.answered_by or ""),
            request.text,
            request.answer or "",
        )
        for request in task.requests
        if request.status is not RequestStatus.PENDING
    ]
    if requests:
        yield "Asked", table(("ASK", "ABOUT", "CAME TO", "BY", "WHAT", "ANSWER"), requests)


def _in_order(checks: Iterable[str], results: Iterable[str]) -> list[str]:
    """Return every check, a first try before the second one, then results of checks that are no longer declared."""
    known, found = list(checks), list(results)
    tried = [name for check in known for name in (first_try(check), check) if name == check or name in found]
    return list(dict.fromkeys((*tried, *found)))


def _print_failures(screen: Console, task: TaskView) -> None:
    if not task.failures.total:
        return
    entries = task.failures.entries[-SHOWN_FAILURES:]
    screen.print()
    screen.print(Text(f"Failures ({task.failures.total})", style="bold"))
    for entry in entries:
        where = f"{local(entry.occurred_at)}  {entry.state}  {entry.type}"
        screen.print(Text("✗ ", style="red") + Text(f"{where}  ", style="dim") + line(entry.summary))
        if entry.log_file:
            screen.print(Text(f"  {task.folder}/{entry.log_file}", style="dim"))


def _mark(task: TaskView, status: StageStatus | StepStatus) -> Text:
    """Return the mark of a stage or step; a stopped task has none in progress."""
    is_stopped = has_stopped(task.status) and status.value == "in_progress"
    return MARKS["stopped" if is_stopped else status.value]


def _verdict(task: TaskView, check: str) -> Text:
    result = task.results.get(check)
    return Text(result.verdict.value, style=VERDICTS[result.verdict]) if result else Text("not yet", style="dim")


def _seconds(task: TaskView, check: str) -> str:
    result = task.results.get(check)
    return f"{result.seconds:.1f}s" if result and result.seconds is not None else ""


def _reason(task: TaskView, check: str) -> str:
    result = task.results.get(check)
    return result.reason if result else ""


def why(context: typer.Context, task: TaskName, json: Json = False) -> None:
    """Explain why a task waits, nearest reason first, and what would move it."""
    with context_of(context).client() as client:
        found = client.why(task)
    if json:
        print_json(found)
        return
    screen = console()
    screen.print(
        found.task, status_text(found.status, paused=found.paused, blocked_by=found.blocked_by), "in", found.stage
    )
    for fact in found.facts:
        screen.print(Text(f"  because {plain(fact)}"))
    screen.print(Text(f"  next: {plain(found.next)}", style="bold"))


HEADINGS = ("ID", "STATUS", "STAGE", "DONE", "AGE", "TITLE")
WIDE = ("TICKET", "PIPELINE", "PRIORITY", "CHANGED", "PART OF", "REPOSITORY")
"""Columns that `-o wide` adds."""


def tasks(  # noqa: PLR0913, PLR0917 - one parameter for each option
    context: typer.Context,
    status: Annotated[list[TaskStatus] | None, typer.Option(help="Only tasks with this status; repeatable.")] = None,
    repo: Annotated[Path | None, typer.Option(help="Only tasks of this repository.")] = None,
    pipeline: Annotated[str | None, typer.Option(help="Only tasks of this pipeline.")] = None,
    search: Annotated[str, typer.Option(help="Only tasks whose title, ticket or id has all of these words.")] = "",
    limit: Annotated[int, typer.Option("--limit", "-n", help="How many, newest first.", min=1, max=1000)] = 50,
    all: Annotated[bool, typer.Option("--all", "-a", help="All tasks, including archived ones.")] = False,  # noqa: A002
    output: Annotated[
        Format, typer.Option("--output", "-o", metavar="FORMAT", help="text, json, wide (more columns) or name (ids).")
    ] = Format.TEXT,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only ids, one on each line.")] = False,
    json: Json = False,
) -> None:
    """List tasks, newest first; by default the last fifty that are not archived."""
    wanted = TaskFilter(
        status=tuple(status or ()),
        repo=repo and _top(repo.expanduser().resolve()),
        pipeline=pipeline,
        text=search,
        all=all,
        limit=1000 if all else limit,
    )
    with context_of(context).client() as client:
        page = client.tasks(wanted, every=all)
    if json or output is Format.JSON:
        print_json(page)
        return
    for problem in page.unreadable:
        note(f"unreadable: {problem}")
    if quiet or output is Format.NAME:
        for task in page.tasks:
            typer.echo(task.id)
    elif page.tasks:
        if output is Format.WIDE:
            wide = table((*HEADINGS, *WIDE), [(*_row(task), *_wide(task)) for task in page.tasks], PIPE_WIDTH)
            console().print(wide, width=PIPE_WIDTH, crop=False)
        else:
            console().print(table(HEADINGS, [_row(task) for task in page.tasks]))
    else:
        narrowed = bool(status or repo or pipeline or search)
        note("no task fits" if narrowed else "no tasks; submit one with `orchestrator submit`")
    if page.next_cursor:
        note(f"the newest {len(page.tasks)}; --all lists all of them")


def _top(folder: Path) -> Path:
    """Return the top of the working tree that a folder is in, by which tasks are found; else the folder itself."""
    return next((above for above in (folder, *folder.parents) if (above / ".git").exists()), folder)


def _row(task: TaskLine) -> tuple[Text | str, ...]:
    return (
        task.id,
        status_text(task.status, paused=task.paused, blocked_by=task.blocked_by),
        task.stage,
        "" if task.progress is None else f"{task.progress}%",
        ago(task.created_at),
        task.title,
    )


def _wide(task: TaskLine) -> tuple[Text | str, ...]:
    return (
        task.ticket,
        task.pipeline,
        task.priority or "",
        f"{ago(task.updated_at)} ago",
        task.parent or "",
        task.repo,
    )
