"""Windows of a transcript: some entries after or before an offset, of chosen kinds, with a text in them.

One request reads at most MOST_READ bytes of output and returns about as many entries as are asked for, however long the
transcript is; it says where the next one goes on. A text is searched for in what is shown, that is after masking:
whoever may not see a secret cannot find it by searching either.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from orchestrator.agents.claude import Parser
from orchestrator.agents.transcript.calls import Edit, ToolCall, ToolResult, calls_and_results
from orchestrator.core.events.agent_events import AgentEvent, ToolDenied, ToolFinished, ToolStarted
from orchestrator.daemon.history.aside import aside
from orchestrator.daemon.history.transcript_lines import PIECE, OutputLine, lines_after, lines_before
from orchestrator.daemon.services.transcripts import TranscriptService, rendered
from orchestrator.processes.output import RunOutput, end_of
from orchestrator.processes.run_state import has_begun, is_alive

MOST_READ = 8 * 1024 * 1024
"""Bytes of output that one request reads."""
MOST_ENTRIES = 500
MOST_LETTERS = 1_000_000
"""Characters of all entries of one window together, after which it ends early."""
KINDS = (
    *("text", "thinking", "tool", "result", "error", "denied"),
    *("asked", "retry", "limit", "turn", "session", "noise"),
)
"""What an entry can be."""

_MASK = "redacted"
"""What every mask holds; a search for it has to look behind the masks' places."""
_parser = Parser()


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptEntry:
    """One thing that an agent said or did; `offset` is where its line begins in the output, in bytes.

    A tool's call and its result are two entries with the same `tool`.
    """

    offset: int
    kind: str
    text: str
    tool: str = ""
    call: ToolCall | None = None
    result: ToolResult | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowQuery:
    """What to read: entries from the offset `at` on, or those before it; by default from the beginning, or the end.

    `kinds` are those to return, all if there are none; `text` must occur in each, in upper or lower case.
    """

    at: int | None = None
    backward: bool = False
    limit: int = 100
    kinds: frozenset[str] = frozenset()
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptWindow:
    """Entries in the order of the output, between the offsets `begin` and `end`; `size` is that of the whole output.

    `more` says that the search goes on in its direction; `ended` that the agent writes no more.
    """

    attempt: int
    entries: tuple[TranscriptEntry, ...]
    begin: int
    end: int
    size: int
    more: bool
    ended: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowService:
    """The use case of looking at a part of a transcript; texts leave masked."""

    transcripts: TranscriptService
    redact: Callable[[str], str] = field(repr=False)

    async def window(self, name: str, attempt: int, query: WindowQuery) -> TranscriptWindow:
        """Return a part of what an agent said and did. Raises NoSuchTask, AmbiguousName and NoSuchFile."""
        folder = await self.transcripts.folder(name, attempt)
        return await aside(self._window, folder, query)

    def _window(self, folder: Path, query: WindowQuery) -> TranscriptWindow:
        ended = has_begun(folder) and not is_alive(folder)
        output, size = RunOutput(folder), end_of(folder)
        at = min(size if query.backward else 0, size) if query.at is None else min(query.at, size)
        lines = lines_before(output, at, MOST_READ) if query.backward else lines_after(output, at)
        taken = self._taken(lines, at, query)
        begin, end = (taken.reached, at) if query.backward else (at, taken.reached)
        more = begin > 0 if query.backward else end < size and not taken.is_exhausted
        entries = reversed(taken.entries) if query.backward else taken.entries
        return TranscriptWindow(
            attempt=int(folder.name),
            entries=tuple(entries),
            begin=begin,
            end=end,
            size=size,
            more=more,
            ended=ended and (query.backward or not more),
        )

    def _taken(self, lines: Iterable[OutputLine], at: int, query: WindowQuery) -> "_Taken":
        """Return the wanted entries in the order of the lines, until there are enough."""
        taken, letters = _Taken(reached=at), 0
        for line in lines:
            read = abs((line.start if query.backward else line.end) - at)
            found = self._wanted(line, query)
            if taken.entries and found and found[0].kind == "noise" and found[0].offset == taken.entries[-1].offset:
                found = []  # more of the same long line
            taken.entries += reversed(found) if query.backward else found
            taken.reached = line.start if query.backward else line.end
            letters += sum(_length(one) for one in found)
            if len(taken.entries) >= query.limit or letters > MOST_LETTERS or read > MOST_READ - PIECE:
                return taken
        taken.is_exhausted = True
        return taken

    def _wanted(self, line: OutputLine, query: WindowQuery) -> list[TranscriptEntry]:
        """Return the wanted entries of a line, masked; masking takes longest, so it comes last."""
        likely = (one for one in _entries(line) if _MASK in query.text.casefold() or _is_wanted(one, query))
        return [one for one in (_masked(one, self.redact) for one in likely) if _is_wanted(one, query)]


@dataclass(slots=True)
class _Taken:
    """Entries taken so far, the offset that was reached, and whether there are no more lines."""

    reached: int
    entries: list[TranscriptEntry] = field(default_factory=list)
    is_exhausted: bool = False


def _entries(line: OutputLine) -> Iterator[TranscriptEntry]:
    if line.body is None:
        text = f"a line longer than {PIECE // 1024} KiB is left out"
        yield TranscriptEntry(offset=line.start, kind="noise", text=text)
        return
    details = calls_and_results(line.body)
    made = (_entry(line.start, event, details) for event in _parser.parse(line.body))
    yield from (one for one in made if one is not None)


def _entry(offset: int, event: AgentEvent, details: Mapping[str, ToolCall | ToolResult]) -> TranscriptEntry | None:
    match event:
        case ToolStarted():
            kind, text = rendered(event) or ("tool", event.name)
            call = details.get(event.id)
            return TranscriptEntry(
                offset=offset,
                kind=kind,
                text=text,
                tool=event.id,
                call=call if isinstance(call, ToolCall) else None,
            )
        case ToolFinished():
            result = details.get(event.id)
            return TranscriptEntry(
                offset=offset,
                kind="result" if event.ok else "error",
                text=event.summary,
                tool=event.id,
                result=result if isinstance(result, ToolResult) else None,
            )
        case _:
            found = rendered(event)
            tool = event.id if isinstance(event, ToolDenied) else ""
            return None if found is None else TranscriptEntry(offset=offset, kind=found[0], text=found[1], tool=tool)


def _masked(one: TranscriptEntry, redact: Callable[[str], str]) -> TranscriptEntry:
    call, result = one.call, one.result
    if call is not None:
        edits = tuple(_masked_edit(edit, redact) for edit in call.edits)
        call = replace(call, name=redact(call.name), input=redact(call.input), edits=edits)
    if result is not None:
        result = replace(result, text=redact(result.text))
    return replace(one, text=redact(one.text), call=call, result=result)


def _masked_edit(edit: Edit, redact: Callable[[str], str]) -> Edit:
    return replace(edit, path=redact(edit.path), old=redact(edit.old), new=redact(edit.new))


def _is_wanted(one: TranscriptEntry, query: WindowQuery) -> bool:
    if query.kinds and one.kind not in query.kinds:
        return False
    wanted = query.text.casefold()
    return not wanted or any(wanted in text.casefold() for text in _texts(one))


def _texts(one: TranscriptEntry) -> Iterable[str]:
    yield one.text
    if one.call is not None:
        yield one.call.input
        for edit in one.call.edits:
            yield from (edit.path, edit.old, edit.new)
    if one.result is not None:
        yield one.result.text


def _length(one: TranscriptEntry) -> int:
    return sum(map(len, _texts(one)))
