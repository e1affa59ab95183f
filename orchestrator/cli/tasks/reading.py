"""Where to begin to read what agents said: at a time, or so many lines before the end."""

from collections import deque
from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from orchestrator.server.client import Client
from orchestrator.server.schemas.records import JournalEntry, TranscriptEntry, TranscriptPage

AGENT = "/agent/"
"""Where a decision changes what the state says of the agent."""
JOURNAL_PAGE = 1000


class Place(NamedTuple):
    """A place in the output of a task's agents: which agent, and bytes."""

    attempt: int
    offset: int


def place_at(client: Client, task: str, since: datetime) -> Place:
    """Return how far the agents' output was read at a time, by the journal: each decision says that of its line."""
    attempt, offset = 0, 0
    for entry in _journal(client, task):
        if entry.timestamp > since:
            break
        changed = _agent_changes(entry)
        if isinstance(now := changed.get("attempt"), int):
            attempt, offset = now, 0
        if isinstance(read := changed.get("read_offset"), int):
            offset = read
    return Place(max(1, attempt), offset)


def last_entries(pages: Iterator[TranscriptPage], most: int) -> Iterator[TranscriptPage]:
    """Yield the pages with their last entries alone, at most so many."""
    kept: deque[tuple[TranscriptPage, TranscriptEntry]] = deque(maxlen=most)
    for page in pages:
        kept.extend((page, entry) for entry in page.entries)
    for page, entry in kept:
        yield page.model_copy(update={"entries": (entry,)})


def _journal(client: Client, task: str) -> Iterator[JournalEntry]:
    since = 0
    while True:
        page = client.journal(task, since, JOURNAL_PAGE)
        yield from page.entries
        if not page.entries or page.next_since == since:
            return
        since = page.next_since


def _agent_changes(entry: JournalEntry) -> dict[str, object]:
    """Return what a decision changed of the agent, by name."""
    changes = entry.change if isinstance(entry.change, list) else []
    pairs = ((str(one.get("path")), one.get("value")) for one in changes if isinstance(one, dict))
    return {path.removeprefix(AGENT): value for path, value in pairs if path.startswith(AGENT)}
