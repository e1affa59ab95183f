"""Every recorded conversation of the real CLI means the same however it is split."""

from pathlib import Path

import orjson
import pytest

from orchestrator.agents.claude import Parser
from orchestrator.agents.framing import Framer
from orchestrator.core.events.agent_events import (
    AgentEvent,
    Answered,
    Asked,
    ErrorClass,
    Limit,
    LimitStatus,
    Noise,
    Outcome,
    Retry,
    SessionActivity,
    SessionOpened,
    SessionState,
    Text,
    TokenUsage,
    ToolFinished,
    ToolStarted,
    TurnResult,
    TurnUsage,
    Unknown,
)

RECORDINGS = Path(__file__).parents[2] / "data" / "recordings"

LAST_TURN = {
    "ask_user_question": (Outcome.OK, "completed", None),
    "auth_expired_401": (Outcome.FAILED, "api_error", ErrorClass.AUTHENTICATION),
    "connection_refused": (Outcome.FAILED, "api_error", ErrorClass.SERVER),
    "credit_too_low": (Outcome.FAILED, "api_error", ErrorClass.BILLING),
    "interrupt": (Outcome.OK, "completed", None),
    "limit_five_hour_then_resume": (Outcome.OK, "completed", None),
    "limit_weekly": (Outcome.FAILED, "api_error", ErrorClass.USAGE_LIMIT),
    "max_budget": (Outcome.FAILED, "budget_exhausted", ErrorClass.BUDGET),
    "max_turns": (Outcome.FAILED, "max_turns", ErrorClass.TURNS),
    "multi_turn_phases": (Outcome.OK, "completed", None),
    "not_logged_in": (Outcome.FAILED, "api_error", ErrorClass.AUTHENTICATION),
    "overloaded_529": (Outcome.FAILED, "api_error", ErrorClass.OVERLOADED),
    "partial_messages": (Outcome.OK, "completed", None),
    "pause_mid_answer": (Outcome.OK, "completed", None),
    "permission_request": (Outcome.OK, "completed", None),
    "resume_after_sigkill": (Outcome.OK, "completed", None),
    "resume_after_sigterm": (Outcome.OK, "completed", None),
    "resume_unknown_session": (Outcome.FAILED, "error_during_execution", ErrorClass.SESSION),
    "root_refused": (Outcome.FAILED, "bypass_root", ErrorClass.STARTUP),
    "session_id_in_use": None,
    "sigkill_mid_tool": None,
    "sigterm_mid_tool": None,
    "structured_output": (Outcome.OK, "completed", None),
    "text": (Outcome.OK, "completed", None),
    "throttled_429": (Outcome.FAILED, "api_error", ErrorClass.THROTTLED),
    "tool_timed_out": (Outcome.OK, "completed", None),
    "tool_use": (Outcome.OK, "completed", None),
}


def stream_of(recording: str) -> bytes:
    rows = map(orjson.loads, (RECORDINGS / f"{recording}.jsonl").read_bytes().splitlines())
    return b"".join(row["line"].encode() + b"\n" for row in rows if row.get("dir") == "out")


def read(stream: bytes, *, size: int | None = None) -> list[tuple[AgentEvent, int]]:
    """Return every event with the offset after its line; the stream comes in chunks of `size` bytes, or whole."""
    framer, parser, size = Framer(), Parser(), size or len(stream) or 1
    chunks = (stream[start : start + size] for start in range(0, len(stream), size))
    return [(event, line.end) for chunk in chunks for line in framer.push(chunk) for event in parser.parse(line.body)]


def events_of(recording: str) -> list[AgentEvent]:
    return [event for event, _ in read(stream_of(recording))]


def test_every_recording_is_in_the_table_of_outcomes() -> None:
    assert sorted(path.stem for path in RECORDINGS.glob("*.jsonl")) == sorted(LAST_TURN)


@pytest.mark.parametrize("recording", LAST_TURN)
def test_a_recording_means_the_same_whole_and_byte_by_byte_and_with_half_a_line_after_it(recording: str) -> None:
    stream = stream_of(recording)
    whole = read(stream)
    assert read(stream, size=1) == whole
    assert read(stream, size=1013) == whole
    assert read(stream + b'{"type":"result","subtype":"succ') == whole
    assert not whole or whole[-1][1] == len(stream)


@pytest.mark.parametrize("recording", LAST_TURN)
def test_reading_on_from_any_line_loses_none_and_repeats_none(recording: str) -> None:
    stream = stream_of(recording)
    whole = read(stream)
    for end in {end for _, end in whole}:
        framer, parser = Framer(start=end), Parser()
        later = [(event, line.end) for line in framer.push(stream[end:]) for event in parser.parse(line.body)]
        assert [pair for pair in whole if pair[1] <= end] + later == whole


@pytest.mark.parametrize(("recording", "expected"), LAST_TURN.items())
def test_the_last_turn_of_a_recording_has_the_recorded_outcome(
    recording: str, expected: tuple[Outcome, str, ErrorClass | None] | None
) -> None:
    turns = [event for event in events_of(recording) if isinstance(event, TurnResult)]
    assert ((turns[-1].outcome, turns[-1].reason, turns[-1].error) if turns else None) == expected


@pytest.mark.parametrize("recording", LAST_TURN)
def test_nothing_in_a_recording_is_unknown_or_noise(recording: str) -> None:
    assert [event for event in events_of(recording) if isinstance(event, Unknown | Noise)] == []


def test_a_tool_use_yields_a_short_list_of_events() -> None:
    events = events_of("tool_use")
    started = next(event for event in events if isinstance(event, SessionOpened))
    session = started.session_id
    assert started == SessionOpened(
        session_id=session,
        model="claude-opus-5-5",
        version="2.1.329",
        auth_source="ANTHROPIC_API_KEY",
        cwd="/home/agent/work",
        permission_mode="bypassPermissions",
    )
    tool = next(event for event in events if isinstance(event, ToolStarted))
    assert events[0] == SessionState(state=SessionActivity.RUNNING)
    assert (tool.name, tool.summary, tool.subagent) == ("Bash", "echo hi", False)
    assert ToolFinished(id=tool.id, ok=True, summary="hi", timed_out=False) in events
    assert Text(text="Done with bash.", subagent=False, synthetic=False, error=None) in events
    assert events[-2:] == [
        TurnResult(
            outcome=Outcome.OK,
            reason="completed",
            error=None,
            text="Done with bash.",
            http_status=None,
            cost_usd=0.0028,
            usage=TurnUsage(
                input_tokens=200, output_tokens=100, cache_read_tokens=0, cache_write_tokens=0, cumulative=True
            ),
            num_turns=2,
            structured_output=None,
            session_id=session,
        ),
        SessionState(state=SessionActivity.IDLE),
    ]


def test_a_tool_timeout_is_distinguished_from_a_failure_with_the_same_text() -> None:
    tools = [event for event in events_of("tool_timed_out") if isinstance(event, ToolFinished)]
    assert [(tool.ok, tool.timed_out) for tool in tools] == [
        (False, True),
        (False, False),
        (True, False),
        (True, False),
    ]
    assert "Command timed out after 1s" in tools[1].summary


def test_the_usage_of_a_running_turn_is_the_last_of_each_message_and_never_exceeds_the_total() -> None:
    for recording in LAST_TURN:
        events = events_of(recording)
        spent = {event.message_id: event.tokens for event in events if isinstance(event, TokenUsage)}
        used = [event.usage for event in events if isinstance(event, TurnResult)]
        assert not used or sum(spent.values()) <= used[-1].input_tokens + used[-1].output_tokens
    every = [event for event in events_of("tool_timed_out") if isinstance(event, TokenUsage)]
    assert (len(every), len({event.message_id for event in every})) == (8, 5)


def test_a_weekly_limit_is_rejected_and_has_its_reset() -> None:
    events = events_of("limit_weekly")
    assert (
        Limit(status=LimitStatus.REJECTED, window="seven_day", resets_at=1795310909, utilization=None, overage=False)
        in events
    )
    said = next(event for event in events if isinstance(event, Text))
    assert (said.synthetic, said.error) == (True, "rate_limit")


def test_an_ordinary_turn_of_a_subscription_reaches_no_limit() -> None:
    limits = [event for event in events_of("limit_five_hour_then_resume") if isinstance(event, Limit)]
    assert [limit.status for limit in limits] == [LimitStatus.ALLOWED, LimitStatus.ALLOWED]


def test_an_interrupted_turn_is_neither_ok_nor_failed_and_the_next_one_continues() -> None:
    events = events_of("interrupt")
    assert Answered(request_id="int-1", ok=True, error=None) in events
    turns = [event for event in events if isinstance(event, TurnResult)]
    assert [(turn.outcome, turn.error) for turn in turns] == [(Outcome.INTERRUPTED, None), (Outcome.OK, None)]
    assert turns[0].text.startswith("[ede_diagnostic]")


def test_retries_are_reported_with_their_delay_and_status() -> None:
    retries = [event for event in events_of("overloaded_529") if isinstance(event, Retry)]
    assert retries[0] == Retry(attempt=1, max_retries=2, delay_ms=533, status=529, error="overloaded")
    assert retries[1].attempt == 2


def test_a_question_carries_its_complete_input() -> None:
    asked = next(event for event in events_of("ask_user_question") if isinstance(event, Asked))
    assert (asked.subtype, asked.tool) == ("can_use_tool", "AskUserQuestion")
    assert isinstance(asked.input, dict)
    assert "Which database?" in str(asked.input["questions"])


def test_a_structured_answer_is_kept_as_a_value() -> None:
    turn = next(event for event in events_of("structured_output") if isinstance(event, TurnResult))
    assert turn.structured_output == {"ok": True}
