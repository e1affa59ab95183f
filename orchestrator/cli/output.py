"""Output for people: tables, facts and errors. Foreign text is escaped, so it cannot control the terminal.

On a terminal, tables fit its width; in a pipe they are as wide as they need, with one line for each row.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Literal

import typer
from pydantic import BaseModel
from rich.table import Table
from rich.text import Text

from orchestrator.cli.labels import pause_label, status_label, wait_label
from orchestrator.cli.terminal import complain, console, line, note, plain
from orchestrator.core.task.agent import PauseReason
from orchestrator.core.task.task import TaskStatus
from orchestrator.server.schemas.limits import WaitView
from orchestrator.server.schemas.tasks import CapsView, SpentView, TaskView

__all__ = [
    "ago",
    "budget_of",
    "budget_text",
    "complain",
    "console",
    "duration",
    "facts",
    "line",
    "local",
    "note",
    "plain",
    "print_json",
    "status_text",
    "table",
    "to_minute",
    "waits_text",
]

COLOURS = {
    TaskStatus.COMPLETED: "green",
    TaskStatus.IN_PROGRESS: "cyan",
    TaskStatus.REVIEW: "magenta",
    TaskStatus.BLOCKED: "bold red",
    TaskStatus.FAILED: "red",
    TaskStatus.CANCELLED: "dim",
    TaskStatus.ARCHIVED: "dim",
}

FOR_YOU = {PauseReason.QUESTION, PauseReason.DEPENDENCY, PauseReason.REVIEW}

FOLDED = {"WHY NOT", "TASK OR REASON", "SUBJECT", "RULE"}
"""Columns whose texts go on in the next line on a narrow terminal: half a reason is of no use."""

ELASTIC = {"TITLE", "WHAT", "VALUE", "COMMAND", "WHY", "LEFT BEHIND", "ANSWER", *FOLDED}
"""Columns that are shortened on a narrow terminal; half an id or a status is of no use."""

EXPENDABLE = (
    *("AGE", "SINCE", "DONE", "STEP", "CPU", "MEMORY", "TOKENS", "COST", "PROCESS", "ROLE", "PRIORITY", "AGENT"),
    *("BEGAN", "ENDED", "TIME", "IN", "LAST", "WAITING", "WHEN"),
)
"""Columns that a narrow terminal leaves out, the first ones first."""
LEAST_ELASTIC = 20
"""Characters that an elastic column gets at least."""
LEAST_OF_OTHERS = 8
"""Characters that a title gets at least beside a reason."""
GAP = 2
"""Characters between two columns."""


def print_json(view: BaseModel) -> None:
    """Print the JSON document of `--json`."""
    typer.echo(view.model_dump_json(by_alias=True, indent=2))


def table(headings: Sequence[str], rows: Iterable[Sequence[Text | str]], room: int | None = None) -> Table:
    """Return a table without lines; its columns are as wide as needed, elastic ones as wide as possible.

    Columns for which `room`, by default a narrow terminal, has no room are left out; the first column is never cut.
    """
    made = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    cells = [[_cell(heading, cell) for heading, cell in zip(headings, row, strict=True)] for row in rows]
    widths = [max([len(heading), *(row[at].cell_len for row in cells)]) for at, heading in enumerate(headings)]
    room = room or console().width
    kept = _fitting(headings, widths, room)
    others = sum(min(widths[at], LEAST_OF_OTHERS) if headings[at] in ELASTIC else widths[at] for at in kept)
    spare = room - others - GAP * (len(kept) - 1)
    for at in kept:
        heading = headings[at]
        least = None if heading in ELASTIC and at else widths[at]
        if heading == "WHY":
            least = max(1, min(widths[at], LEAST_OF_OTHERS + spare))
        overflow: Literal["fold", "ellipsis"] = "fold" if heading in FOLDED else "ellipsis"
        made.add_column(heading, no_wrap=heading not in ELASTIC, overflow=overflow, min_width=least)
    for row in cells:
        made.add_row(*(row[at] for at in kept))
    return made


def _cell(heading: str, cell: Text | str) -> Text:
    if isinstance(cell, Text):
        return cell
    return Text(" ".join(plain(cell).split())) if heading in FOLDED else line(cell)


def _fitting(headings: Sequence[str], widths: Sequence[int], room: int) -> list[int]:
    """Return the indexes of the columns that fit into `room` characters."""
    kept = list(range(len(headings)))
    for expendable in EXPENDABLE:
        needed = (min(widths[at], LEAST_ELASTIC) if headings[at] in ELASTIC else widths[at] for at in kept)
        if sum(needed) + GAP * (len(kept) - 1) <= room:
            break
        kept = [at for at in kept if headings[at] != expendable]
    return kept


def facts(rows: Iterable[tuple[str, Text | str | None]]) -> Table:
    """Return a list of names and values, without the names that have no value."""
    made = Table.grid(padding=(0, 2))
    made.add_column(style="dim", no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in rows:
        if value:
            made.add_row(name, value if isinstance(value, Text) else Text(plain(value)))
    return made


def status_text(status: TaskStatus, *, paused: bool = False, blocked_by: PauseReason | None = None) -> Text:
    """Return a status in its colour and in the user's language, for a paused task what it waits for."""
    if not paused or status.is_final:
        return Text(status_label(status), style=COLOURS.get(status, ""))
    return Text(pause_label(blocked_by), style="bold magenta" if blocked_by in FOR_YOU else "yellow")


def budget_of(task: TaskView) -> str:
    """Return how much of each cap of a task is used, its children included, "" without caps."""
    text = budget_text(task.caps, task.spent_by_all)
    return f"{text}, with its children" if text and task.children else text


def budget_text(caps: CapsView, spent: SpentView) -> str:
    """Return how much of each cap is used, "" without caps."""
    parts = (
        f"${spent.usd:.2f} of ${caps.usd:.2f}" if caps.usd is not None else "",
        f"{spent.tokens:,} of {caps.tokens:,} tokens" if caps.tokens is not None else "",
        f"{spent.turns} of {caps.turns} turns" if caps.turns is not None else "",
        f"{spent.hours:.1f} of {caps.hours:g} hours" if caps.hours is not None else "",
    )
    return ", ".join(part for part in parts if part)


def waits_text(waits: Iterable[WaitView]) -> str:
    """Return what tasks wait for that comes by itself, "" if none does."""
    now = datetime.now(UTC)
    return ", ".join(wait_label(one.reason, one.tasks, one.until, now) for one in waits)


def ago(at: datetime) -> str:
    """Return how long ago that was, in its largest unit."""
    return duration((datetime.now(UTC) - at).total_seconds())


def duration(seconds: float) -> str:
    """Return a duration in at most two units: `42s`, `3m10s`, `5h02m`, `3d4h`."""
    whole = int(timedelta(seconds=max(0.0, seconds)).total_seconds())
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d{whole % 86400 // 3600}h"


def to_minute(at: datetime | None) -> str | None:
    """Return a time in the local time zone, without its seconds, for lists."""
    return f"{at.astimezone():%Y-%m-%d %H:%M}" if at else None


def local(at: datetime | None) -> str | None:
    """Return a time in the local time zone."""
    return f"{at.astimezone():%Y-%m-%d %H:%M:%S}" if at else None
