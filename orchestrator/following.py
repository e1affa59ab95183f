"""Reading an agent's output from where reading stopped, and telling what it means as events.

How far output was read is part of the decision that a line caused; between decisions it is telemetry, noted in the same
order. So after a restart no line is lost and none is taken twice.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from orchestrator.core import events
from orchestrator.core.model import Agent
from orchestrator.core.stream import neutral
from orchestrator.core.stream.claude import Parser
from orchestrator.core.stream.framing import Framer
from orchestrator.processes.output import Output

READ_AT_ONCE = 1 << 20
"""Bytes per reading."""
LAST_SECOND = 4_102_444_800
"""The year 2100 in epoch seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ears:
    """Whom a follower tells: events, telemetry, and requests of the agent that need an answer."""

    event: Callable[[events.Event], None]
    telemetry: Callable[[Callable[[Agent], Agent]], None]
    asked: Callable[[neutral.Asked], None]
    clock: Callable[[], datetime]


class Follower:
    """Follows one attempt's output; the last complaint it heard explains an end without a result."""

    def __init__(self, folder: Path, agent: Agent, parser: Parser, ears: Ears) -> None:
        self.complaint = ""
        self._output, self._parser, self._ears = Output(folder), parser, ears
        self._attempt, self._read_to, self._told = agent.attempt, agent.read_offset, agent.read_offset
        self._framer = Framer(start=agent.read_offset)
        self._tool_uses = agent.tool_uses
        self._resets_at: datetime | None = None
        self._tokens = agent.tokens_used - agent.tokens_before

    @property
    def offset(self) -> int:
        """Where the last line taken in ends."""
        return self._told

    def read(self) -> None:
        """Take in everything there is."""
        while True:
            chunk, following = self._output.lines_from(self._read_to, READ_AT_ONCE)
            if not chunk:
                return
            self._read_to = following
            for line in self._framer.push(chunk):
                for meaning in self._parser.parse(line.body):
                    self._hear(meaning, line.end)
                self._told = line.end
            self._note_progress()

    def _hear(self, meaning: neutral.Neutral, end: int) -> None:
        match meaning:
            case neutral.SessionStarted():
                self._ears.event(
                    events.SessionStarted(
                        at=self._ears.clock(),
                        attempt=self._attempt,
                        session_id=meaning.session_id,
                        model=meaning.model,
                        version=meaning.version,
                    )
                )
            case neutral.ToolStarted():
                self._tool_uses += 1
            case neutral.Text() if meaning.error:
                self.complaint = meaning.text
            case neutral.Limit(status=neutral.LimitStatus.REJECTED):
                self._resets_at = _time(meaning.resets_at)
            case neutral.Asked():
                self._ears.asked(meaning)
            case neutral.TurnFinished():
                self._finish_turn(meaning, end)

    def _finish_turn(self, result: neutral.TurnFinished, end: int) -> None:
        usage = result.usage
        spent = usage.input_tokens + usage.output_tokens
        self._tokens = spent if usage.cumulative else self._tokens + spent
        ok = result.outcome is neutral.Outcome.OK
        self.complaint = "" if ok else result.text or result.reason
        self._ears.event(
            events.TurnFinished(
                at=self._ears.clock(),
                attempt=self._attempt,
                outcome=events.TurnOutcome.OK if ok else events.TurnOutcome.FAILED,
                reason=self.complaint[:500],
                error_class=result.error.value if result.error else None,
                offset=end,
                tool_uses=self._tool_uses,
                tokens=self._tokens,
                cost_usd=result.cost_usd,
                resets_at=self._resets_at,
            )
        )
        self._tool_uses, self._resets_at = 0, None

    def _note_progress(self) -> None:
        offset, tool_uses, at = self._told, self._tool_uses, self._ears.clock()
        self._ears.telemetry(
            lambda agent: replace(
                agent, read_offset=max(offset, agent.read_offset), tool_uses=tool_uses, last_update=at
            )
        )


def _time(epoch_seconds: int | None) -> datetime | None:
    """The moment that a number of seconds means; None for one that cannot be meant."""
    if epoch_seconds is None or not 0 < epoch_seconds < LAST_SECOND:
        return None
    return datetime.fromtimestamp(epoch_seconds, UTC)
