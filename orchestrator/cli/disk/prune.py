"""`prune`: remove files of ended tasks that may go, after showing which, by which rule, and what stays and why."""

import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import typer

from orchestrator.cli.context import Json, UsageError, context_of
from orchestrator.cli.output import ago, console, note, print_json, table
from orchestrator.cli.times import past_time
from orchestrator.core.retention.plan import Action
from orchestrator.core.retention.policy import Kind
from orchestrator.core.retention.words import size_in_words
from orchestrator.formats.codec import Json as Document
from orchestrator.formats.codec import stamp
from orchestrator.server.client import Client
from orchestrator.server.schemas.base import to_view
from orchestrator.server.schemas.oversight.disk import KeptView, PruneView, RemovalView

SHOWN = 40
"""How many rows of each table are shown; --json has them all."""


def prune(  # noqa: PLR0913, PLR0917 - one parameter for each option
    context: typer.Context,
    tasks: Annotated[list[str] | None, typer.Argument(metavar="TASK...", help="Only files of these tasks.")] = None,
    older_than: Annotated[
        datetime | None,
        typer.Option(metavar="AGE", parser=past_time, help="Used last before that: 30d, 12h; default: the settings."),
    ] = None,
    kind: Annotated[
        list[Kind] | None, typer.Option("--kind", help="Only files of this kind; may be given several times.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be removed, and remove nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    json: Json = False,
) -> None:
    """Remove files of ended tasks. What exists nowhere else stays, and is named with the reason.

    Without --older-than the section `retention` of the settings decides. Refused texts and whole tasks go only if their
    kind is named, or their own settings say so.
    """
    wanted: dict[str, Document] = {
        "before": stamp(older_than) if older_than else None,
        "kinds": [one.value for one in kind or ()],
        "tasks": list(tasks or ()),
    }
    with context_of(context).client() as client:
        prune_wanted(client, wanted, ask=not yes, dry_run=dry_run, json=json)


def prune_wanted(client: Client, wanted: dict[str, Document], *, ask: bool, json: bool, dry_run: bool = False) -> None:
    """Show what would be removed and what stays, ask if wanted, and remove it; `wanted` is the body of a request."""
    planned = _asked(client, wanted, dry_run=True)
    if not json:
        _show(planned)
    if dry_run or not planned.removed:
        if json:
            print_json(planned)
        return
    if ask and not _confirmed(planned):
        note("nothing was removed")
        return
    _carry_out(client, wanted, json=json)


def _carry_out(client: Client, wanted: dict[str, Document], *, json: bool) -> None:
    """Let the daemon remove what may go, as often as there is more."""
    rounds = [_asked(client, wanted, dry_run=False)]
    while rounds[-1].more and rounds[-1].removed:
        rounds.append(_asked(client, wanted, dry_run=False))
    removed = tuple(one for found in rounds for one in found.removed)
    freed = sum(found.freed for found in rounds)
    if json:
        print_json(rounds[-1].model_copy(update={"removed": removed, "freed": freed}))
    else:
        console().print(f"{len(removed):,} items removed or compressed, {size_in_words(freed)} are free again")


def _asked(client: Client, wanted: dict[str, Document], *, dry_run: bool) -> PruneView:
    return to_view(PruneView, client.exchange("POST", "/api/disk/prune", {**wanted, "dryRun": dry_run}), str)


def _show(planned: PruneView) -> None:
    screen = console()
    if planned.removed:
        screen.print(table(("WHAT", "SIZE", "USED", "TASK", "RULE"), map(_removal, planned.removed[:SHOWN])))
        _say_rest(planned.removed, "more would go too")
    if planned.kept:
        screen.print()
        screen.print(table(("KEPT", "SIZE", "USED", "TASK", "WHY"), map(_kept, planned.kept[:SHOWN])))
        _say_rest(range(planned.kept_items), "more stay too")
    more = ", and more after that" if planned.more else ""
    said = f"{len(planned.removed):,} items, {size_in_words(planned.freed)}{more}"
    note(said if planned.removed else "nothing is to be removed")


def _say_rest(rows: Sequence[object], what: str) -> None:
    if len(rows) > SHOWN:
        note(f"{len(rows) - SHOWN:,} {what}; --json names them")


def _removal(one: RemovalView) -> tuple[str, ...]:
    what = one.kind.value if one.action is Action.REMOVE else f"{one.action.value} {one.kind.value}"
    return what, size_in_words(one.size), f"{ago(one.since)} ago", one.task or one.name, one.rule


def _kept(one: KeptView) -> tuple[str, ...]:
    return one.kind.value, size_in_words(one.size), f"{ago(one.since)} ago", one.task or one.name, one.reason


def _confirmed(planned: PruneView) -> bool:
    """Ask on the terminal. Raises UsageError if there is none."""
    if not sys.stdin.isatty():
        raise UsageError("standard input is no terminal; give --yes to remove without confirmation, or --dry-run")
    return typer.confirm(f"remove {len(planned.removed):,} items ({size_in_words(planned.freed)})?", err=True)
