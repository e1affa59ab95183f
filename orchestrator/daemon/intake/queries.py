"""All queries of the settings, each by its own clock: none waits for another, and one that fails is tried again later.

Between polls lies the interval of the settings; after a failure more, at least as much as the tracker asks for. A
webhook wakes its query, and once more shortly afterwards, because the search of a tracker lags behind its events.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog

from orchestrator.daemon.intake.query import Query, QueryParts, search_of
from orchestrator.daemon.intake.query_state import TicketState
from orchestrator.daemon.intake.records import IntakeKind
from orchestrator.daemon.intake.waiting import Hold
from orchestrator.errors import OrchestratorError
from orchestrator.settings.sections.intake import QuerySettings

log = structlog.get_logger()

SLOWEST_TRY = 300.0
"""Seconds until a failed query is tried again for the first time, unless its interval is shorter."""
AGAIN_AFTER_HOOK = 30.0
"""Seconds after which a query that a webhook woke is asked once more."""
LEAST_BETWEEN = 5.0
"""Seconds between two polls of a query, however often webhooks wake it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryStatus:
    """How a query is: what it asks for, when it did last and does next, what it handled, and what it waits for.

    `tasks_waiting` of its tasks wait for a slot, of `most_waiting` that may.
    """

    name: str
    tracker: str
    asks: str
    every: float
    polled_at: datetime | None
    next_at: datetime | None
    taken: int
    refused: int
    tasks_waiting: int
    most_waiting: int
    trouble: str


@dataclass(slots=True)
class _Clock:
    """When a query is due, in seconds of a clock that only goes forward; `again` is when once more, 0 if not.

    `is_woken` says that a webhook came while it was polled, `is_hurried` that the settings changed.
    """

    due: float
    again: float = 0.0
    polled: float = float("-inf")
    is_busy: bool = False
    is_woken: bool = False
    is_hurried: bool = False


@dataclass(slots=True, kw_only=True)
class Queries:
    """Polls as long as `run` runs; `settings` returns the queries in force now."""

    settings: Callable[[], Mapping[str, QuerySettings]]
    parts: QueryParts
    _known: dict[str, Query] = field(default_factory=dict)
    _clocks: dict[str, _Clock] = field(default_factory=dict)
    _holds: dict[str, Hold] = field(default_factory=dict)
    _woken: asyncio.Event = field(default_factory=asyncio.Event)

    def wake(self, name: str) -> None:
        """Poll a query now, and once more a little later."""
        now = time.monotonic()
        if (clock := self._clocks.get(name)) is not None:
            is_held = self._holds[name].reason(now)  # a tracker that asks for a pause gets it
            clock.again = now + AGAIN_AFTER_HOOK
            clock.is_woken = clock.is_busy
            clock.due = clock.due if is_held else max(now, clock.polled + LEAST_BETWEEN)
            self._woken.set()

    def hurry(self) -> None:
        """Poll every query now, because the settings have changed."""
        for name, clock in self._clocks.items():
            clock.due, clock.is_hurried, self._holds[name].until = 0.0, clock.is_busy, 0.0
        self._woken.set()

    async def run(self) -> None:
        """Poll until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                self._woken.clear()
                now, wanted = time.monotonic(), self.settings()
                self._adopt(wanted, now)
                for name in wanted:
                    clock = self._clocks[name]
                    if clock.due <= now and not clock.is_busy:
                        clock.is_busy, clock.polled = True, now
                        group.create_task(self._poll(name, wanted[name]))
                waits = [clock.due - now for clock in self._clocks.values() if not clock.is_busy]
                try:
                    async with asyncio.timeout(max(min(waits), 0.0) if waits else None):
                        await self._woken.wait()
                except TimeoutError:
                    continue

    def troubles(self) -> tuple[str, ...]:
        """Return which queries bring no work now, and why."""
        held = ((name, self._holds[name].why or query.waits) for name, query in self._known.items())
        return tuple(f"query {name}: {why}" for name, why in held if why)

    def statuses(self, tasks_waiting: Mapping[str, int]) -> tuple[QueryStatus, ...]:
        """Return how each query is, given how many tasks of each source wait for a slot."""
        return tuple(self._status(name, settings, tasks_waiting) for name, settings in self.settings().items())

    def _status(self, name: str, settings: QuerySettings, tasks_waiting: Mapping[str, int]) -> QueryStatus:
        query = self._known.get(name) or Query(name=name, parts=self.parts)
        states = [ticket.state for ticket in query.state.tickets.values()]
        hold = self._holds.get(name)
        return QueryStatus(
            name=name,
            tracker=settings.tracker,
            asks=str(search_of(settings)),
            every=settings.every,
            polled_at=query.state.polled_at,
            next_at=self._next_at(name),
            taken=states.count(TicketState.TAKEN),
            refused=states.count(TicketState.REFUSED),
            tasks_waiting=tasks_waiting.get(query.source, 0),
            most_waiting=settings.most_waiting,
            trouble=(hold.why if hold else "") or query.waits,
        )

    def _next_at(self, name: str) -> datetime | None:
        """Return when a query is asked next; None if it is being asked, or has not begun."""
        clock = self._clocks.get(name)
        if clock is None or clock.is_busy:
            return None
        return self.parts.clock() + timedelta(seconds=max(0.0, clock.due - time.monotonic()))

    def _adopt(self, wanted: Mapping[str, QuerySettings], now: float) -> None:
        """Begin with new queries, and drop those that are no longer declared; what they remember stays on disk."""
        for name in wanted.keys() - self._known.keys():
            self._known[name] = Query(name=name, parts=self.parts)
            self._clocks[name], self._holds[name] = _Clock(due=now), Hold(f"query {name}")
        for name in [name for name in self._known if name not in wanted and not self._clocks[name].is_busy]:
            del self._known[name], self._clocks[name], self._holds[name]

    async def _poll(self, name: str, settings: QuerySettings) -> None:
        query, clock, hold = self._known[name], self._clocks[name], self._holds[name]
        try:
            await query.poll(settings)
        except (OrchestratorError, OSError) as error:
            await self._failed(query, str(error), error, settings)
        except Exception as error:
            log.exception("query_failed", query=name)
            await self._failed(query, "there is a bug in the daemon; its log has the details", error, settings)
        else:
            clock.due = time.monotonic() + settings.every
            if ended := hold.end():
                await _note(query, IntakeKind.RECOVERED, ended)
        if clock.is_hurried:
            clock.due = 0.0
        elif clock.is_woken and not hold.why:
            clock.due = clock.polled + LEAST_BETWEEN
        elif clock.again and not hold.why:
            clock.due, clock.again = min(clock.due, clock.again), 0.0
        clock.is_busy = clock.is_woken = clock.is_hurried = False
        self._woken.set()

    async def _failed(self, query: Query, reason: str, error: Exception, settings: QuerySettings) -> None:
        hold, reason = self._holds[query.name], self.parts.redact(reason)
        if hold.begin(reason, error, time.monotonic(), every=min(settings.every, SLOWEST_TRY)):
            await _note(query, IntakeKind.FAILED, reason)
        self._clocks[query.name].due = hold.until


async def _note(query: Query, kind: IntakeKind, reason: str) -> None:
    """Record what concerns the query as a whole, if that is possible."""
    try:
        await query.record(kind, "", reason=reason)
    except OSError as error:
        log.warning("intake_not_recorded", reason=error.strerror)
