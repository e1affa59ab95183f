"""`submit`: hand in a ticket, and follow it if asked."""

import sys
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Annotated
from uuid import uuid4

import typer
from rich.text import Text

from orchestrator.cli.context import Json, UsageError, context_of, parse_options
from orchestrator.cli.output import console, note, plain, print_json, status_text
from orchestrator.cli.reconnect import moves_no_more, retry_while_down
from orchestrator.cli.request_output import how
from orchestrator.core.task.task import Priority, TaskStatus
from orchestrator.core.task.task_policy import Autonomy, OnBlocked
from orchestrator.core.task.ticket import TicketType
from orchestrator.integrations.tickets.text.ticket import readable
from orchestrator.redaction.rules import LARGEST_TEXT
from orchestrator.server.client import Client
from orchestrator.server.schemas.task_input import SubmissionBody
from orchestrator.server.schemas.tasks import TaskView

LOOK_EVERY = 1.0
"""Seconds between two looks of `--wait`."""
WITH_A_DRAFT = {"task", "wait", "json"}
"""What can be said when a draft is sent off."""


def _moment(text: str) -> datetime:
    """A time that a person gave: ISO 8601, or HH:MM for the next time the clock here says so."""
    now = datetime.now().astimezone()
    try:
        if len(text) == len("HH:MM"):
            clock = datetime.strptime(text, "%H:%M")  # noqa: DTZ007 - only its hour and minute are taken
            at = now.replace(hour=clock.hour, minute=clock.minute, second=0, microsecond=0)
            return at if at > now else (at + timedelta(days=1))
        at = datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise typer.BadParameter(f"{text!r} is no time; write 22:30 or 2026-05-28T22:30") from None
    if at <= now:
        raise typer.BadParameter(f"{text!r} is over; give a time to come, or leave --at out to begin at once")
    return at


def _checks(texts: Sequence[str]) -> dict[str, str]:
    checks: dict[str, str] = {}
    for text in texts:
        name, equals, command = (part.strip() for part in text.partition("="))
        if not (name and equals and command):
            raise UsageError(f"{text!r} is no check; write NAME=COMMAND, for example tests='pytest -q'")
        if name in checks:
            raise UsageError(f"the check {name!r} is given twice; give each a name of its own")
        checks[name] = command
    return checks


TicketText = Annotated[
    str | None,
    typer.Argument(
        metavar="TEXT",
        help="What is to be done, or a ticket on a tracker: ABC-123, owner/repo#12, its address; - reads from "
        "standard input.",
    ),
]
Pipeline = Annotated[
    str | None, typer.Option(metavar="NAME", help="Which pipeline the task walks through; default: by its type.")
]
Type = Annotated[
    TicketType | None, typer.Option("--type", help="What kind of work it is; default: what the ticket says.")
]
Who = Annotated[Priority | None, typer.Option(help="Who goes first; default: what the ticket says, else normal.")]
Checks = Annotated[
    list[str] | None, typer.Option(metavar="NAME=COMMAND", help="What the work is judged by; repeatable.")
]
Auto = Annotated[
    bool | None,
    typer.Option("--auto/--interactive", help="Whether it answers itself what a person could; default: by the ticket."),
]
OnFailure = Annotated[
    OnBlocked | None,
    typer.Option(help="When every evaluation has failed: halt, or try less once more; default: halt if it may ask."),
]
Merge = Annotated[
    bool | None,
    typer.Option(
        "--auto-merge/--no-auto-merge", help="Whether it merges itself once it may; default: as the settings say."
    ),
]
Draft = Annotated[str | None, typer.Option("--task", metavar="TASK", help="Send off this draft, and nothing else.")]


def submit(  # noqa: PLR0913, PLR0917 - one parameter for each option
    context: typer.Context,
    text: TicketText = None,
    file: Annotated[Path | None, typer.Option("--file", "-F", help="Read the text from a file.")] = None,
    title: Annotated[str, typer.Option("--title", "-t", help="Default: the first line of the text.")] = "",
    repo: Annotated[Path, typer.Option("--repo", "-C", help="The git repository; default: the one here.")] = Path(),
    pipeline: Pipeline = None,
    type_: Type = None,
    ticket: Annotated[str | None, typer.Option(metavar="KEY", help="The ticket's key, such as ABC-123.")] = None,
    base: Annotated[str | None, typer.Option(metavar="BRANCH", help="Where to begin; default: HEAD.")] = None,
    priority: Who = None,
    after: Annotated[list[str] | None, typer.Option(metavar="TASK", help="Begin when that one is done.")] = None,
    at: Annotated[datetime | None, typer.Option(metavar="TIME", parser=_moment, help="Not before then.")] = None,
    check: Checks = None,
    auto: Auto = None,
    on_blocked: OnFailure = None,
    auto_merge: Merge = None,
    budget: Annotated[float | None, typer.Option(metavar="USD", help="What it may cost at most.", min=0.01)] = None,
    again: Annotated[bool, typer.Option("--again", help="Even if a task of the same ticket is at work here.")] = False,
    draft: Annotated[bool, typer.Option("--draft", help="Keep it until it is sent off with --task.")] = False,
    task: Draft = None,
    wait: Annotated[bool, typer.Option("--wait", help="Follow the task to its end.")] = False,
    json: Json = False,
) -> int:
    """Hand in a ticket, or send a draft off. A text that begins with - goes after --.

    With --wait the exit code says how the task ended: 0 completed, 1 anything else.
    """
    if draft and (wait or task is not None):
        raise UsageError("a draft waits for you; send it off with `orchestrator submit --task ID`, there with --wait")
    if task is not None:
        _alone(context)
        return _handed_in(context, lambda client: client.ask(task, "submit"), wait=wait, json=json)
    given = {
        "text": _ticket(text, file),
        "repo": repo.expanduser().absolute(),
        "title": title,
        "pipeline": pipeline,
        "type": type_,
        "ticket": ticket,
        "base": base,
        "priority": priority,
        "after": tuple(after or ()),
        "at": at,
        "checks": _checks(check or ()),
        "autonomy": None if auto is None else Autonomy.AUTO if auto else Autonomy.INTERACTIVE,
        "on_blocked": on_blocked,
        "auto_merge": auto_merge,
        "usd": budget,
        "again": again,
        "draft": draft,
    }
    body = parse_options(SubmissionBody, given)
    return _handed_in(context, lambda client: client.submit(body, uuid4().hex), wait=wait, json=json)


def _alone(context: typer.Context) -> None:
    """Refuse what would be said in vain to a draft. Raises UsageError."""
    sources = {name: context.get_parameter_source(name) for name in context.params if name not in WITH_A_DRAFT}
    given = next((name for name, source in sources.items() if source and source.name == "COMMANDLINE"), None)
    if given is not None:
        word = "TEXT" if given == "text" else f"--{given.rstrip('_')}"
        raise UsageError(f"a draft is sent off as it was handed in; leave {word} out, or hand it in anew")


def _handed_in(context: typer.Context, hand_in: Callable[[Client], TaskView], *, wait: bool, json: bool) -> int:
    """Hand it in, say what it is called, and follow it if asked; the exit code."""
    with context_of(context).client() as client:
        task = hand_in(client)
        if not json:
            console().print(task.id)
        if task.ticket.preflight and task.ticket.preflight.env_unset:
            unset = ", ".join(task.ticket.preflight.env_unset)
            note(f"servers of its agents may not start: {unset} not set; add them to pass_env or env in [agent]")
        if task.paused and not json:
            note("it stands still, for all tasks are paused: orchestrator resume --all")
        if wait:
            task = _followed(client, task, quiet=json)
    if json:
        print_json(task)
    elif task.status is TaskStatus.DRAFT:
        note(f"look at it: orchestrator show {task.id}    send it off: orchestrator submit --task {task.id}")
    elif not wait:
        note(f"follow it: orchestrator logs {task.id} -f    look at it: orchestrator show {task.id}")
    return int(wait and task.status is not TaskStatus.COMPLETED)


def _ticket(text: str | None, file: Path | None) -> str:
    """The ticket's text from wherever it is given, read no further than a ticket may be long."""
    if (text is None) == (file is None):
        raise UsageError("give the ticket once: as TEXT, with --file F, or as - for standard input")
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
    """The text in which bytes that are no UTF-8 can still be told."""
    return content.decode("utf-8", "surrogateescape")


def _followed(client: Client, task: TaskView, *, quiet: bool) -> TaskView:
    """The task at its end; on the way each change of status, stage and step is told."""
    screen, before = console(), ""
    while True:
        step = f" step {task.agent.current_step} of {len(task.steps)}" if task.agent.current_step else ""
        now = f"  {task.stage}{step}  {task.progress}%"
        state = now + task.status + (task.agent.blocked_by or "")
        if not quiet and state != before:
            screen.print(status_text(task.status, paused=task.paused, blocked_by=task.agent.blocked_by) + Text(now))
            before = state
            for ask in task.waiting:
                note(how(ask))
        if moves_no_more(task.status):
            if not quiet:
                screen.print(Text(plain(task.closing or "")))
            return task
        time.sleep(LOOK_EVERY)
        task = retry_while_down(partial(client.task, task.id))
