"""What a query remembers: which tickets it has handled, what became of them, and the ETag of its last poll.

It is one file for each query in `intake/queries` of the data folder, replaced whole with each change. A file that is
damaged, or of another format, is set aside, and every ticket that the query finds then counts as new; a live task of
the same ticket is not made twice even so.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path

import structlog

from orchestrator.formats.files import make_private, read_file
from orchestrator.formats.versioned import decode_versioned, write_versioned

log = structlog.get_logger()

FORMAT = 1
MOST_TICKETS = 10_000
"""Tickets that are remembered; beyond that those are forgotten first that left the query longest ago."""


class TicketState(StrEnum):
    """What became of a ticket."""

    TAKEN = "taken"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTicket:
    """A ticket that was handled: `task` was made of it, `reason` says why it was refused; `updated` is its version.

    `left_at` is when the query no longer found it. `is_over` says that the tracker called it closed or gone since, and
    that this was acted upon.
    """

    url: str
    state: TicketState
    at: datetime
    task: str = ""
    reason: str = ""
    updated: str = ""
    left_at: datetime | None = None
    is_over: bool = False
    times: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryState:
    """What one query remembers. `search` says what was asked for: the ETag is that of its answer alone."""

    search: str = ""
    etag: str = ""
    polled_at: datetime | None = None
    tickets: Mapping[str, KnownTicket] = field(default_factory=dict)

    def with_ticket(self, key: str, ticket: KnownTicket) -> "QueryState":
        """Return the state with a ticket as it is now."""
        tickets = {**self.tickets, key: ticket}
        if len(tickets) > MOST_TICKETS:
            gone = [(one.left_at, name) for name, one in tickets.items() if one.left_at is not None]
            for _, name in sorted(gone)[: len(tickets) - MOST_TICKETS]:
                del tickets[name]
        return replace(self, tickets=tickets)


def load_state(path: Path) -> QueryState:
    """Return what a query remembers; nothing if there is no file. Blocks. Raises OSError."""
    content = read_file(path)
    if content == b"":
        return QueryState()
    try:
        return decode_versioned(QueryState, content, FORMAT)
    except ValueError as error:
        return _set_aside(path, str(error))


def _set_aside(path: Path, why: str) -> QueryState:
    aside = path.with_name(f"{path.name}.damaged")
    path.replace(aside)
    log.warning("intake_state_set_aside", file=str(aside), reason=why)
    return QueryState()


def save_state(path: Path, state: QueryState) -> None:
    """Write what a query remembers and wait for the disk. Blocks. Raises OSError."""
    write_versioned(make_private(path.parent) / path.name, state, FORMAT)
