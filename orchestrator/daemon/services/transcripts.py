"""What agents said and did, read from their output and worded for people."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import assert_never

from orchestrator.agents.claude import Parser
from orchestrator.core.events import agent_events
from orchestrator.daemon.services.errors import NoSuchFile
from orchestrator.daemon.services.task_index import TaskIndex
from orchestrator.formats.files import parsed
from orchestrator.processes.output import end_of, output_files, read_lines_from
from orchestrator.processes.run_state import has_begun, is_alive
from orchestrator.storage.task_files import AGENTS, REMOVED, TaskFiles

PAGE = 1024 * 1024
"""Bytes of output that one page covers; a longer line is left out."""

KindAndText = tuple[str, str]

_parser = Parser()


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """An agent that worked or works on a task."""

    attempt: int
    alive: bool
    ended: bool
    transcript_bytes: int


@dataclass(frozen=True, slots=True)
class TranscriptLine:
    """One thing that an agent said or did; `offset` is where its line begins in the output, in bytes."""

    offset: int
    kind: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """A stretch of an agent's output; `ended` means that nothing follows `next_offset`."""

    attempt: int
    entries: tuple[TranscriptLine, ...]
    next_offset: int
    ended: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptService:
    """The use cases of transcripts; each raises NoSuchTask and AmbiguousName. Texts are not redacted yet."""

    index: TaskIndex
    files: TaskFiles

    async def attempts(self, name: str) -> list[Attempt]:
        """Return every agent of a task, oldest first."""
        task = await self.index.find(name)
        numbers = await asyncio.to_thread(self.files.attempts, task.id)
        folders = [self.files.run_folder(task.id, f"{AGENTS}/{number}") for number in numbers]
        return await asyncio.to_thread(lambda: list(map(_attempt, folders)))

    async def transcript(self, name: str, attempt: int, offset: int, *, raw: bool) -> Transcript:
        """Return a page of what an agent said and did from an offset on. Raises NoSuchFile."""
        return await asyncio.to_thread(_page, await self.folder(name, attempt), offset, raw)

    async def folder(self, name: str, attempt: int) -> Path:
        """Return the run folder of one of a task's agents. Raises NoSuchFile."""
        task = await self.index.find(name)
        folder = self.files.run_folder(task.id, f"{AGENTS}/{attempt}")
        if attempt < 1 or not folder.is_dir():
            known = ", ".join(map(str, await asyncio.to_thread(self.files.attempts, task.id)))
            raise NoSuchFile(f"{task.id} has no agent {attempt}; it has {known or 'had none yet'}")
        if removed := await asyncio.to_thread(self._removed, task.id, attempt, folder):
            raise NoSuchFile(removed)
        return folder

    def _removed(self, task_id: str, attempt: int, folder: Path) -> str:
        """Return that and why the transcript of an agent was removed; empty if it is there."""
        word = parsed(self.files.read(task_id, f"{AGENTS}/{attempt}/{REMOVED}"))
        if word is None or output_files(folder):
            return ""
        return f"the transcript of agent {attempt} was removed at {word.get('at')}: {word.get('rule')}"


def rendered(event: agent_events.AgentEvent) -> KindAndText | None:  # noqa: C901, PLR0912 - one line per event
    """Return what a person wants to read of an event; None for liveness and protocol events."""
    match event:
        case agent_events.SessionOpened():
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
            text = f"try {event.attempt} of {event.max_retries} in {event.delay_ms / 1000:.0f} s: {event.error}"
            return "retry", text
        case agent_events.Limit():
            window = event.window or "the account"
            return (
                ("limit", f"{window}: {event.status}") if event.status is not agent_events.LimitStatus.ALLOWED else None
            )
        case agent_events.TurnResult():
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


def _attempt(folder: Path) -> Attempt:
    alive = is_alive(folder)
    return Attempt(
        attempt=int(folder.name),
        alive=alive,
        ended=not alive and has_begun(folder),
        transcript_bytes=end_of(folder),
    )


def _page(folder: Path, offset: int, raw: bool) -> Transcript:
    """Read a page. Whether the run has ended is asked first, so that its last lines are not missed."""
    ended = has_begun(folder) and not is_alive(folder)
    chunk, after = read_lines_from(folder, offset, PAGE)
    entries = tuple(
        TranscriptLine(at, kind, text)
        for at, line in _lines(chunk, offset)
        for kind, text in ([("raw", line.decode("utf-8", "replace"))] if raw else _parsed(line))
    )
    return Transcript(attempt=int(folder.name), entries=entries, next_offset=after, ended=ended and not chunk)


def _lines(chunk: bytes, offset: int) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a chunk and where each begins; of a line longer than a page there is only a stretch."""
    for line in chunk.split(b"\n"):
        if line:
            yield offset, line
        offset += len(line) + 1


def _parsed(line: bytes) -> list[KindAndText]:
    if len(line) == PAGE:
        return [("noise", f"a line longer than {PAGE // 1024} KiB is left out")]
    return [entry for event in _parser.parse(line) if (entry := rendered(event)) is not None]
