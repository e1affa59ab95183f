"""Times as people write them: `22:00`, `tomorrow 22:00`, `+2h`, `1h` (ago), `yesterday`, ISO 8601.

A time of day is one of the reader's own clock, so it stays the same over a change to or from summer time; a span is an
exact number of minutes or hours, and a day in it is 24 hours. The parsers are given what time it is.
"""

import re
from datetime import UTC, date, datetime, time, timedelta, tzinfo

import typer

from orchestrator.clock import now as present

_SPAN = re.compile(r"(?:(\d{1,4})d)?(?:(\d{1,5})h)?(?:(\d{1,6})m)?(?:(\d{1,7})s)?", re.ASCII)
_CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)", re.ASCII)
_DAYS = {"yesterday": -1, "today": 0, "tomorrow": 1}


def future_time(text: str) -> datetime:
    """Return a time to come that a person typed."""
    try:
        return parse_future(text, present())
    except ValueError as error:
        said = f"{error}; write 22:00, 'tomorrow 22:00', +2h or 2026-05-28T22:00"
        raise typer.BadParameter(said) from None


def past_time(text: str) -> datetime:
    """Return a time that has passed, as a person typed it."""
    forms = "write 22:30, 8h, 2d, yesterday, 'yesterday 22:00' or 2026-05-28T22:30"
    try:
        at = parse_past(text, present())
    except ValueError as error:
        raise typer.BadParameter(f"{error}; {forms}") from None
    if at > present():
        raise typer.BadParameter(f"{text!r} is still to come; {forms}")
    return at


def parse_future(text: str, now: datetime, zone: tzinfo | None = None) -> datetime:
    """Return a time to come: `22:00` (the next one), `today 22:00`, `tomorrow`, `tomorrow 22:00`, `+2h`, ISO 8601.

    `zone` is that of the person who wrote it; None is the machine's. A day alone is its beginning. Raises ValueError,
    also for a time that has passed.
    """
    said = " ".join(text.split()).lower()
    if said.startswith("+"):
        return _local(now, zone) + _span(said[1:])
    at = _at_clock(said, now, zone, later=True) or _on_day(said, now, zone) or _iso(text, zone)
    if at <= now:
        raise ValueError(f"{text!r} is in the past; give a future time")
    return at


def parse_past(text: str, now: datetime, zone: tzinfo | None = None) -> datetime:
    """Return a past time: `22:00` (the last one), `1h`, `2d` (ago), `yesterday`, `yesterday 22:00`, `today`, ISO 8601.

    `zone` is that of the person who wrote it; None is the machine's. A day alone is its beginning. Raises ValueError.
    """
    said = " ".join(text.split()).lower()
    if said[:1].isdecimal() and said[-1:] in "dhms":
        return _local(now, zone) - _span(said)
    return _at_clock(said, now, zone, later=False) or _on_day(said, now, zone) or _iso(text, zone)


def at_local(day: date, clock: time, zone: tzinfo | None) -> datetime:
    """Return a time of day on a day in a zone; None is the machine's.

    A time that a change to summer time leaves out is as much later; of one that comes twice, the first is meant.
    """
    naive = datetime.combine(day, clock)
    if zone is None:
        return naive.astimezone()
    return naive.replace(tzinfo=zone).astimezone(UTC).astimezone(zone)


def _at_clock(said: str, now: datetime, zone: tzinfo | None, *, later: bool) -> datetime | None:
    """Return the next time of day after now, or the last one until now; None if the text is none."""
    clock = _clock(said)
    if clock is None:
        return None
    today, step = _local(now, zone).date(), 1 if later else -1
    at = at_local(today, clock, zone)
    is_wanted = at > now if later else at <= now
    return at if is_wanted else at_local(today + timedelta(days=step), clock, zone)


def _on_day(said: str, now: datetime, zone: tzinfo | None) -> datetime | None:
    name, _, rest = said.partition(" ")
    clock = _clock(rest) if rest else time()
    if name not in _DAYS or clock is None:
        return None
    return at_local(_local(now, zone).date() + timedelta(days=_DAYS[name]), clock, zone)


def _clock(said: str) -> time | None:
    found = _CLOCK.fullmatch(said)
    return time(int(found[1]), int(found[2])) if found else None


def _span(said: str) -> timedelta:
    found = _SPAN.fullmatch(said)
    if not said or found is None:
        raise ValueError(f"{said!r} is not a span of time; write 90m, 2h, 1h30m or 1d")
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)


def _iso(text: str, zone: tzinfo | None) -> datetime:
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(f"{text!r} is not a time") from None
    try:
        return at if at.tzinfo else at_local(at.date(), at.time().replace(fold=at.fold), zone)
    except OverflowError:
        raise ValueError(f"{text!r} is out of range") from None


def _local(now: datetime, zone: tzinfo | None) -> datetime:
    return now.astimezone(zone)
