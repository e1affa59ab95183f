"""Read an agent's output from where reading stopped, and report its meaning as events.

The read offset is part of the decision that a line caused; between decisions it is telemetry, recorded in the same
order. So no line is lost and none is processed twice after a restart.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import assert_never

from orchestrator.agents.claude import Parser
from orchestrator.agents.framing import Framer, Line
from orchestrator.agents.markers import Markers
from orchestrator.agents.reset_text import reset_in
from orchestrator.agents.tools.calls import ToolCalls, calls_before
from orchestrator.agents.user_request_parser import asking_of_block, asking_of_request
from orchestrator.core.events import agent_events, events
from orchestrator.core.events.agent_messages import (
    AgentError,
    AgentMessage,
    DependencyRequest,
    Malformed,
    PhaseComplete,
    Question,
    TaskComplete,
    Verification,
    in_order,
)
from orchestrator.core.events.model_prices import cost_of
from orchestrator.core.task.agent import Agent
from orchestrator.core.task.usage_limits import window_of
from orchestrator.core.task.user_requests import Answer, RequestDraft
from orchestrator.processes.output import RunOutput, read_lines_from

READ_AT_ONCE, TAKEN_AT_ONCE = 1 << 16, 500
"""Bytes of one read, and lines that are processed at a time: other tasks wait for the event loop meanwhile."""
LAST_LINES = 1 << 20
"""Bytes before the end of a turn in which the line is looked for that ends it."""
LONGEST_RETRY = 3_600_000
"""Milliseconds; a longer delay that the CLI announces is cut to this."""
LONGEST_REQUEST = 16 * 1024 * 1024
"""Bytes of a CLI request that a person may answer: the answer must find and repeat it."""
LONGEST_NAME = 100
"""Characters of a tool's name."""
EARLIER = "begun earlier"
"""The description of a tool that was running already when reading began."""
MOST_MALFORMED = 10
MOST_KNOWN = 10_000
"""Running tools, and messages whose tokens are counted, in one turn."""
MOST_REFUSED = 1000
"""Requests of one attempt that are denied; further ones are ignored."""
MOST_TOKENS = 10**15
"""Of one attempt: more is implausible, and sums stay within what JSON can hold."""
MOST_USD = 10.0**9
ENVELOPE, BYTES_A_TOKEN = 500, 4
"""Bytes of a line of output that are not the model's, and those that a token of the model's has about."""
ZONE = "UTC"
"""Agents are started with this TZ, so that the zone of times in their messages is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderCallbacks:
    """Receivers of what a reader finds: events, telemetry, usage windows, and requests that no person can answer.

    `by_role` returns the answer that the role's own rules give.
    """

    event: Callable[[events.Event], None]
    telemetry: Callable[[Callable[[Agent], Agent]], None]
    asked: Callable[[agent_events.Asked], None]
    by_role: Callable[[RequestDraft], Answer | None]
    limit: Callable[[agent_events.Limit], None]
    clock: Callable[[], datetime]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tool:
    """A running tool: its name, what it does, and since when."""

    name: str
    what: str
    since: datetime | None


@dataclass(slots=True)
class _Turn:
    """The present turn so far; `open` has the running tools by their ids, the one begun first at the front.

    For each message `tokens` are those that it reports, `written` estimates its output, and `usd` what it costs.
    """

    tool_uses: int = 0
    open: dict[str, _Tool] = field(default_factory=dict)
    timed_out: list[str] = field(default_factory=list)
    malformed: list[str] = field(default_factory=list)
    tokens: dict[str, int] = field(default_factory=dict)
    written: dict[str, int] = field(default_factory=dict)
    usd: dict[str, float] = field(default_factory=dict)
    resets_at: datetime | None = None
    window: str | None = None
    retry_until: datetime | None = None

    def finished(self, tool: str) -> str:
        """Remove a finished tool and return what it did, "" if it is unknown."""
        earlier = (key for key, one in self.open.items() if one.what is EARLIER)
        known = self.open.pop(tool if tool in self.open else next(earlier, ""), None)
        return known.what if known else ""


def _turn_of(agent: Agent) -> _Turn:
    """Return the turn that an agent is in, as far as it was read before."""
    return _Turn(
        tool_uses=agent.turn.tool_uses,
        open={
            f"{EARLIER} {number}": _Tool(name=agent.turn.tool, what=EARLIER, since=agent.turn.tool_since)
            for number in range(agent.turn.open_tools)
        },
        timed_out=list(agent.turn.timed_out),
        tokens={EARLIER: agent.turn.tokens},
        usd={EARLIER: agent.turn.usd},
    )


class OutputReader:
    """Follows one attempt's output; `complaint` is its last error, which explains an end without a result."""

    def __init__(self, folder: Path, agent: Agent, parser: Parser, ears: ReaderCallbacks) -> None:
        self.complaint = ""
        self._output, self._parser, self._ears = RunOutput(folder), parser, ears
        self._attempt, self._read_to, self._told = agent.attempt, agent.read_offset, agent.read_offset
        self._framer, self._lines = Framer(start=agent.read_offset), deque[Line]()
        self._markers = Markers()
        self._calls = ToolCalls(lambda: calls_before(RunOutput(folder), parser, agent.read_offset))
        self._turn = _turn_of(agent)
        self._tokens = agent.usage.tokens - agent.usage.tokens_before_session
        self._refused = 0

    @property
    def offset(self) -> int:
        """The offset after the last processed line."""
        return self._told

    def read(self) -> bool:
        """Process some of the output; return False if that was all of it."""
        before = self._read_to, self._told
        is_all = False
        for _ in range(TAKEN_AT_ONCE):
            if self._lines:
                line = self._lines.popleft()
                self._take(line)
                self._told = line.end
                continue
            chunk, self._read_to = self._output.lines_from(self._read_to, READ_AT_ONCE)
            is_all = not chunk
            if is_all:
                break
            self._lines.extend(self._framer.push(chunk))
        if before != (self._read_to, self._told):
            self._note_progress()
        return not is_all

    def _take(self, line: Line) -> None:
        """Process a line; its requests and errors are one event, as reading continues after the whole line."""
        draft: list[RequestDraft] = []
        trouble: list[AgentError] = []
        for meaning in self._parser.parse(line.body):
            match meaning:
                case agent_events.Text(subagent=False, synthetic=False):
                    for said in in_order(self._markers.push(f"{meaning.text}\n")):
                        self._sort(said, draft, trouble)
                case agent_events.Asked():
                    start = line.end - len(line.body) - 1
                    found = asking_of_request(meaning, start) if len(line.body) <= LONGEST_REQUEST else ()
                    draft += found
                    self._refused += not found
                    if not found and self._refused <= MOST_REFUSED:
                        self._ears.asked(meaning)
                case agent_events.ToolStarted() | agent_events.ToolFinished():
                    if said_by_tool := self._calls.said(meaning, line.body):
                        self._sort(said_by_tool, draft, trouble)
                    self._hear(meaning)
                case agent_events.TurnResult():
                    for said in self._markers.flush():
                        self._sort(said, draft, trouble)
                    self._note_progress()  # the end of the turn is judged with its totals
                    self._finish_turn(meaning, line.end)
                case agent_events.TokenUsage():
                    self._count(meaning, len(line.body))
                case _:
                    self._hear(meaning)
        if draft or trouble:
            self._ears.event(
                events.AgentSaid(
                    at=self._ears.clock(),
                    attempt=self._attempt,
                    offset=line.end,
                    asking=tuple(draft),
                    trouble=next(iter(trouble), None),
                    answers=tuple(self._ears.by_role(one) for one in draft),
                )
            )

    def _sort(self, said: AgentMessage, draft: list[RequestDraft], trouble: list[AgentError]) -> None:
        """Sort a message. Completion claims are ignored: the gate runs after the turn."""
        match said:
            case Question() | DependencyRequest():
                draft.append(asking_of_block(said))
            case AgentError():
                trouble.append(said)
            case Malformed():
                self._turn.malformed.append(said.reason)
            case PhaseComplete() | TaskComplete() | Verification():
                pass
            case _:
                assert_never(said)

    def _count(self, used: agent_events.TokenUsage, size: int) -> None:
        """Count what a message used so far. Each of its lines adds to its output, of which it reports the beginning."""
        turn, name = self._turn, used.message_id
        if len(turn.tokens) < MOST_KNOWN or name in turn.tokens:
            turn.tokens[name] = used.tokens
            turn.written[name] = turn.written.get(name, 0) + max(0, size - ENVELOPE) // BYTES_A_TOKEN
            turn.usd[name] = cost_of(used, turn.written[name])

    def _hear(self, meaning: agent_events.AgentEvent) -> None:
        turn = self._turn
        match meaning:
            case agent_events.SessionOpened():
                self._ears.event(
                    events.SessionStarted(
                        at=self._ears.clock(),
                        attempt=self._attempt,
                        session_id=meaning.session_id,
                        model=meaning.model,
                        version=meaning.version,
                    )
                )
            case agent_events.ToolStarted():
                turn.tool_uses += 1
                if len(turn.open) < MOST_KNOWN:
                    what = meaning.summary or meaning.name
                    turn.open[meaning.id] = _Tool(name=meaning.name, what=what, since=self._ears.clock())
            case agent_events.ToolFinished():
                name = turn.finished(meaning.id)
                turn.timed_out += [name] if meaning.timed_out and name else []
            case agent_events.Text() if meaning.error:
                self.complaint = meaning.text
            case agent_events.Limit():
                self._ears.limit(meaning)
                if meaning.status is agent_events.LimitStatus.REJECTED:
                    turn.resets_at = window_of(meaning, self._ears.clock()).resets_at
                    turn.window = meaning.window
            case agent_events.Retry():
                turn.retry_until = self._ears.clock() + timedelta(milliseconds=min(meaning.delay_ms, LONGEST_RETRY))
            case agent_events.AskWithdrawn():
                gone = events.RequestWithdrawn(
                    at=self._ears.clock(), attempt=self._attempt, request_id=meaning.request_id
                )
                self._ears.event(gone)
            case _:
                pass

    def _finish_turn(self, result: agent_events.TurnResult, end: int) -> None:
        usage, turn, at = result.usage, self._turn, self._ears.clock()
        spent = usage.input_tokens + usage.output_tokens
        self._tokens = min(spent if usage.cumulative else self._tokens + spent, MOST_TOKENS)
        self.complaint = "" if result.outcome is agent_events.Outcome.OK else result.text or result.reason
        limited = result.error is agent_events.ErrorClass.USAGE_LIMIT
        self._ears.event(
            events.TurnFinished(
                at=at,
                attempt=self._attempt,
                outcome=events.TurnOutcome(result.outcome.value),
                reason=self.complaint[:500],
                error_class=result.error.value if result.error else None,
                offset=end,
                tool_uses=turn.tool_uses,
                tokens=self._tokens,
                cost_usd=result.cost_usd,
                resets_at=turn.resets_at or (reset_in(result.text, at, ZONE) if limited else None),
                window=turn.window,
                malformed=tuple(turn.malformed[:MOST_MALFORMED]),
            )
        )
        self._turn = _Turn()

    def _note_progress(self) -> None:
        offset, at, turn = self._told, self._ears.clock(), self._turn
        uses, at_work, late = turn.tool_uses, len(turn.open), tuple(turn.timed_out[:MOST_MALFORMED])
        tokens, retry_until = min(sum(turn.tokens.values()), MOST_TOKENS), turn.retry_until
        first = next(iter(turn.open.values()), None)
        usd = round(min(sum(turn.usd.values()), MOST_USD), 6)

        def heard(agent: Agent) -> Agent:
            return replace(
                agent,
                read_offset=max(offset, agent.read_offset),
                last_update=at,
                turn=replace(
                    agent.turn,
                    tool_uses=uses,
                    open_tools=at_work,
                    tool=first.name[:LONGEST_NAME] if first else "",
                    tool_since=first.since if first else None,
                    timed_out=late,
                    tokens=tokens,
                    usd=usd,
                    retry_until=retry_until,
                ),
            )

        self._ears.telemetry(heard)


def last_message(folder: Path, end: int) -> str:
    """Return the text with which the newest turn ended in a run's output before the offset `end`; empty if none did."""
    begin, parser = max(0, end - LAST_LINES), Parser()
    lines, _ = read_lines_from(folder, begin, end - begin)
    for line in reversed(lines.split(b"\n")):
        for event in parser.parse(line) if b'"result"' in line else ():
            if isinstance(event, agent_events.TurnResult):
                return event.text
    return ""
