"""Alarms at a time and at regular intervals, by APScheduler in memory only.

Due times are stored in the tasks and set again at start. An alarm is never dropped for being late, as APScheduler does
by default, and rings once however often it was missed. Clocks jump and machines sleep, so the supervisor also checks
all due times at regular intervals.
"""

from collections.abc import Callable, Coroutine
from datetime import datetime

from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger


class Timers:
    """The daemon's alarms, which ring in its event loop; a new alarm replaces the old one of the same name."""

    def __init__(self) -> None:
        self._scheduler = AsyncIOScheduler(
            timezone="UTC", job_defaults={"misfire_grace_time": None, "coalesce": True, "max_instances": 1}
        )

    def start(self) -> None:
        """Start to ring; needs a running event loop."""
        self._scheduler.start()

    def close(self) -> None:
        """Stop ringing."""
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)

    def ring_at(self, name: str, at: datetime, call: Callable[[], None]) -> None:
        """Call once at this time, or now if it is past."""
        self._scheduler.add_job(_in_loop(call), DateTrigger(at), id=name, name=name, replace_existing=True)

    def ring_every(self, name: str, seconds: float, call: Callable[[], None]) -> None:
        """Call after every interval."""
        self._scheduler.add_job(
            _in_loop(call), IntervalTrigger(seconds=seconds), id=name, name=name, replace_existing=True
        )


def _in_loop(call: Callable[[], None]) -> Callable[[], Coroutine[None, None, None]]:
    """Wrap the call so that APScheduler runs it in the event loop: plain functions it runs in a thread."""

    async def ring() -> None:
        call()

    return ring
