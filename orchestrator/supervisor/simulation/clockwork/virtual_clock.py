"""Time that jumps from one scheduled call to the next."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush


@dataclass(slots=True, eq=False)
class ScheduledCall:
    """A call that will be made at a time, unless it is cancelled."""

    at: datetime
    callback: Callable[[], None]
    cancelled: bool = False


class VirtualClock:
    """The clock of a simulated world and its scheduled calls; calls due at the same time run in scheduling order.

    `now` is the current virtual time.
    """

    def __init__(self, start: datetime) -> None:
        self.now = start
        self._heap: list[tuple[datetime, int, ScheduledCall]] = []
        self._count = 0

    def time(self) -> datetime:
        """Return the current virtual time."""
        return self.now

    def schedule_at(self, when: datetime, callback: Callable[[], None]) -> ScheduledCall:
        """Schedule a call for a time; a time in the past means now."""
        at = max(when, self.now).astimezone(UTC)  # times of another zone are subtracted as its clocks show them
        call = ScheduledCall(at=at, callback=callback)
        self._count += 1
        heappush(self._heap, (call.at, self._count, call))
        return call

    def schedule_after(self, seconds: float, callback: Callable[[], None]) -> ScheduledCall:
        """Schedule a call for that many seconds from now."""
        return self.schedule_at(self.now + timedelta(seconds=seconds), callback)

    def next_due(self) -> datetime | None:
        """Return when the next scheduled call is due; None if there is none."""
        while self._heap and self._heap[0][2].cancelled:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def run_next(self, end: datetime) -> bool:
        """Advance to the next scheduled call and make it; return False if none is due before the end."""
        while self._heap and self._heap[0][0] < end:
            when, _, call = heappop(self._heap)
            if not call.cancelled:
                self.now = when
                call.callback()
                return True
        return False
