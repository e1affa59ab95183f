"""Run windows: the hours in which tasks may run."""

import re
from collections.abc import Mapping
from datetime import time
from pathlib import Path
from typing import Annotated, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from pydantic import BeforeValidator, Field, model_validator
from tzlocal import get_localzone_name

from orchestrator.core.schedule.run_windows import WEEKDAYS, AtEdge, RunWindow, RunWindows
from orchestrator.formats.table import nearest
from orchestrator.settings.sections.types import SettingsSection

MOST_WINDOWS = 50
GROUPS: Mapping[str, tuple[str, ...]] = {
    "daily": tuple(WEEKDAYS),
    "weekdays": ("mon", "tue", "wed", "thu", "fri"),
    "weekend": ("sat", "sun"),
}
"""What days together are called."""
_CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)", re.ASCII)
_END_OF_DAY = "24:00"


def zone_of(name: str) -> ZoneInfo:
    """Return a time zone by its name in the IANA database; that of this machine without a name. Raises ValueError."""
    try:
        return ZoneInfo(name or get_localzone_name() or "UTC")
    except (ZoneInfoNotFoundError, OSError, ValueError):
        hint = nearest(name, available_timezones()).partition("known: ")
        said = hint[0] or "write a name such as Europe/Berlin, America/New_York or UTC"
        raise ValueError(f"{name!r:.60} is not a time zone; {said}") from None


def days_of(words: tuple[str, ...]) -> frozenset[int]:
    """Return days of the week by name: `mon`, `mon-fri`, `weekdays`, `weekend`, `daily`. Raises ValueError."""
    return frozenset(day for word in words for day in _days(word.strip().lower()))


def clock_of(text: str) -> time:
    """Return a time of day; the end of a day, 24:00, is its beginning. Raises ValueError."""
    found = _CLOCK.fullmatch(text)
    if found is None and text != _END_OF_DAY:
        raise ValueError(f"{text!r} is not a time of day; write 22:00")
    return time(int(found[1]), int(found[2])) if found else time()


def _days(word: str) -> list[int]:
    if word in GROUPS:
        return [WEEKDAYS[name] for name in GROUPS[word]]
    first, dash, last = word.partition("-")
    if first not in WEEKDAYS or (dash and last not in WEEKDAYS):
        known = f"{', '.join(WEEKDAYS)}, mon-fri, {', '.join(GROUPS)}"
        raise ValueError(f"{word!r} is not a day; write one of {known}")
    start = WEEKDAYS[first]
    count = (WEEKDAYS[last] - start) % 7 + 1 if dash else 1
    return [(start + number) % 7 for number in range(count)]


def _words(given: object) -> object:
    return (given,) if isinstance(given, str) else given


class WindowSettings(SettingsSection):
    """Hours in which tasks may run: from `opens` to `closes`, by the clocks of a zone."""

    days: Annotated[tuple[str, ...], BeforeValidator(_words), Field(min_length=1)] = ("daily",)
    opens: str
    closes: str
    zone: str = ""
    at_edge: AtEdge = AtEdge.FREEZE
    repos: tuple[str, ...] = ()
    pipelines: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _is_readable(self) -> Self:
        self.window("")
        if self.opens == _END_OF_DAY:
            raise ValueError("a window opens at 00:00 of the next day instead of 24:00")
        return self

    def window(self, name: str) -> RunWindow:
        """Return the window as the core uses it."""
        return RunWindow(
            name=name,
            days=days_of(self.days),
            opens=clock_of(self.opens),
            closes=clock_of(self.closes),
            zone=zone_of(self.zone),
            at_edge=self.at_edge,
            repos=tuple(str(Path(one).expanduser()) if one.startswith("~") else one for one in self.repos),
            pipelines=self.pipelines,
        )


WindowTable = Annotated[Mapping[str, WindowSettings], Field(max_length=MOST_WINDOWS)]


def run_windows(table: Mapping[str, WindowSettings]) -> RunWindows:
    """Return the windows of a table of the settings."""
    return tuple(one.window(name) for name, one in table.items())
