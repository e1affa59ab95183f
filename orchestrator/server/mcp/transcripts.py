"""A stretch of a transcript that is short enough for an assistant."""

from collections.abc import Sequence

from orchestrator.daemon.service import Service
from orchestrator.daemon.services.errors import NoSuchFile
from orchestrator.server.mcp.arguments import Stretch
from orchestrator.server.routes import records
from orchestrator.server.schemas.records import TranscriptEntry, TranscriptPage

END = 256 * 1024
"""Bytes before the end of an agent's output that are looked at for its newest entries."""
LARGEST = 30_000
"""Characters of a stretch, and twenty times those of one entry."""


async def transcript(service: Service, given: Stretch) -> TranscriptPage:
    """Return the newest entries, or those from an offset on; the next ones begin at `next_offset`."""
    attempts = {one.attempt: one for one in (await records.agents(given.task, service)).attempts}
    if not attempts and given.attempt is None:
        raise NoSuchFile(f"{given.task!r:.80} has had no agent yet; `why` says what it waits for")
    number = given.attempt or max(attempts)
    if given.offset is not None:
        page = await records.transcript(given.task, service, number, given.offset)
        return _beginning(page, given.entries)
    size = attempts[number].transcript_bytes if number in attempts else 0
    page = await records.transcript(given.task, service, number, max(0, size - END))
    whole = page.entries if size <= END else page.entries[1:]  # the first is a part of a line
    return page.model_copy(update={"entries": _last(whole, given.entries)})


def _beginning(page: TranscriptPage, most: int) -> TranscriptPage:
    """Return a page up to a line end, so that the rest can be asked for; one line may hold more entries than `most`."""
    kept: list[TranscriptEntry] = []
    size = 0
    for entry in map(_short, page.entries):
        is_full = len(kept) >= most or size + len(entry.text) > LARGEST
        if kept and is_full and entry.offset != kept[-1].offset:
            return page.model_copy(update={"entries": tuple(kept), "next_offset": entry.offset, "ended": False})
        kept.append(entry)
        size += len(entry.text)
    return page.model_copy(update={"entries": tuple(kept)})


def _last(entries: Sequence[TranscriptEntry], most: int) -> tuple[TranscriptEntry, ...]:
    kept: list[TranscriptEntry] = []
    size = 0
    for entry in map(_short, reversed(entries)):
        size += len(entry.text)
        if len(kept) == most or size > LARGEST:
            break
        kept.append(entry)
    return tuple(reversed(kept))


def _short(entry: TranscriptEntry) -> TranscriptEntry:
    most, cut = LARGEST // 20, len(entry.text) - LARGEST // 20
    text = entry.text if cut <= 0 else f"{entry.text[:most]}… [{cut} characters more]"
    return entry.model_copy(update={"text": text})
