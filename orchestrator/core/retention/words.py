"""Ages and sizes as people read them."""

from datetime import timedelta

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")


def age_in_words(age: timedelta) -> str:
    """Return an age in days or hours."""
    days = age / timedelta(days=1)
    amount, unit = (days, "day") if days >= 1 or not days else (days * 24, "hour")
    return f"{amount:g} {unit}{'' if amount == 1 else 's'}"


def size_in_words(size: int) -> str:
    """Return a number of bytes in the unit that gives it one to four digits: `512 bytes`, `3.4 GiB`."""
    amount, unit = float(size), 0
    while abs(amount) >= 1024 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{amount:.0f} {_UNITS[unit]}" if unit == 0 or abs(amount) >= 100 else f"{amount:.1f} {_UNITS[unit]}"
