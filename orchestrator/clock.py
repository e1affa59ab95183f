"""The one place that asks what time it is."""

from datetime import UTC, datetime


def now() -> datetime:
    """The present time in UTC, in whole milliseconds: what a stamp can say, and so what survives a restart."""
    at = datetime.now(UTC)
    return at.replace(microsecond=at.microsecond // 1000 * 1000)
