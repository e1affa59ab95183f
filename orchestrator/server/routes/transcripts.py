"""What agents said and did, read from their output by logical offset and told in words for people."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, assert_never

import orjson
from fastapi import APIRouter, Query

from orchestrator.agents.claude import Parser
from orchestrator.core.events import agent_events
from orchestrator.processes.output import STDOUT, read_lines_from
from orchestrator.processes.run_state import has_begun, is_alive
from orchestrator.server.problems import NoSuchFile
from orchestrator.server.routes.tasks import TheBackend, TheTask
from orchestrator.server.schemas.records import AttemptLine, AttemptList, TranscriptPage
from orchestrator.server.schemas.views import to_view
from orchestrator.storage.task_files import AGENTS, TaskFiles

PAGE = 1024 * 1024
"""Bytes of output that one page tells of; a longer line is left out."""

Entry = tuple[str, str]
"""A kind and a text."""

_parser = Parser(orjson.loads)

router = APIRouter(prefix="/api/tasks/{name}/agents", tags=["agents"])


@router.get("")
async def agents(task: TheTask, backend: TheBackend) -> AttemptList:
    """Every agent that worked or works at the task, first ones first."""
    return AttemptList(attempts=tuple(await asyncio.to_thread(_attempts, backend.store.files, task.id)))


@router.get("/{attempt}/transcript")
async def transcript(
    task: TheTask,
    backend: TheBackend,
    attempt: int,
    offset: Annotated[int, Query(ge=0, lt=2**63)] = 0,
    raw: bool = False,
) -> TranscriptPage:
    """What an agent said and did from an offset on; ask again from `nextOffset` until `ended`."""
    folder = backend.store.files.run_folder(task.id, f"{AGENTS}/{attempt}")
    if attempt < 1 or not folder.is_dir():
        known = ", ".join(map(str, await asyncio.to_thread(backend.store.files.attempts, task.id)))
        raise NoSuchFile(f"{task.id} has no agent {attempt}; it has {known or 'had none yet'}")
    page = await asyncio.to_thread(_page, folder, offset, raw)
    return to_view(TranscriptPage, page, backend.redact)


def rendered(event: agent_events.AgentEvent) -> Entry | None:  # noqa: C901, PLR0912 - one line per event
    """What a person wants to read of an event; None for signs of life and for what belongs to machines."""
    match event:
        case agent_events.SessionStarted():
            return "session", f"{event.model}, CLI {event.version}, session {event.session_id}"
        case agent_events.Text():
            return ("error" if event.error else "text"), event.text
        case agent_events.Thinking():
            return ("thinking", event.text) if event.text else None
        case agent_events.ToolStarted():
            return "tool", f"{event.name}: {event.summary}" if event.summary else event.name
        case agent_events.ToolFinished():
            return ("result" if event.ok else "error", event.summary) if event.summary else None
        case agent_events.ToolDenied():
            return "denied", f"{event.name}: {event.reason}"
        case agent_events.Asked():
            return "asked", f"{event.subtype} {event.tool or ''}".rstrip()
        case agent_events.Retry():
            said = f"try {event.attempt} of {event.max_retries} in {event.delay_ms / 1000:.0f} s: {event.error}"
            return "retry", said
        case agent_events.Limit():
            window = event.window or "the account"
            return (
                ("limit", f"{window}: {event.status}") if event.status is not agent_events.LimitStatus.ALLOWED else None
            )
        case agent_events.TurnFinished():
            calls = "1 model call" if event.num_turns == 1 else f"{event.num_turns} model calls"
            return "turn", f"{event.outcome}, {event.reason}, {calls}, ${event.cost_usd:.2f}"
        case agent_events.Noise():
            return "noise", event.excerpt
        case (
            agent_events.AskWithdrawn()
            | agent_events.Answered()
            | agent_events.Delivered()
            | agent_events.SessionState()
            | agent_events.Progress()
            | agent_events.TokenUsage()
            | agent_events.Unknown()
        ):
            return None
        case _:
            assert_never(event)


def _attempts(files: TaskFiles, task_id: str) -> list[AttemptLine]:
    return [_attempt(files.run_folder(task_id, f"{AGENTS}/{number}"), number) for number in files.attempts(task_id)]


def _attempt(folder: Path, number: int) -> AttemptLine:
    alive = is_alive(folder)
    return AttemptLine(
        attempt=number,
        alive=alive,
        ended=not alive and has_begun(folder),
        transcript_bytes=sum(path.stat().st_size for path in folder.glob("*".join(STDOUT))),
    )


def _page(folder: Path, offset: int, raw: bool) -> dict[str, object]:
    """A page as its view takes it. Whether the run has ended is asked first, so that no last words are missed."""
    ended = has_begun(folder) and not is_alive(folder)
    chunk, after = read_lines_from(folder, offset, PAGE)
    entries = [
        {"offset": at, "kind": kind, "text": text}
        for at, line in _lines(chunk, offset)
        for kind, text in (_raw(line) if raw else _told(line))
    ]
    return {"attempt": int(folder.name), "entries": entries, "next_offset": after, "ended": ended and not chunk}


def _lines(chunk: bytes, offset: int) -> Iterator[tuple[int, bytes]]:
    """The lines of a chunk and where each begins; a stretch of a line that is longer than a page has no end."""
    for line in chunk.split(b"\n"):
        if line:
            yield offset, line
        offset += len(line) + 1


def _told(line: bytes) -> list[Entry]:
    if len(line) == PAGE:
        return [("noise", f"a line longer than {PAGE // 1024} KiB is left out")]
    return [entry for event in _parser.parse(line) if (entry := rendered(event)) is not None]


def _raw(line: bytes) -> list[Entry]:
    return [("raw", line.decode("utf-8", "replace"))]
