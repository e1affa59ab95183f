"""Alarms: ring when a time has come, and at regular intervals. Behind it is APScheduler, in memory only.

What is due stands in the tasks and is set again at start. An alarm is never dropped for being late (measured.md:
APScheduler's default drops it silently), and rings once however often it was missed; whoever needs more looks again at
regular intervals, for clocks jump and machines sleep.
"""

from collections.abc import Callable, Coroutine
from datetime import datetime

from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger


class Timers:
    """The daemon's alarms, which ring in its event loop; names make them unique, a new one replaces the old."""

    def __init__(self) -> None:
        self._scheduler = AsyncIOScheduler(
            timezone="UTC", job_defaults={"misfire_grace_time": None, "coalesce": True, "max_instances": 1}
        )

    def start(self) -> None:
        """Begin to ring; needs a running event loop."""
        self._scheduler.start()

    def close(self) -> None:
        """Ring no more."""
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)

    def ring_at(self, name: str, at: datetime, call: Callable[[], None]) -> None:
        """Call once at this time, or at once if it is over."""
        self._scheduler.add_job(_in_loop(call), DateTrigger(at), id=name, name=name, replace_existing=True)

    def ring_every(self, name: str, seconds: float, call: Callable[[], None]) -> None:
        """Call again and again, first after one interval."""
        self._scheduler.add_job(
            _in_loop(call), IntervalTrigger(seconds=seconds), id=name, name=name, replace_existing=True
        )


def _in_loop(call: Callable[[], None]) -> Callable[[], Coroutine[None, None, None]]:
    """The call as APScheduler takes it into the event loop: what is no coroutine function it gives to a thread."""

    async def ring() -> None:
        call()

    return ring
