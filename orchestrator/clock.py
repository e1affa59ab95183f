"""The one place that asks what time it is."""

from datetime import UTC, datetime, timedelta


def now() -> datetime:
    """The present time in UTC, in whole milliseconds: what a stamp can say, and so what survives a restart."""
    at = datetime.now(UTC)
    return at.replace(microsecond=at.microsecond // 1000 * 1000)


def not_before(at: datetime) -> datetime:
    """The first moment of ours that is no earlier: an alarm within the same millisecond would ring too early."""
    return at.astimezone(UTC) + timedelta(microseconds=-at.microsecond % 1000)
