"""Usage limits of an account: when to go on after one was reached (collected.md §3)."""

from datetime import datetime, timedelta
from zlib import crc32

FIRST_PROBE, LONGEST_PROBE = timedelta(minutes=5), timedelta(hours=1)
FARTHEST_RESET = timedelta(days=8)


def resume_at(resets_at: datetime, at: datetime, margin: float, name: str) -> datetime | None:
    """When to go on after a reset that was told: `margin` seconds later, or up to twice that.

    `name` spreads tasks that wait for the same reset. None for a reset that is over or too far away to be meant.
    """
    if not at < resets_at <= at + FARTHEST_RESET:
        return None
    return resets_at + timedelta(seconds=margin * (1 + crc32(name.encode()) / 2**32))


def probe_at(at: datetime, hits: int) -> datetime:
    """When to try again where no reset is known: after a pause that doubles with every hit in a row, up to an hour."""
    return at + min(FIRST_PROBE * (1 << min(hits - 1, 10)), LONGEST_PROBE)
