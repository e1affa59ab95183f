"""One query: the tickets that it finds on a tracker become tasks, once each, and its closed tickets close theirs.

* A ticket that is new in the query becomes a task. One that was refused is tried again when somebody changed it.
* A ticket that was closed and comes back becomes another task if the first one has ended and `reopened` says so; while
  that is live, it is the task of the ticket. That a list lacks a ticket does not mean that it was closed: a list may be
  empty by mistake, or a label taken off. Each ticket that a list lacks is asked for itself.
* When a ticket was closed, its task is cancelled if it has not begun and `closed` says so; else this is recorded.

Nothing of a ticket is taken from the list: each is fetched by its address when it is submitted.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import structlog

from orchestrator.core.task.task import Task, TaskStatus
from orchestrator.daemon.intake.once import SubmitsOnce
from orchestrator.daemon.intake.query_state import KnownTicket, QueryState, TicketState, load_state, save_state
from orchestrator.daemon.intake.records import LONGEST_REASON, IntakeKind, IntakeRecords, record_of
from orchestrator.daemon.intake.waiting import is_common_fault
from orchestrator.daemon.task_factory import AlreadyActive, Submission
from orchestrator.errors import OrchestratorError
from orchestrator.integrations.errors import AuthenticationFailed, RemoteError, Unreachable
from orchestrator.integrations.tickets.polling import FoundTicket, Standing, TicketSearch
from orchestrator.integrations.tickets.text.ticket import Tracker
from orchestrator.integrations.tickets.trackers import Trackers
from orchestrator.redaction.display import escape_text
from orchestrator.settings.sections.intake import QuerySettings
from orchestrator.workspaces.repository import RepositoryError

log = structlog.get_logger()

MOST_TRIES = 3
"""Failures in one poll after which it ends, and of one ticket after which it is refused if others become tasks."""
MOST_ASKED = 20
"""Tickets whose standing is asked for in one poll: so many with live tasks, and so many with ended ones."""
ENDED_EVERY = timedelta(hours=1)
"""How often the standing of a ticket whose task has ended is asked for."""


class PollFailed(OrchestratorError):
    """A query cannot be carried out; no ticket is to blame."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryParts:
    """What queries work with. `task_of` returns a live task, `tasks_waiting` how many tasks of each source wait for a
    slot, `cancel` cancels one for somebody; `trackers` and `pipelines` return those in force now.
    """

    folder: Path
    once: SubmitsOnce
    records: IntakeRecords
    trackers: Callable[[], Trackers]
    pipelines: Callable[[], Collection[str]]
    task_of: Callable[[str], Task | None]
    tasks_waiting: Callable[[], Awaitable[Mapping[str, int]]]
    cancel: Callable[[str, str], Awaitable[object]]
    redact: Callable[[str], str]
    clock: Callable[[], datetime]


@dataclass(slots=True, kw_only=True)
class Query:
    """A query by its name; one poll at a time."""

    name: str
    parts: QueryParts
    state: QueryState = field(default_factory=QueryState)
    waits: str = ""
    """Why a new ticket is not taken now, "" if all are."""
    _is_loaded: bool = False
    _failed: dict[str, int] = field(default_factory=dict)
    _asked: dict[str, datetime] = field(default_factory=dict)
    """When the standing of a ticket that left was asked for last."""

    @property
    def source(self) -> str:
        """What its records and tasks name as their source."""
        return f"query {self.name}"

    async def load(self) -> None:
        """Read what it remembers, once. Raises OSError."""
        if not self._is_loaded:
            self.state = await asyncio.to_thread(load_state, self._path)
            self._is_loaded = True

    async def poll(self, settings: QuerySettings) -> None:
        """Ask the tracker and act upon what it says. Raises RemoteError, NoTicket, PollFailed and OSError."""
        await self.load()
        if settings.pipeline and settings.pipeline not in self.parts.pipelines():
            raise PollFailed(f"there is no pipeline {settings.pipeline!r}; correct [queries.{self.name}] pipeline")
        search = search_of(settings)
        is_same = self.state.search == repr(search)
        found = await self.parts.trackers().poll(search, self.state.etag if is_same else "")
        self.waits = ""
        if found.tickets is not None and found.whole:
            self._note_those_that_left({ticket.key for ticket in found.tickets})
        await self._follow_those_that_left(settings)
        if found.tickets is not None:
            is_done = await self._take_new(found.tickets, settings)
            self.state = replace(self.state, search=repr(search), etag=found.etag if is_done else "")
        await self._save(replace(self.state, polled_at=self.parts.clock()))

    async def record(self, kind: IntakeKind, name: str, **about: str) -> None:
        """Record what happened to a ticket, or to the query as a whole. Raises OSError."""
        parts = self.parts
        cleaned = {field: escape_text(parts.redact(value), LONGEST_REASON) for field, value in about.items()}
        record = record_of(parts.clock(), self.source, kind, escape_text(name), cleaned)
        await asyncio.to_thread(parts.records.add, record)

    @property
    def _path(self) -> Path:
        return self.parts.folder / f"{self.name}.json"

    async def _save(self, state: QueryState) -> None:
        self.state = state
        await asyncio.to_thread(save_state, self._path, state)

    def _live(self, known: KnownTicket) -> Task | None:
        task = self.parts.task_of(known.task) if known.task else None
        return None if task is None or task.status.is_final else task

    def _watched(self) -> list[str]:
        """Return the tickets to ask for: those that left the query, and of which it is not known that they were closed.

        Those with live tasks come first, and of these and the others the ones that were asked for longest ago.
        """
        unsettled = (one for one in self.state.tickets.items() if one[1].left_at is not None and not one[1].is_over)
        left = {key: self._live(one) is not None for key, one in unsettled if one.state is TicketState.TAKEN}
        self._asked = {key: at for key, at in self._asked.items() if key in left}
        earliest, latest = datetime.min.replace(tzinfo=UTC), self.parts.clock() - ENDED_EVERY
        order = sorted(left, key=lambda key: self._asked.get(key, earliest))
        live = [key for key in order if left[key]]
        ended = [key for key in order if not left[key] and self._asked.get(key, earliest) <= latest]
        return [*live[:MOST_ASKED], *ended[:MOST_ASKED]]

    async def _take_new(self, tickets: tuple[FoundTicket, ...], settings: QuerySettings) -> bool:
        """Submit the tickets that are new; return whether none has to wait.

        Raises what keeps all of them from becoming tasks. One with which that happens again and again while others
        become tasks is refused, so that it cannot block them.
        """
        failed: list[tuple[FoundTicket, Exception]] = []
        taken = room = 0
        for ticket in tickets:
            known = self.state.tickets.get(ticket.key)
            if known is not None and not self._is_new(known, ticket, settings):
                if known.left_at is not None:
                    back = replace(known, left_at=None, is_over=False)
                    self.state = self.state.with_ticket(ticket.key, back)  # saved when the poll ends
                continue
            if room == 0:
                queued = (await self.parts.tasks_waiting()).get(self.source, 0)
                room = settings.most_waiting - queued
            if room <= 0:
                self.waits = f"{queued} of its tasks wait to begin, and it adds none beyond {settings.most_waiting}"
                return False
            try:
                await self._take(ticket, known, settings)
            except (OrchestratorError, OSError) as error:
                failed.append((ticket, error))
                if len(failed) == MOST_TRIES:
                    break
            else:
                taken, room = taken + 1, room - 1
        if failed and not taken:
            raise failed[0][1]
        for ticket, why in failed:
            await self._give_up(ticket, why)
        return not failed

    async def _give_up(self, ticket: FoundTicket, error: Exception) -> None:
        """Count a failure that looks like everybody's, and refuse the ticket when it seems to be its own."""
        self._failed[ticket.key] = self._failed.get(ticket.key, 0) + 1
        if self._failed[ticket.key] >= MOST_TRIES:
            del self._failed[ticket.key]
            known = self.state.tickets.get(ticket.key)
            await self._refuse(ticket, known.times if known else 0, str(error))

    def _is_new(self, known: KnownTicket, ticket: FoundTicket, settings: QuerySettings) -> bool:
        if known.state is TicketState.REFUSED:
            return ticket.updated != known.updated
        came_back = known.left_at is not None and known.is_over and self._live(known) is None
        return came_back and settings.reopened == "again"

    async def _take(self, ticket: FoundTicket, known: KnownTicket | None, settings: QuerySettings) -> None:
        """Submit a ticket and remember what became of it."""
        times = known.times + 1 if known else 1
        key = f"{self.source}:{ticket.url}:{times}"
        handled = KnownTicket(
            url=ticket.url, state=TicketState.TAKEN, at=self.parts.clock(), updated=ticket.updated, times=times
        )
        evidence = f"{ticket.url} changed {ticket.updated}"
        try:
            task = await self.parts.once.submit(key, _submission(ticket, settings), self.source)
        except AlreadyActive as error:
            await self.record(IntakeKind.REFUSED, ticket.key, title=ticket.title, reason=str(error), evidence=evidence)
            await self._save(self.state.with_ticket(ticket.key, replace(handled, reason=str(error))))
            return
        except (OrchestratorError, OSError) as error:
            if is_common_fault(error) or isinstance(error, RepositoryError):
                raise
            await self._refuse(ticket, times - 1, str(error))
            return
        await self.record(IntakeKind.TAKEN, ticket.key, title=ticket.title, task=task, evidence=evidence)
        await self._save(self.state.with_ticket(ticket.key, replace(handled, task=task)))
        await self.parts.once.forget(key)
        log.info("ticket_taken", query=self.name, ticket=ticket.key, task=task)

    async def _refuse(self, ticket: FoundTicket, times: int, why: str) -> None:
        reason, evidence = self.parts.redact(why), f"{ticket.url} changed {ticket.updated}"
        await self.record(IntakeKind.REFUSED, ticket.key, title=ticket.title, reason=reason, evidence=evidence)
        refused = KnownTicket(
            url=ticket.url,
            state=TicketState.REFUSED,
            at=self.parts.clock(),
            reason=reason,
            updated=ticket.updated,
            times=times,
        )
        await self._save(self.state.with_ticket(ticket.key, refused))
        log.warning("ticket_refused", query=self.name, ticket=ticket.key, reason=reason)

    def _note_those_that_left(self, listed: Collection[str]) -> None:
        """Note which tickets the query no longer finds."""
        now, tickets = self.parts.clock(), dict(self.state.tickets)
        for key, known in tickets.items():
            if key not in listed and known.left_at is None:
                tickets[key] = replace(known, left_at=now)
        self.state = replace(self.state, tickets=tickets)

    async def _follow_those_that_left(self, settings: QuerySettings) -> None:
        """Ask how the tickets are that the query no longer finds, and act upon those that were closed."""
        for key in self._watched():
            known = self.state.tickets[key]
            self._asked[key] = self.parts.clock()
            try:
                standing = await self.parts.trackers().standing(known.url)
            except RemoteError as error:
                if self._live(known) is not None or isinstance(error, Unreachable | AuthenticationFailed):
                    raise
                log.warning("ticket_unknown", query=self.name, ticket=key, reason=self.parts.redact(str(error)))
                continue
            if standing is not Standing.OPEN:
                await self._close(key, known, standing, settings)

    async def _close(self, key: str, known: KnownTicket, standing: Standing, settings: QuerySettings) -> None:
        """Note that a ticket was closed: its task, if live, is cancelled, or it is recorded that it goes on."""
        task = self._live(known)
        if task is None:
            await self._save(self.state.with_ticket(key, replace(known, is_over=True)))
            return
        has_begun = task.timing.started_at is not None or task.status not in {TaskStatus.PENDING, TaskStatus.DRAFT}
        is_cancelled = standing is Standing.CLOSED and settings.closed == "cancel" and not has_begun
        if is_cancelled:
            await self.parts.cancel(task.id, f"{self.source}, because {key} was closed")
            await self.record(IntakeKind.CANCELLED, key, task=task.id, reason="its ticket was closed before it began")
        else:
            what = "was closed" if standing is Standing.CLOSED else "is gone, or hidden from our account"
            why = f"its ticket {what}, and the task goes on; to end it: orchestrator cancel {task.id}"
            await self.record(IntakeKind.CLOSED, key, task=task.id, reason=why)
        log.warning("ticket_closed", query=self.name, ticket=key, task=task.id, cancelled=is_cancelled)
        await self._save(self.state.with_ticket(key, replace(known, is_over=True)))


def search_of(settings: QuerySettings) -> TicketSearch:
    """Return what a query asks for."""
    return TicketSearch(
        tracker=Tracker(settings.tracker), project=settings.project, labels=settings.labels, jql=settings.jql
    )


def _submission(ticket: FoundTicket, settings: QuerySettings) -> Submission:
    return Submission(
        text=ticket.url,
        repo=settings.repo,
        pipeline=settings.pipeline or None,
        autonomy=settings.autonomy,
        usd=settings.budget,
    )
