"""`submit` and `import`: submit a ticket, or a workspace that was begun elsewhere, and follow its task on request."""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated
from uuid import uuid4

import typer
from rich.text import Text

from orchestrator.cli.context import Json, UsageError, context_of, has_stopped, parse_options, retry_while_down
from orchestrator.cli.intake.batch import BATCH, read_batch
from orchestrator.cli.output import console, note, plain, print_json, status_text
from orchestrator.cli.parsing.standard_input import is_piped
from orchestrator.cli.request_output import how
from orchestrator.cli.tasks.sources import repository_of
from orchestrator.cli.times import future_time
from orchestrator.core.task.task import Priority, TaskStatus
from orchestrator.core.task.task_policy import Autonomy, OnBlocked
from orchestrator.core.task.ticket import TicketType
from orchestrator.integrations.tickets.text.ticket import readable
from orchestrator.redaction.rules import LARGEST_TEXT
from orchestrator.server.client import Client, DaemonUnreachable
from orchestrator.server.schemas.task_input import ChangeBody, ImportBody, SubmissionBody
from orchestrator.server.schemas.tasks import TaskView

LOOK_EVERY = 1.0
"""Seconds between two looks of `--wait`."""
EMPTY: tuple[object, ...] = (None, "", (), {})
"""What options are that were not given."""
NOT_OF_A_DRAFT = {"repo", "ticket", "again", "no_git", "budget", "issues", "skip_plan", "skip_execute"}
"""Options that a draft keeps as it was created; `orchestrator budget` changes its caps."""


def _of_mode(pipeline: str | None, mode: str | None) -> str | None:
    """Return the name of a pipeline of that mode: their names begin with that of the pipeline that has modes."""
    if mode is None:
        return pipeline
    if pipeline is None:
        raise UsageError("--mode needs --pipeline: name the pipeline whose mode it is, for example --pipeline work")
    return f"{pipeline}-{mode}"


def named_checks(texts: Sequence[str]) -> dict[str, str]:
    checks: dict[str, str] = {}
    for text in texts:
        name, equals, command = (part.strip() for part in text.partition("="))
        if not (name and equals and command):
            raise UsageError(f"{text!r} is not a check; write NAME=COMMAND, for example tests='pytest -q'")
        if name in checks:
            raise UsageError(f"the check {name!r} is given twice; use different names")
        checks[name] = command
    return checks


TicketText = Annotated[
    str | None,
    typer.Argument(
        metavar="TEXT",
        help="What to do, or a ticket on a tracker: ABC-123, owner/repo#12, or its address; - or none: standard input.",
    ),
]
Repository = Annotated[
    str,
    typer.Option(
        "--repo", "-C", metavar="PATH|URL", help="The git repository; default: the current one.", show_default=False
    ),
]
Pipeline = Annotated[str | None, typer.Option(metavar="NAME", help="The pipeline; default: by the type of the ticket.")]
Mode = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The mode of the pipeline: --pipeline work --mode direct means work-direct."),
]
Type = Annotated[TicketType | None, typer.Option("--type", help="The type of work; default: what the ticket says.")]
Who = Annotated[Priority | None, typer.Option(help="The priority; default: what the ticket says, else normal.")]
Checks = Annotated[
    list[str] | None, typer.Option(metavar="NAME=COMMAND", help="A command that judges the work; repeatable.")
]
Auto = Annotated[
    bool | None,
    typer.Option("--auto/--interactive", help="Whether agents decide without asking people; default: by the ticket."),
]
OnFailure = Annotated[
    OnBlocked | None,
    typer.Option(
        metavar="WHAT",
        help="When every try is used up: halt, one last pass with less scope, or fail; default: halt if it may ask.",
    ),
]
Merge = Annotated[
    bool | None,
    typer.Option(
        "--auto-merge/--no-auto-merge", help="Whether it merges by itself when it may; default: as in the settings."
    ),
]
Issues = Annotated[
    str | None,
    typer.Option(
        "--issues",
        metavar="SOURCE",
        help="A batch: a file of JSON lines, the folder of an earlier one, or on GitHub: 'owner/repo label:bug words'.",
    ),
]
Draft = Annotated[
    str | None,
    typer.Option("--task", metavar="TASK", help="Submit this draft, with these changes; with --draft only change it."),
]
StartTime = Annotated[
    datetime | None,
    typer.Option("--at", metavar="TIME", parser=future_time, help="Start no earlier: +2h, 22:00, 'tomorrow 22:00'."),
]


def submit(  # noqa: PLR0913, PLR0917 - one parameter for each option
    context: typer.Context,
    text: TicketText = None,
    file: Annotated[Path | None, typer.Option("--file", "-F", help="Read the text from a file.")] = None,
    title: Annotated[str, typer.Option("--title", "-t", help="The title; default: the first line of the text.")] = "",
    repo: Repository = ".",
    pipeline: Pipeline = None,
    mode: Mode = None,
    type_: Type = None,
    ticket: Annotated[str | None, typer.Option(metavar="KEY", help="The ticket's key, such as ABC-123.")] = None,
    base: Annotated[str | None, typer.Option(metavar="BRANCH", help="The branch to start from; default: HEAD.")] = None,
    priority: Who = None,
    after: Annotated[list[str] | None, typer.Option(metavar="TASK", help="Start when this task is completed.")] = None,
    at: StartTime = None,
    check: Checks = None,
    auto: Auto = None,
    on_blocked: OnFailure = None,
    auto_merge: Merge = None,
    budget: Annotated[float | None, typer.Option(metavar="USD", help="What it may cost at most.", min=0.01)] = None,
    again: Annotated[bool, typer.Option("--again", help="Even if the ticket has an active task here.")] = False,
    issues: Issues = None,
    skip_plan: Annotated[bool, typer.Option("--skip-plan", help="A batch: carry out the solutions it has.")] = False,
    skip_execute: Annotated[bool, typer.Option("--skip-execute", help="A batch: plan, and carry out nothing.")] = False,
    no_git: Annotated[bool, typer.Option("--no-git", help="The folder has no repository, and gets none.")] = False,
    draft: Annotated[bool, typer.Option("--draft", help="Keep it as a draft; --task submits it.")] = False,
    task: Draft = None,
    wait: Annotated[bool, typer.Option("--wait", help="Follow the task to its end.")] = False,
    json: Json = False,
) -> int:
    """Submit a ticket, a batch of issues, or a draft. A text that begins with - is given after --.

    With --wait, the exit code is 0 if the task was completed, and 1 otherwise.
    """
    _refuse_for_drafts(context, draft=draft, task=task, wait=wait)
    if issues is not None and text is None and file is None:
        text, pipeline = f"Issues of {issues}", pipeline or BATCH
    given = {
        **read_batch(issues, skip_plan=skip_plan, skip_execute=skip_execute),
        "text": ticket_text(text, file) if task is None or text or file else None,
        "repo": repository_of(context, repo),
        "title": title,
        "pipeline": _of_mode(pipeline, mode),
        "type": type_,
        "ticket": ticket,
        "base": base,
        "priority": priority,
        "after": tuple(after or ()),
        "at": at,
        "checks": named_checks(check or ()),
        "autonomy": None if auto is None else Autonomy.AUTO if auto else Autonomy.INTERACTIVE,
        "on_blocked": on_blocked,
        "auto_merge": auto_merge,
        "usd": budget,
        "again": again,
        "no_git": no_git,
        "draft": draft,
    }
    return _submit(context, _sending(given, task, stays=draft), wait=wait, json=json)


def import_(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder with the state.json.")],
    base: Annotated[str | None, typer.Option(metavar="BRANCH", help="What its branch was begun from.")] = None,
    json: Json = False,
) -> None:
    """Take over a live .coding-agent/tickets/… workspace: a task continues it in its stage.

    Its branch, its commits and its files stay as they are; the task works on a branch of its own that begins there.
    """
    body = parse_options(ImportBody, {"folder": folder.expanduser().absolute(), "base": base})
    _submit(context, lambda client: client.take_over(body, uuid4().hex), wait=False, json=json)


def _refuse_for_drafts(context: typer.Context, *, draft: bool, task: str | None, wait: bool) -> None:
    """Raise UsageError if an option is given that a draft cannot take."""
    if draft and wait:
        raise UsageError(
            "a draft does not start; submit it later with `orchestrator submit --task ID`, then with --wait"
        )
    sources = {name: context.get_parameter_source(name) for name in NOT_OF_A_DRAFT if task is not None}
    fixed = next((name for name, source in sorted(sources.items()) if source and source.name == "COMMANDLINE"), None)
    if fixed is not None:
        raise UsageError(
            f"--{fixed.replace('_', '-')} of a draft cannot be changed; leave it out, or submit a new ticket"
        )


def _sending(given: Mapping[str, object], task: str | None, *, stays: bool) -> Callable[[Client], TaskView]:
    """Return what sends a submission, or the changes of a draft."""
    if task is not None:
        changes = {name: given[name] for name in given if name in ChangeBody.model_fields and given[name] not in EMPTY}
        return partial(_change, task, changes, stays=stays)
    body = parse_options(SubmissionBody, dict(given))
    return lambda client: client.submit(body, uuid4().hex)


def _change(task: str, changes: Mapping[str, object], client: Client, *, stays: bool) -> TaskView:
    """Change a draft, and submit it unless it stays one."""
    found = client.change(task, parse_options(ChangeBody, changes)) if changes else client.task(task)
    if stays and not changes:
        raise UsageError("say what to change of the draft, for example --title T, or leave out --draft to submit it")
    return found if stays else client.request(found.id, "submit")


def _submit(context: typer.Context, send: Callable[[Client], TaskView], *, wait: bool, json: bool) -> int:
    """Submit it, print its id, follow it on request, and return the exit code."""
    with context_of(context).client() as client:
        task = send(client)
        if not json:
            console().print(task.id)
        if task.ticket.preflight and task.ticket.preflight.env_unset:
            unset = ", ".join(task.ticket.preflight.env_unset)
            note(f"MCP servers of its agents may not start: {unset} not set; add them to pass_env or env in [agent]")
        if task.paused and not json:
            note("it is paused, because all tasks are paused: orchestrator resume --all")
        with suppress(DaemonUnreachable):  # it is submitted, whether or not the daemon can say more
            _say_why_it_waits(client, task, json=json)
        if wait:
            task = _awaited(client, task, quiet=json)
    if json:
        print_json(task)
    elif task.status is TaskStatus.DRAFT:
        note(f"look at it: orchestrator show {task.id}    submit it: orchestrator submit --task {task.id}")
    elif not wait:
        note(f"follow it: orchestrator logs {task.id} -f    look at it: orchestrator show {task.id}")
    return int(wait and task.status is not TaskStatus.COMPLETED)


def _say_why_it_waits(client: Client, task: TaskView, *, json: bool) -> None:
    if task.status is not TaskStatus.DRAFT and (trouble := client.status().trouble):
        note(f"it waits, because no agent can work: {trouble}")
    if task.status is TaskStatus.PENDING and not json:
        _say_when(client, task)


def _say_when(client: Client, task: TaskView) -> None:
    """Say when a task starts that has a time to wait for, or whose run window is closed."""
    if task.start_at is not None and task.start_at > datetime.now(UTC):
        note(
            f"it starts at {task.start_at.astimezone():%Y-%m-%d %H:%M %Z}; orchestrator resume {task.id} --now: at once"
        )
    elif any(not one.is_open for one in client.status().run_windows):
        for fact in client.why(task.id).facts:
            if fact.startswith("its run window "):
                note(f"it waits: {fact}")


def ticket_text(text: str | None, file: Path | None) -> str:
    """Return the ticket's text, read no further than the size limit of a ticket."""
    if text is None and file is None and is_piped():
        text = "-"
    if (text is None) == (file is None):
        raise UsageError("give the ticket once: as TEXT, with --file F, or on standard input")
    if file is None and text != "-":
        return readable(text or "", "the text")
    try:
        if file is None:
            return readable(_decoded(sys.stdin.buffer.read(LARGEST_TEXT + 1)), "standard input")
        with file.expanduser().open("rb") as opened:
            return readable(_decoded(opened.read(LARGEST_TEXT + 1)), str(file))
    except OSError as error:
        raise UsageError(f"{file or 'standard input'} cannot be read: {error.strerror}") from error


def _decoded(content: bytes) -> str:
    """Return the text, with surrogates for bytes that are not UTF-8."""
    return content.decode("utf-8", "surrogateescape")


def _awaited(client: Client, task: TaskView, *, quiet: bool) -> TaskView:
    """Return the task when it has stopped; say on Ctrl-C that it goes on."""
    try:
        return _followed(client, task, quiet=quiet)
    except KeyboardInterrupt:
        note(f"{task.id} goes on; follow it: orchestrator logs {task.id} -f    end it: orchestrator cancel {task.id}")
        raise


def _followed(client: Client, task: TaskView, *, quiet: bool) -> TaskView:
    """Return the task when it has stopped; print each change of status, stage and step."""
    screen, before = console(), ""
    while True:
        step = f" step {task.agent.current_step} of {len(task.steps)}" if task.agent.current_step else ""
        now = f"  {task.stage}{step}  {task.progress}%"
        state = now + task.status + (task.agent.blocked_by or "")
        if not quiet and state != before:
            screen.print(status_text(task.status, paused=task.paused, blocked_by=task.agent.blocked_by) + Text(now))
            before = state
            for request in task.waiting:
                note(how(request))
        if has_stopped(task.status):
            if not quiet:
                screen.print(Text(plain(task.closing or "")))
            return task
        time.sleep(LOOK_EVERY)
        task = retry_while_down(partial(client.task, task.id))
