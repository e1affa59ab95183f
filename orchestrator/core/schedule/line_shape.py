"""Lines in the format of crontab taken apart, as far as they can be said in a few words.

A line is a pattern of minutes and hours, and of days. Most lines name some times of the day, or repeat every so many
minutes or hours; a line that does neither has no shape, and is shown as it is.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

MACROS: Mapping[str, str] = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
}
MOST_CLOCKS = 4
"""How many times of the day are named one by one."""
_PART = re.compile(r"(\*|[a-z]{3}|\d{1,2})(?:-([a-z]{3}|\d{1,2}))?(?:/(\d{1,2}))?", re.ASCII)
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_MONTHS = ("", "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAY = range(24)


@dataclass(frozen=True, slots=True, kw_only=True)
class LineShape:
    """When a line is due: at `clocks`, hours and minutes, or every so many minutes or hours.

    `every_minutes` repeats within `hours`, the first and the last one; `every_hours` repeats at `minute`. `weekdays`
    count from Sunday as 0. An empty tuple of days or months means each. A day fits the week's or the month's.
    """

    clocks: tuple[tuple[int, int], ...] = ()
    every_minutes: int = 0
    hours: tuple[int, int] = (0, 23)
    every_hours: int = 0
    minute: int = 0
    weekdays: tuple[int, ...] = ()
    monthdays: tuple[int, ...] = ()
    months: tuple[int, ...] = ()


def shape_of(line: str) -> LineShape | None:
    """Return the shape of a line; None if it has none that can be said in a few words, or is no line at all."""
    words = MACROS.get(line.strip().lower(), line).lower().split()
    if len(words) != 5:
        return None
    try:
        minutes, hours = _values(words[0], range(60)), _values(words[1], _DAY)
        days, months = _values(words[2], range(1, 32)), _values(words[3], range(1, 13), _MONTHS)
        week = sorted({day % 7 for day in _values(words[4], range(8), _WEEKDAYS)})
    except ValueError:
        return None
    shape = _times(minutes, hours)
    if shape is None:
        return None
    return replace(
        shape,
        weekdays=() if len(week) == 7 else tuple(week),
        monthdays=() if len(days) == 31 else tuple(days),
        months=() if len(months) == 12 else tuple(months),
    )


def is_run(values: Sequence[int]) -> bool:
    """Return whether values follow each other without a gap, and are at least three."""
    return len(values) > 2 and values[-1] - values[0] == len(values) - 1


def _times(minutes: list[int], hours: list[int]) -> LineShape | None:
    if len(minutes) * len(hours) <= MOST_CLOCKS:
        return LineShape(clocks=tuple((hour, minute) for hour in hours for minute in minutes))
    step = _step(minutes, 60)
    if step and hours[-1] - hours[0] == len(hours) - 1:
        return LineShape(every_minutes=step, hours=(hours[0], hours[-1]))
    if len(minutes) == 1 and (step := _step(hours, 24)):
        return LineShape(every_hours=step, minute=minutes[0])
    return None


def _step(values: list[int], size: int) -> int:
    """Return by how much values go up from 0 to the end; 0 if they do not do so evenly."""
    step = size // len(values)
    return step if len(values) > 1 and values == list(range(0, size, step)) else 0


def _values(field: str, allowed: range, names: Sequence[str] = ()) -> list[int]:
    """Return the values that a field names, in order. Raises ValueError for one that is no such field."""
    found: set[int] = set()
    for part in field.split(","):
        read = _PART.fullmatch(part)
        if read is None:
            raise ValueError(field)
        first, last, step = read.groups()
        start = allowed.start if first == "*" else _number(first, names)
        end = _number(last, names) if last else allowed.stop - 1 if first == "*" or step else start
        if start not in allowed or end not in allowed or step == "0":
            raise ValueError(field)
        if end < start and names is _WEEKDAYS:
            end += 7  # from Saturday to Sunday, say
        span = range(start, end + 1, int(step or 1))
        if not span:
            raise ValueError(field)
        found |= set(span)
    return sorted(found)


def _number(word: str, names: Sequence[str]) -> int:
    return names.index(word) if word in names else int(word)
