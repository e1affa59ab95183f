"""Time that jumps from one thing to the next: what is due stands on a heap."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from heapq import heappop, heappush


@dataclass(slots=True, eq=False)
class Due:
    """Something that will happen, unless it is called off."""

    at: datetime
    act: Callable[[], None]
    off: bool = False


class VirtualClock:
    """The clock of a simulated world and all that is due; things due at once happen in the order they were put down."""

    def __init__(self, start: datetime) -> None:
        self.now = start
        self._heap: list[tuple[datetime, int, Due]] = []
        self._count = 0

    def clock(self) -> datetime:
        """The time."""
        return self.now

    def at(self, when: datetime, act: Callable[[], None]) -> Due:
        """Put something down for a time; what is due in the past happens next."""
        due = Due(at=max(when, self.now), act=act)
        self._count += 1
        heappush(self._heap, (due.at, self._count, due))
        return due

    def after(self, seconds: float, act: Callable[[], None]) -> Due:
        """Put something down for so many seconds from now."""
        return self.at(self.now + timedelta(seconds=seconds), act)

    def step(self, end: datetime) -> bool:
        """Let the next thing happen; False if nothing is due before the end."""
        while self._heap and self._heap[0][0] < end:
            when, _, due = heappop(self._heap)
            if not due.off:
                self.now = when
                due.act()
                return True
        return False
