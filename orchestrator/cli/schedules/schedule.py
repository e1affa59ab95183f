"""`schedule add|edit|list|show|pause|resume|run|remove`: tasks that are submitted again and again."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated
from zoneinfo import ZoneInfo

import typer
from rich.text import Text
from tzlocal import get_localzone_name

from orchestrator.cli.commands.submit import (
    Auto,
    Checks,
    Merge,
    OnFailure,
    Pipeline,
    TicketText,
    Type,
    Who,
    named_checks,
    ticket_text,
)
from orchestrator.cli.context import Json, UsageError, context_of, parse_options
from orchestrator.cli.output import console, facts, local, note, plain, print_json, table, to_minute
from orchestrator.cli.schedules.batch import Ask, ask_schedules, find_schedule
from orchestrator.core.schedule.recurring import Missed, Overlap, RunResult
from orchestrator.core.schedule.run_windows import span_to
from orchestrator.core.task.task_policy import Autonomy
from orchestrator.formats.person import person_name
from orchestrator.server.access.schedules import ScheduleClient
from orchestrator.server.schemas.intake.schedules import (
    ScheduleBody,
    ScheduleChangeBody,
    ScheduledRunView,
    ScheduleView,
)

HEADINGS = ("NAME", "WHEN", "ZONE", "NEXT", "IN", "LAST", "RESULT", "TITLE")
RUN_HEADINGS = ("DUE", "RESULT", "TASK", "WHY")

NAME_HELP = "A schedule's name, or any part of it that no other has."
Name = Annotated[str, typer.Argument(metavar="NAME", help=NAME_HELP, show_default=False)]
Names = Annotated[
    list[str], typer.Argument(metavar="NAME...", help=f"{NAME_HELP} Several may be given.", show_default=False)
]
Repository = Annotated[
    Path, typer.Option("--repo", "-C", help="The git repository; default: the current one.", show_default=False)
]

File = Annotated[Path | None, typer.Option("--file", "-F", help="Read the text from a file.")]
Base = Annotated[str | None, typer.Option(metavar="BRANCH", help="The branch to start from; default: HEAD.")]
Budget = Annotated[float | None, typer.Option(metavar="USD", help="What each task may cost.", min=0.01)]
OVERLAP_HELP = "While its last task has not ended: refuse another one, or queue it."
MISSED_HELP = "Times at which the daemon was down: tell them, or make up for them once."


class Unset(StrEnum):
    """Options of a schedule that can be taken back, so that it is as if they had not been given."""

    TITLE = "title"
    PIPELINE = "pipeline"
    TYPE = "type"
    BASE = "base"
    PRIORITY = "priority"
    CHECK = "check"
    AUTO = "auto"
    ON_BLOCKED = "on-blocked"
    AUTO_MERGE = "auto-merge"
    BUDGET = "budget"


UNSET: Mapping[Unset, tuple[str, object]] = {
    Unset.TITLE: ("title", ""),
    Unset.PIPELINE: ("pipeline", None),
    Unset.TYPE: ("type", None),
    Unset.BASE: ("base", None),
    Unset.PRIORITY: ("priority", None),
    Unset.CHECK: ("checks", {}),
    Unset.AUTO: ("autonomy", None),
    Unset.ON_BLOCKED: ("on_blocked", None),
    Unset.AUTO_MERGE: ("auto_merge", None),
    Unset.BUDGET: ("usd", None),
}
"""Fields of a schedule without such an option."""

schedule = typer.Typer(no_args_is_help=True, help="Submit tasks again and again, at the times of a line of crontab.")


@schedule.command(epilog="Example: [bold]orchestrator schedule add '0 22 * * 1-5' 'Remove dead code'[/bold]")
def add(  # noqa: PLR0913, PLR0917 - one parameter for each option
    context: typer.Context,
    line: Annotated[
        str,
        typer.Argument(
            metavar="LINE",
            help="Minute, hour, day, month and day of the week: '0 22 * * 1-5', or @daily.",
            show_default=False,
        ),
    ],
    text: TicketText = None,
    file: File = None,
    name: Annotated[str, typer.Option(help="Its name; default: after the title.")] = "",
    zone: Annotated[str, typer.Option(help="The time zone of the line; default: yours.")] = "",
    overlap: Annotated[Overlap, typer.Option(help=OVERLAP_HELP)] = Overlap.REFUSE,
    missed: Annotated[Missed, typer.Option(help=MISSED_HELP)] = Missed.TELL,
    title: Annotated[str, typer.Option("--title", "-t", help="The title; default: the first line of the text.")] = "",
    repo: Repository = Path(),
    pipeline: Pipeline = None,
    type_: Type = None,
    base: Base = None,
    priority: Who = None,
    check: Checks = None,
    auto: Auto = None,
    on_blocked: OnFailure = None,
    auto_merge: Merge = None,
    budget: Budget = None,
    no_git: Annotated[bool, typer.Option("--no-git", help="The folder has no repository, and gets none.")] = False,
    json: Json = False,
) -> None:
    """Submit a task whenever the line is due. It is refused now if such a task would be."""
    given = {
        "line": line,
        "text": ticket_text(text, file),
        "name": name,
        "zone": zone or get_localzone_name() or "UTC",
        "overlap": overlap,
        "missed": missed,
        "title": title,
        "repo": repo.expanduser().absolute(),
        "pipeline": pipeline,
        "type": type_,
        "base": base,
        "priority": priority,
        "checks": named_checks(check or ()),
        "autonomy": _autonomy(auto),
        "on_blocked": on_blocked,
        "auto_merge": auto_merge,
        "usd": budget,
        "no_git": no_git,
    }
    body = parse_options(ScheduleBody, given)
    with context_of(context).client() as client:
        made = ScheduleClient(client).add(body)
        same = [one.name for one in ScheduleClient(client).listed().schedules if _does_the_same(one, made)]
    _show_added(made, same, json=json)


@schedule.command(epilog="Example: [bold]orchestrator schedule edit remove-dead-code --line '0 4 * * sat'[/bold]")
def edit(  # noqa: PLR0913, PLR0917 - one parameter for each option
    context: typer.Context,
    name: Name,
    line: Annotated[
        str | None, typer.Option("--line", "--at", metavar="LINE", help="When, as in crontab: '0 22 * * 1-5'.")
    ] = None,
    text: Annotated[str | None, typer.Option(metavar="TEXT", help="What to do; - for standard input.")] = None,
    file: File = None,
    zone: Annotated[str | None, typer.Option(help="The time zone of the line.")] = None,
    overlap: Annotated[Overlap | None, typer.Option(help=OVERLAP_HELP)] = None,
    missed: Annotated[Missed | None, typer.Option(help=MISSED_HELP)] = None,
    title: Annotated[str | None, typer.Option("--title", "-t", help="The title.")] = None,
    repo: Annotated[Path | None, typer.Option("--repo", "-C", help="The git repository.")] = None,
    pipeline: Pipeline = None,
    type_: Type = None,
    base: Base = None,
    priority: Who = None,
    check: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=COMMAND", help="A command that judges the work; these replace all that it had."),
    ] = None,
    auto: Auto = None,
    on_blocked: OnFailure = None,
    auto_merge: Merge = None,
    budget: Budget = None,
    no_git: Annotated[bool | None, typer.Option("--no-git/--git", help="Whether the folder has no repository.")] = None,
    unset: Annotated[list[Unset] | None, typer.Option(help="As if this option had not been given; repeatable.")] = None,
    json: Json = False,
) -> None:
    """Change what a schedule submits and when; whatever is not given stays. Its tasks and its record stay too."""
    given = {
        "line": line,
        "text": None if text is None and file is None else ticket_text(text, file),
        "zone": zone,
        "overlap": overlap,
        "missed": missed,
        "title": title,
        "repo": repo and repo.expanduser().absolute(),
        "pipeline": pipeline,
        "type": type_,
        "base": base,
        "priority": priority,
        "checks": named_checks(check) if check else None,
        "autonomy": _autonomy(auto),
        "on_blocked": on_blocked,
        "auto_merge": auto_merge,
        "usd": budget,
        "no_git": no_git,
    }
    body = _changes({name: value for name, value in given.items() if value is not None}, unset or ())
    with context_of(context).client() as client:
        schedules = ScheduleClient(client)
        changed = schedules.change(find_schedule(schedules, name).name, body)
    if json:
        print_json(changed)
    else:
        console().print(plain(f"{changed.name} is changed; its next task is due {_next(changed)}"), soft_wrap=True)


def _changes(given: Mapping[str, object], unset: Sequence[Unset]) -> ScheduleChangeBody:
    """Return what changes of a schedule. Raises UsageError."""
    left_out = dict(UNSET[one] for one in unset)
    if both := [one.value for one in unset if UNSET[one][0] in given]:
        raise UsageError(f"--{both[0]} is given and unset; give one of the two")
    if not given and not left_out:
        raise UsageError("give what is to change, for example --line '0 4 * * sat'; `--help` lists every option")
    return parse_options(ScheduleChangeBody, {**given, **left_out})


def _autonomy(auto: bool | None) -> Autonomy | None:
    return None if auto is None else Autonomy.AUTO if auto else Autonomy.INTERACTIVE


def _show_added(made: ScheduleView, same: Sequence[str], *, json: bool) -> None:
    if json:
        print_json(made)
    else:
        console().print(plain(f"{made.name}: its first task is due {_next(made)}"), soft_wrap=True)
    if same:
        note(
            f"{', '.join(same)} submits the same task at the same times: both will; "
            f"`orchestrator schedule remove {made.name}` takes this one back"
        )


@schedule.command("list", epilog="Example: [bold]orchestrator schedule list[/bold]")
def list_(context: typer.Context, json: Json = False) -> None:
    """List every schedule with its next time, and what became of the last one."""
    with context_of(context).client() as client:
        found = ScheduleClient(client).listed()
    if json:
        print_json(found)
    elif found.schedules:
        console().print(table(HEADINGS, [_row(one) for one in found.schedules]))
    else:
        note("there is no schedule; `orchestrator schedule add` makes one")


@schedule.command(epilog="Example: [bold]orchestrator schedule show remove-dead-code[/bold]")
def show(context: typer.Context, name: Name, json: Json = False) -> None:
    """Show a schedule and what became of its last times, newest first."""
    with context_of(context).client() as client:
        found = find_schedule(ScheduleClient(client), name)
    if json:
        print_json(found)
        return
    rows = [
        ("when", f"{found.line} {found.zone}"),
        ("next", _next(found)),
        ("overlap", found.overlap.value),
        ("missed", found.missed.value),
        ("title", plain(_title(found))),
        ("repository", plain(found.repo)),
        ("pipeline", found.pipeline),
        ("added", f"{local(found.created_at)} by {plain(person_name(found.created_by))}"),
        ("paused by", found.paused_by and plain(person_name(found.paused_by))),
    ]
    screen = console()
    screen.print(facts(rows))
    if found.runs:
        screen.print()
        screen.print(table(RUN_HEADINGS, [_run_row(one) for one in found.runs]))


@schedule.command(epilog="Example: [bold]orchestrator schedule pause remove-dead-code[/bold]")
def pause(context: typer.Context, name: Names, json: Json = False) -> int:
    """Submit no more tasks of a schedule until it is resumed; tasks that exist go on."""
    return ask_schedules(context, name, _request("pause"), lambda one: f"{one.name} is paused", json=json)


@schedule.command(epilog="Example: [bold]orchestrator schedule resume remove-dead-code[/bold]")
def resume(context: typer.Context, name: Names, json: Json = False) -> int:
    """Submit tasks of a schedule again. What was due while it was paused is not made up for."""
    return ask_schedules(
        context, name, _request("resume"), lambda one: f"{one.name}: its next task is due {_next(one)}", json=json
    )


@schedule.command(epilog="Example: [bold]orchestrator schedule run remove-dead-code[/bold]")
def run(context: typer.Context, name: Names, json: Json = False) -> int:
    """Submit a task of a schedule now, as well as at its times."""
    return ask_schedules(context, name, _request("run"), _newest_task, json=json)


@schedule.command(epilog="Example: [bold]orchestrator schedule remove remove-dead-code[/bold]")
def remove(context: typer.Context, name: Names, json: Json = False) -> int:
    """Remove a schedule; the tasks that it submitted stay."""
    return ask_schedules(
        context, name, ScheduleClient.remove, lambda one: f"{one.name} is removed; its tasks stay", json=json
    )


def _request(action: str) -> Ask:
    return lambda client, name: client.request(name, action)


def _newest_task(one: ScheduleView) -> str:
    return next((run.task for run in one.runs if run.task), None) or one.name


def _does_the_same(one: ScheduleView, made: ScheduleView) -> bool:
    """Return whether another schedule submits the same task at the same times."""
    return one.name != made.name and _work_and_times(one) == _work_and_times(made)


def _work_and_times(one: ScheduleView) -> tuple[object, ...]:
    return one.line, one.zone, one.repo, one.pipeline, _title(one)


def _title(one: ScheduleView) -> str:
    return one.title or one.text.splitlines()[0]


def _row(one: ScheduleView) -> tuple[Text | str, ...]:
    last = next(iter(one.runs), None)
    result = _result(last) if last else ""
    when = (to_minute(last.due) or "") if last else "never"
    following, _, span = _next(one).partition(", ")
    return plain(one.name), one.line, one.zone, following, span, when, result, plain(_title(one))


def _next(one: ScheduleView) -> str:
    """Return when its next task is due, by the clocks of its zone."""
    if one.next_at is None:
        return "paused"
    at = one.next_at.astimezone(ZoneInfo(one.zone))
    return f"{at:%a %Y-%m-%d %H:%M}, {span_to(one.next_at, datetime.now(UTC))}"


def _run_row(one: ScheduledRunView) -> tuple[Text | str, ...]:
    return local(one.due) or "", _result(one), one.task or "", plain(one.reason)


def _result(one: ScheduledRunView) -> Text:
    times = f" {one.count} times" if one.count > 1 else ""
    return Text(one.result.value + times, style="green" if one.result is RunResult.SUBMITTED else "bold yellow")
