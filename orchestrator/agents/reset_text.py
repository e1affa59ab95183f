"""Parse the time at which a usage limit ends out of an error message.

This is the last resort, for agents that report no `resets_at`. The times in such messages are in the agent's own zone
unless they name another one, lack the year and often the day, and are rounded to minutes. So a time of day means its
next occurrence, a date the year in which it is nearest, and a time that passed a few minutes ago is not tomorrow's.
"""

import re
from collections.abc import Iterable
from datetime import UTC, datetime, time, timedelta, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

BEGINNING: Final = 500
"""Characters of a text that are searched."""
JUST_NOW: Final = timedelta(minutes=10)

_WEEKDAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")

_EPOCH: Final = re.compile(r"\|([0-9]{10})(?:[0-9]{3})?\b")
_WRITTEN_OUT: Final = re.compile(
    r"\bresets?(?: at| on)? ([0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}) ?(?:UTC|Z)\b"
)
_SPOKEN: Final = re.compile(
    r"""
    \bresets? (?:\ (?:at|on))?
    (?: \ (?P<weekday>mon|tue|wed|thu|fri|sat|sun)(?:s|nes|rs|ur)?(?:day)?\b ,? (?:\ at)?
      | \ (?P<month>jan|feb|mar|apr|may|june?|july?|aug|sept?|oct|nov|dec)(?:uary|ruary|ch|il|ust|ember|tember|ober)?\.?
        \ (?P<day>[0-9]{1,2})(?:st|nd|rd|th)?\b (?:,?\ (?P<year>20[0-9]{2})\b)? ,? (?:\ at)?
    )?
    (?: \ (?P<hour>1[0-2]|0?[1-9])(?::(?P<minute>[0-5][0-9]))?\ ?(?P<half>[ap])\.?m\b )?
    (?: \.?\ \((?P<zone>[A-Za-z][A-Za-z0-9_+/-]{1,63})\) )?
    """,
    re.VERBOSE | re.IGNORECASE,
)


def reset_in(text: str, at: datetime, zone: str) -> datetime | None:
    """Return the time in UTC that an error message from `at` names, None if it names none or an unclear one.

    `zone` is the IANA name of the zone in which the agent ran. The time may be past: by a few minutes, or by any
    duration if the text gives a full date.
    """
    beginning = " ".join(text[:BEGINNING].split())
    if epoch := _EPOCH.search(beginning):
        return datetime.fromtimestamp(int(epoch[1]), UTC)
    if written := _WRITTEN_OUT.search(beginning):
        return _written(written[1])
    for spoken in _SPOKEN.finditer(beginning):
        place = _zone(spoken["zone"] or zone)
        if place and (moment := _nearest(_moments(spoken, at.astimezone(place)), at, dated=bool(spoken["month"]))):
            return moment
    return None


def _written(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC)
    except ValueError:
        return None


def _zone(name: str) -> tzinfo | None:
    """Return the time zone of this name, None if this machine does not know it."""
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        return None


def _moments(spoken: re.Match[str], here: datetime) -> list[datetime]:
    """Return all times that may be meant, in UTC."""
    clock = _clock(spoken)
    if spoken["month"]:
        month = _MONTHS.index(spoken["month"][:3].casefold()) + 1
        years = [int(spoken["year"])] if spoken["year"] else [here.year - 1, here.year, here.year + 1]
        return list(_on_days(_dates(years, month, int(spoken["day"])), clock or time(), here))
    if clock is None:
        return []
    days = range(8)
    if spoken["weekday"]:
        weekday = _WEEKDAYS.index(spoken["weekday"].casefold())
        days = range((weekday - here.weekday()) % 7, 15, 7)
    return list(_on_days((here + timedelta(days=day) for day in days), clock, here))


def _clock(spoken: re.Match[str]) -> time | None:
    if not spoken["hour"]:
        return None
    return time(int(spoken["hour"]) % 12 + (12 if spoken["half"] in "pP" else 0), int(spoken["minute"] or 0))


def _dates(years: Iterable[int], month: int, day: int) -> Iterable[datetime]:
    for year in years:
        try:
            yield datetime(year, month, day)  # noqa: DTZ001 - a day of a calendar; its zone follows
        except ValueError:
            continue


def _on_days(days: Iterable[datetime], clock: time, here: datetime) -> Iterable[datetime]:
    """Return the time of day on each day: twice where the clock is set back, moved by the width of a gap."""
    for day in days:
        first, second = (datetime.combine(day, clock, here.tzinfo).replace(fold=fold) for fold in (0, 1))
        yield first.astimezone(UTC)
        if second.astimezone(UTC) > first.astimezone(UTC):
            yield second.astimezone(UTC)


def _nearest(moments: list[datetime], at: datetime, *, dated: bool) -> datetime | None:
    """Return the next of the times; a date is taken in the year in which it is nearest, even if it is past there."""
    if dated:
        moments = sorted(moments, key=lambda moment: abs(moment - at))[:1]
    return min((moment for moment in moments if moment >= at - JUST_NOW), default=None)
