"""Families of tasks in several repositories: parents and children have run windows of their own, in two time zones.

Windows close at half past two where clocks change in that hour, one of them by the clocks of another continent.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, time, timedelta
from random import Random
from zoneinfo import ZoneInfo

from orchestrator.core.schedule.admission import Capacity
from orchestrator.core.schedule.run_windows import AtEdge, RunWindow, RunWindows, next_edge
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.pipelines.pipeline_file import parse_pipeline
from orchestrator.supervisor.simulation.probabilities import Probabilities
from orchestrator.supervisor.simulation.runner import DaemonConfig
from tests.documents import ROOT
from tests.year.settings import BERLIN, NIGHT, WEEKEND, config

FOLDER = ROOT / "tests/data/pipelines_with_children"
NEW_YORK = ZoneInfo("America/New_York")
REPOS = ("/srv/shop", "/srv/docs", "/srv/other")


def _hours(window: RunWindow, *hours: str) -> RunWindows:
    """Return a window for each of some spans, such as `20:00-21:40`."""
    spans = [[time.fromisoformat(edge) for edge in one.split("-")] for one in hours]
    return tuple(
        replace(window, name=f"{window.name}-{number}", opens=opens, closes=closes)
        for number, (opens, closes) in enumerate(spans, 1)
    )


_ALWAYS = RunWindow(name="", days=frozenset(range(7)), opens=time(), closes=time(), zone=BERLIN)
WINDOWS: RunWindows = (
    NIGHT,
    WEEKEND,
    *_hours(
        replace(_ALWAYS, name="shop-parents", repos=("shop",), pipelines=("parts",)),
        *("20:00-21:40", "22:10-00:20", "01:00-02:30", "03:40-09:00"),
    ),
    *_hours(
        replace(_ALWAYS, name="shop-parts", repos=("shop",), pipelines=("part",), at_edge=AtEdge.END_TURN),
        *("20:30-22:00", "22:30-01:30", "01:50-02:50", "04:00-05:00", "05:20-08:00"),
    ),
    *_hours(replace(_ALWAYS, name="docs", repos=("docs",), zone=NEW_YORK), "14:00-15:30", "16:20-22:00", "22:15-02:30"),
    *_hours(replace(_ALWAYS, name="parts", pipelines=("part",)), "19:00-23:30", "00:10-02:30", "02:50-06:40"),
)
ALL_NIGHT = tuple(f"{minute} {hour} * * *" for hour in (20, 21, 22, 23, 0, 1, 2, 3, 4, 5) for minute in (3, 23, 43))
"""When tasks are submitted: so that some work whenever a window closes."""
BUSY = replace(
    Probabilities(),
    let_run=0.15,
    interactive=0.1,
    never_answered=0.0,
    starts_later=0.0,
    paused=0.05,
    cancelled=0.01,
    outages_per_day=0.5,
    shortages_per_day=0.3,
)
"""People often let tasks run while their windows are closed, and little else delays these."""


def families() -> DaemonConfig:
    """Return the configuration: parents that divide their work, and ordinary tasks."""
    usual = config()
    return replace(
        usual,
        capacity=Capacity(places=8, windows=WINDOWS, turn_usd=0.5),
        pipelines={**usual.pipelines, "parts": _pipeline("parts"), "part": _pipeline("part")},
    )


def edges(windows: RunWindows, start: datetime, end: datetime) -> Iterator[datetime]:
    """Yield when windows open and close in a span."""
    at = start
    while (edge := next_edge(windows, at)) is not None and edge < end:
        yield edge
        at = edge


def crashes_at_edges(start: datetime, days: float, seed: int) -> tuple[datetime, ...]:
    """Return half of the edges, and some moments before and after."""
    rng = Random(f"{seed} edges")
    return tuple(
        at + timedelta(seconds=rng.choice((-1.0, 0.0, 0.0, 0.0, 0.5, 3.0)))
        for at in edges(WINDOWS, start + timedelta(hours=1), start + timedelta(days=days))
        if rng.random() < 0.5
    )


def _pipeline(name: str) -> Pipeline:
    return parse_pipeline((FOLDER / f"{name}.toml").read_text("utf-8"), f"{name}.toml")
