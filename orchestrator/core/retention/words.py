"""Ages and sizes as people read them."""

from datetime import timedelta

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")


def age_in_words(age: timedelta) -> str:
    """Return an age in days, hours or minutes; less than a minute is a moment."""
    minutes = age / timedelta(minutes=1)
    if 0 < minutes < 1:
        return "a moment"
    amount, unit = (minutes, "minute") if 0 < minutes < 60 else (minutes / 60, "hour")
    if minutes >= 24 * 60 or not minutes:
        amount, unit = minutes / (24 * 60), "day"
    shown = f"{amount:.1f}".removesuffix(".0")
    return f"{shown} {unit}{'' if shown == '1' else 's'}"


def size_in_words(size: int) -> str:
    """Return a number of bytes in the unit that gives it one to four digits: `512 bytes`, `3.4 GiB`."""
    amount, unit = float(size), 0
    while abs(amount) >= 1024 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{amount:.0f} {_UNITS[unit]}" if unit == 0 or abs(amount) >= 100 else f"{amount:.1f} {_UNITS[unit]}"
