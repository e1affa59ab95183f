"""`disk`: what takes space in the data folder, by kind and by task, and what housekeeping will remove when."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Annotated

import typer

from orchestrator.cli.context import Json, context_of
from orchestrator.cli.output import console, facts, line, note, print_json, table
from orchestrator.clock import now
from orchestrator.core.retention.words import age_in_words, size_in_words
from orchestrator.core.schedule.run_windows import span_to
from orchestrator.server.schemas.base import to_view
from orchestrator.server.schemas.oversight.disk import DiskView, KindUsageView, TaskUsageView

NEW = timedelta(minutes=1)
"""How old a size may be without being called so."""


def disk(
    context: typer.Context,
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, max=1000, help="How many tasks to name.")] = 10,
    json: Json = False,
) -> None:
    """Show what takes disk space, by kind and by task, and what will be removed when."""
    with context_of(context).client() as client:
        found = to_view(DiskView, client.exchange("GET", f"/api/disk?limit={limit}"), str)
    if json:
        print_json(found)
        return
    screen = console()
    if found.warning:
        note(found.warning)
    screen.print(facts(_summary(found)))
    screen.print()
    screen.print(table(("KIND", "SIZE", "ITEMS", "KEPT FOR", "DUE NOW", "NEXT"), map(_kind, found.kinds)))
    if found.others:
        screen.print()
        screen.print(table(("OTHER", "SIZE"), ((one.name, size_in_words(one.size)) for one in found.others)))
    if found.tasks:
        screen.print()
        screen.print(table(("TASK", "SIZE", "MOST OF IT", "WHAT"), map(_task, found.tasks)))
    for name in found.incomplete:
        note(f"{name} holds more than was counted")


def _summary(found: DiskView) -> Iterator[tuple[str, str]]:
    yield "used", f"{size_in_words(found.used)} by the files of {found.tasks_with_files:,} tasks"
    yield "free", f"{size_in_words(found.free)} of {size_in_words(found.total)}; agents freeze below {_floor(found)}"
    yield (
        "due now",
        f"{size_in_words(found.due_size)}, as far as it exists elsewhere too: `orchestrator prune --dry-run`",
    )
    age = found.at - found.measured_at
    if age > NEW:
        yield "sizes", f"those of worktrees and repositories are up to {age_in_words(age)} old"
    if found.uncompressed:
        yield "transcripts", f"{size_in_words(found.uncompressed)} are not compressed yet"
    yield (
        "automatic",
        "on: housekeeping removes what is due" if found.automatic else "off: retention.automatic is false",
    )


def _floor(found: DiskView) -> str:
    return size_in_words(found.floor)


def _kind(one: KindUsageView) -> tuple[str, ...]:
    due = f"{size_in_words(one.due_size)} in {one.due_items:,}" if one.due_items else "-"
    following = span_to(one.next_at, now()) if one.next_at else "-"
    return one.kind.value, size_in_words(one.size), f"{one.items:,}", _limits(one), due, following


def _limits(one: KindUsageView) -> str:
    found = (
        f"{one.keep_days:g} days" if one.keep_days is not None else "",
        f"the newest {one.keep_count:,}" if one.keep_count is not None else "",
        f"the newest {size_in_words(one.keep_bytes)}" if one.keep_bytes is not None else "",
    )
    return ", ".join(part for part in found if part) or "forever"


def _task(one: TaskUsageView) -> tuple[str, ...]:
    kind, size = max(one.kinds.items(), key=lambda item: item[1], default=(None, 0))
    most = f"{kind.value} {size_in_words(size)}" if kind else ""
    return one.task, size_in_words(one.size), most, str(line(one.title))
