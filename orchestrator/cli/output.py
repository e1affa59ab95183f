"""What people see: tables, facts and complaints. Foreign text is shown as text, whatever is in it.

On a terminal tables are as wide as that; into a pipe they are as wide as they need, one line for a row.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

import typer
from pydantic import BaseModel
from rich.console import Console
from rich.table import Table
from rich.text import Text

from orchestrator.core.task.agent import PauseReason
from orchestrator.core.task.task import TaskStatus
from orchestrator.server.schemas.tasks import CapsView, SpentView

PIPE_WIDTH = 10_000
"""Columns: no table is wider."""

COLOURS = {
    TaskStatus.COMPLETED: "green",
    TaskStatus.IN_PROGRESS: "cyan",
    TaskStatus.REVIEW: "magenta",
    TaskStatus.BLOCKED: "bold red",
    TaskStatus.FAILED: "red",
    TaskStatus.CANCELLED: "dim",
    TaskStatus.ARCHIVED: "dim",
}

STANDING = {
    None: "waits for a place",
    PauseReason.USER: "paused",
    PauseReason.QUESTION: "waits for your answer",
    PauseReason.DEPENDENCY: "waits for what you provide",
    PauseReason.REVIEW: "waits for your review",
    PauseReason.RATE_LIMIT: "waits for the usage limit",
    PauseReason.SERVICE: "waits for the service",
    PauseReason.BUDGET: "has used up its budget",
    PauseReason.PRESSURE: "waits for room",
}
"""What a task that stands still waits for, in words."""
FOR_YOU = {PauseReason.QUESTION, PauseReason.DEPENDENCY, PauseReason.REVIEW}

ELASTIC = {"TITLE", "WHAT", "COMMAND", "WHY", "LEFT BEHIND", "ANSWER"}
"""The columns that give way on a narrow terminal; an id or a status in half is of no use."""

EXPENDABLE = (
    *("AGE", "SINCE", "DONE", "STEP", "CPU", "MEMORY", "TOKENS", "COST", "PROCESS", "ROLE", "PRIORITY", "AGENT"),
    *("BEGAN", "ENDED", "TIME"),
)
"""The columns that a narrow terminal goes without, first ones first."""
LEAST_ELASTIC = 20
"""Columns of the terminal that an elastic one shall have."""
GAP = 2
"""Columns of the terminal between two of a table."""

_KEPT = {"\n", "\t"}


def console() -> Console:
    """Standard output."""
    found = Console(highlight=False, markup=False, emoji=False)
    return found if found.is_terminal else Console(highlight=False, markup=False, emoji=False, width=PIPE_WIDTH)


def complain(*lines: str) -> None:
    """Say on standard error what is wrong, in red where there is colour; each line beyond the first is one more."""
    screen = Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)
    for line in lines:
        screen.print(Text("error: ", style="bold red") + Text(plain(line), style="red"))


def note(line: str) -> None:
    """Say something beside the output, on standard error."""
    Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True).print(Text(plain(line), "dim"))


def print_json(view: BaseModel) -> None:
    """The one JSON document of `--json`."""
    typer.echo(view.model_dump_json(by_alias=True, indent=2))


def plain(text: str) -> str:
    """The text with everything escaped that a terminal would obey."""
    return "".join(
        c if c.isprintable() or c in _KEPT else c.encode("unicode_escape", "surrogatepass").decode() for c in text
    )


def line(text: str) -> Text:
    """Foreign text on one line."""
    return Text(" ".join(plain(text).split()), overflow="ellipsis", no_wrap=True)


def table(headings: Sequence[str], rows: Iterable[Sequence[Text | str]]) -> Table:
    """A table without lines; the columns are as wide as they must be, elastic ones as wide as they can.

    What a narrow terminal has no room for is left out; the first column, which says what a row is about, is never cut.
    """
    made = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    cells = [[cell if isinstance(cell, Text) else line(cell) for cell in row] for row in rows]
    widths = [max([len(heading), *(row[at].cell_len for row in cells)]) for at, heading in enumerate(headings)]
    kept = _fitting(headings, widths, console().width)
    for at in kept:
        heading, least = headings[at], widths[at] if at == 0 else None
        made.add_column(heading, no_wrap=heading not in ELASTIC, overflow="ellipsis", min_width=least)
    for row in cells:
        made.add_row(*(row[at] for at in kept))
    return made


def _fitting(headings: Sequence[str], widths: Sequence[int], room: int) -> list[int]:
    """Which columns to show in so much room."""
    kept = list(range(len(headings)))
    for expendable in EXPENDABLE:
        needed = (min(widths[at], LEAST_ELASTIC) if headings[at] in ELASTIC else widths[at] for at in kept)
        if sum(needed) + GAP * (len(kept) - 1) <= room:
            break
        kept = [at for at in kept if headings[at] != expendable]
    return kept


def facts(rows: Iterable[tuple[str, Text | str | None]]) -> Table:
    """Names and what they are, one under the other; those without a value are left out."""
    made = Table.grid(padding=(0, 2))
    made.add_column(style="dim", no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in rows:
        if value:
            made.add_row(name, value if isinstance(value, Text) else Text(plain(value)))
    return made


def status_text(status: TaskStatus, *, paused: bool = False, blocked_by: PauseReason | None = None) -> Text:
    """A status in its colour; a task that stands still says what for."""
    if not paused or status.is_final:
        return Text(status.value, style=COLOURS.get(status, ""))
    return Text(STANDING[blocked_by], style="bold magenta" if blocked_by in FOR_YOU else "yellow")


def budget_text(caps: CapsView, spent: SpentView) -> str:
    """What was used of what is capped; empty without caps."""
    parts = (
        f"${spent.usd:.2f} of ${caps.usd:.2f}" if caps.usd is not None else "",
        f"{spent.tokens:,} of {caps.tokens:,} tokens" if caps.tokens is not None else "",
        f"{spent.turns} of {caps.turns} turns" if caps.turns is not None else "",
        f"{spent.hours:.1f} of {caps.hours:g} hours" if caps.hours is not None else "",
    )
    return ", ".join(part for part in parts if part)


def ago(at: datetime) -> str:
    """How long ago that was, in its largest unit."""
    return duration((datetime.now(UTC) - at).total_seconds())


def duration(seconds: float) -> str:
    """A span in at most two units: `42s`, `3m10s`, `5h02m`, `3d4h`."""
    whole = int(timedelta(seconds=max(0.0, seconds)).total_seconds())
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d{whole % 86400 // 3600}h"


def local(at: datetime | None) -> str | None:
    """A time as the clock on the wall says it."""
    return f"{at.astimezone():%Y-%m-%d %H:%M:%S}" if at else None


def size(count: int) -> str:
    """Bytes in their largest binary unit."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"
