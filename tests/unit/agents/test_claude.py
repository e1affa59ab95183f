"""Parsing single lines of the CLI's output, especially hostile ones."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.agents.claude import TEXT, Parser
from orchestrator.core.events.agent_events import (
    AgentEvent,
    Answered,
    Asked,
    AskWithdrawn,
    Delivered,
    Delivery,
    ErrorClass,
    Limit,
    LimitStatus,
    Noise,
    Outcome,
    Progress,
    SessionState,
    Text,
    Thinking,
    TokenUsage,
    ToolDenied,
    ToolFinished,
    ToolStarted,
    TurnResult,
    Unknown,
)
from orchestrator.formats.codec import Json
from orchestrator.formats.fields import share_of

COMPLETED: dict[str, Json] = {
    "type": "result", "subtype": "success", "is_error": False, "terminal_reason": "completed",
    "stop_reason": "end_turn", "result": "done", "session_id": "s",
}  # fmt: skip


def parse(message: Json) -> tuple[AgentEvent, ...]:
    return Parser().parse(orjson.dumps(message))


def turn(**changes: Json) -> TurnResult:
    (event,) = parse(COMPLETED | changes)
    assert isinstance(event, TurnResult)
    return event


@pytest.mark.parametrize(
    "body",
    [
        b"[SandboxDebug] hello",
        b'{"type":"result"',
        b'{"type":"result","result":"\x00"}',
        b"\xff\xfe{}",
        b"[]",
        b"7",
        b"null",
        b'"type"',
        b"[" * 100_000,
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    ],
    ids=lambda body: repr(body[:20]),
)
def test_a_line_that_is_not_a_message_is_noise(body: bytes) -> None:
    (event,) = Parser().parse(body)
    assert isinstance(event, Noise)
    assert len(event.excerpt) <= 200


def test_a_lone_surrogate_is_noise() -> None:
    (event,) = Parser().parse(rb'{"type":"assistant","message":{"content":[{"type":"text","text":"\ud800"}]}}')
    assert isinstance(event, Noise)


def test_a_message_of_an_unknown_kind_is_reported_by_name() -> None:
    assert parse({"type": "hologram"}) == (Unknown(kind="hologram"),)
    assert parse({"type": "system", "subtype": "dream"}) == (Unknown(kind="system/dream"),)
    assert parse({"type": ["result"]}) == (Unknown(kind=""),)
    assert parse({}) == (Unknown(kind=""),)


def test_a_known_kind_with_an_unknown_subtype_is_unknown_too() -> None:
    assert parse({"type": "rate_limit_event", "rate_limit_info": {"status": "hm"}}) == (
        Unknown(kind="rate_limit_event"),
    )
    assert parse({"type": "command_lifecycle", "state": 5}) == (Unknown(kind="command_lifecycle"),)
    changed: Json = {"type": "system", "subtype": "session_state_changed", "state": "asleep"}
    assert parse(changed) == (Unknown(kind="system/session_state_changed"),)


@pytest.mark.parametrize("kind", ["keep_alive", "tool_progress", "stream_event"])
def test_a_keep_alive_message_is_only_progress(kind: str) -> None:
    assert parse({"type": kind}) == (Progress(),)


def test_every_block_of_one_frame_is_reported_in_order() -> None:
    content: Json = [
        {"type": "thinking", "thinking": "hm"},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "t1", "name": "Read", "input": {"file_path": "/a b"}},
        {"type": "hologram"},
        "no block",
    ]
    assert parse({"type": "assistant", "message": {"content": content}, "parent_tool_use_id": "t0"}) == (
        Thinking(text="hm"),
        Text(text="I look.", subagent=True, synthetic=False, error=None),
        ToolStarted(id="t1", name="Read", summary="/a b", subagent=True),
    )


def test_a_long_text_is_truncated() -> None:
    (event,) = parse({"type": "assistant", "message": {"content": [{"type": "text", "text": "x" * (TEXT + 5)}]}})
    assert isinstance(event, Text)
    assert len(event.text) == TEXT


def test_a_tool_use_is_summarised_in_one_short_line() -> None:
    use: Json = {"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "a\n\t b" + " c" * 9_000}}
    (event,) = parse({"type": "assistant", "message": {"content": [use]}})
    assert isinstance(event, ToolStarted)
    assert event.summary.startswith("a b c c")
    assert len(event.summary) <= 200


@pytest.mark.parametrize("content", ["no such\nfile", [{"type": "text", "text": "no such\nfile"}]])
def test_a_failed_tool_states_how_it_failed(content: Json) -> None:
    block: Json = {"type": "tool_result", "tool_use_id": "t", "is_error": True, "content": content}
    finished = ToolFinished(id="t", ok=False, summary="no such file", timed_out=False)
    assert parse({"type": "user", "message": {"content": [block]}}) == (finished,)


def test_damage_in_an_unused_field_does_no_harm() -> None:
    body = b'{"type":"assistant","request_id":"\xff","message":{"content":[{"type":"thinking","thinking":"hm"}]}}'
    assert Parser().parse(body) == (Thinking(text="hm"),)


@pytest.mark.parametrize("other", [None, True, 7, 0.5, "words", ["list"], {"key": "value"}])
def test_a_wrong_value_in_place_of_an_object_or_a_list_is_skipped(other: Json) -> None:
    assert parse({"type": "assistant", "message": other}) == (Progress(),)
    assert parse({"type": "assistant", "message": {"content": other, "usage": other}}) == (Progress(),)
    assert parse({"type": "user", "message": {"content": [other, {"type": other}]}}) == (Progress(),)
    use: Json = {"type": "tool_use", "id": other, "name": "Read", "input": other}
    (started,) = parse({"type": "assistant", "message": {"content": [other, use, {"type": other}]}})
    assert isinstance(started, ToolStarted)
    assert (started.name, started.summary) == ("Read", "")
    assert turn(usage=other, modelUsage={"a": other}).usage.input_tokens == 0
    assert parse({"type": "rate_limit_event", "rate_limit_info": other}) == (Unknown(kind="rate_limit_event"),)
    assert parse({"type": "control_request", "request_id": "r", "request": other}) == (
        Asked(request_id="r", subtype="", tool=None, input=None),
    )
    assert parse({"type": "control_response", "response": other}) == (Answered(request_id="", ok=False, error=None),)


def test_an_echoed_prompt_is_not_text_of_the_agent() -> None:
    echoed: Json = [{"type": "text", "text": "=== PHASE 1 COMPLETE ==="}]
    assert parse({"type": "user", "message": {"content": echoed}}) == (Progress(),)
    assert parse({"type": "user", "message": {"content": "=== PHASE 1 COMPLETE ==="}}) == (Progress(),)


def test_messages_of_the_control_protocol_carry_their_request_ids() -> None:
    request: Json = {"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": "ls"}}
    assert parse({"type": "control_request", "request_id": "r", "request": request}) == (
        Asked(request_id="r", subtype="can_use_tool", tool="Bash", input={"command": "ls"}),
    )
    assert parse({"type": "control_cancel_request", "request_id": "r"}) == (AskWithdrawn(request_id="r"),)
    response: Json = {"subtype": "error", "request_id": "r", "error": "no such request"}
    assert parse({"type": "control_response", "response": response}) == (
        Answered(request_id="r", ok=False, error="no such request"),
    )


def test_a_delivered_turn_is_identified_by_its_uuid() -> None:
    line: Json = {"type": "command_lifecycle", "command_uuid": "u", "state": "completed"}
    assert parse(line) == (Delivered(uuid="u", state=Delivery.COMPLETED),)


def test_a_denied_tool_is_reported_with_its_reason() -> None:
    denied: dict[str, Json] = {"tool_name": "Bash", "tool_use_id": "t", "message": "not in this mode"}
    line = denied | {"type": "system", "subtype": "permission_denied"}
    assert parse(line) == (ToolDenied(id="t", name="Bash", reason="not in this mode"),)


def test_a_limit_may_lack_its_reset_and_its_window() -> None:
    assert parse({"type": "rate_limit_event", "rate_limit_info": {"status": "rejected"}}) == (
        Limit(status=LimitStatus.REJECTED, window=None, resets_at=None, utilization=None, overage=False),
    )


def test_a_turn_is_ok_only_if_every_field_says_so() -> None:
    assert turn().outcome is Outcome.OK
    assert turn(terminal_reason=None).outcome is Outcome.OK
    for wrong in (
        {"subtype": "error_during_execution"},
        {"subtype": None},
        {"is_error": True},
        {"is_error": None},
        {"is_error": 0},
        {"terminal_reason": "prompt_too_long"},
        {"terminal_reason": "hook_stopped"},
        {"terminal_reason": 5},
        {"stop_reason": "refusal"},
        {"stop_reason": "max_tokens"},
    ):
        failed = turn(**wrong)
        assert failed.outcome is Outcome.FAILED, wrong
        assert failed.error is not None, wrong


@pytest.mark.parametrize("reason", ["aborted_streaming", "aborted_tools"])
def test_a_preempted_turn_is_interrupted_even_if_it_claims_success(reason: str) -> None:
    assert (turn(terminal_reason=reason).outcome, turn(terminal_reason=reason).error) == (Outcome.INTERRUPTED, None)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"stop_reason": "refusal"}, ErrorClass.REFUSED),
        ({"stop_reason": "max_tokens"}, ErrorClass.OUTPUT),
        ({"terminal_reason": "prompt_too_long"}, ErrorClass.CONTEXT),
        ({"is_error": True, "api_error_status": 503}, ErrorClass.SERVER),
        ({"is_error": True, "api_error_status": 400}, ErrorClass.UNKNOWN),
        ({"is_error": True, "api_error_status": 404}, ErrorClass.MODEL),
        (
            {"is_error": True, "api_error_status": 429, "result": "You\u2019ve hit your session limit"},
            ErrorClass.USAGE_LIMIT,
        ),
        ({"is_error": True, "api_error_status": 429, "result": "API Error: slow down"}, ErrorClass.THROTTLED),
        ({"is_error": True, "result": "OAuth token has expired"}, ErrorClass.AUTHENTICATION),
        ({"subtype": "error_max_turns", "is_error": True, "terminal_reason": None}, ErrorClass.TURNS),
        ({"subtype": "hm", "terminal_reason": "hm"}, ErrorClass.UNKNOWN),
    ],
)
def test_a_failure_has_the_class_that_determines_the_reaction(changes: dict[str, Json], error: ErrorClass) -> None:
    assert turn(**changes).error is error


def test_an_agent_that_writes_about_limits_has_not_reached_one() -> None:
    unfinished = turn(result="You've hit your limit", terminal_reason="hook_stopped")
    assert unfinished.error is ErrorClass.UNKNOWN


def test_a_turn_without_figures_per_model_has_only_its_own() -> None:
    usage = turn(usage={"input_tokens": 3, "output_tokens": -4, "cache_read_input_tokens": 1e300}).usage
    assert (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cumulative) == (3, 0, 0, False)


WORDS = """
    assistant user system result rate_limit_event command_lifecycle control_request control_response keep_alive init
    control_cancel_request session_state_changed api_retry permission_denied success text tool_use tool_result thinking
    completed rejected idle
"""
KEYS = """
    type subtype message content model text thinking input command id name error errors state status rate_limit_info
    resetsAt request response request_id is_error terminal_reason stop_reason result usage modelUsage inputTokens
    input_tokens total_cost_usd num_turns api_error_status api_error startup_failure_reason session_id
    parent_tool_use_id structured_output
"""
KNOWN_WORDS, KNOWN_KEYS = st.sampled_from(WORDS.split()), st.sampled_from(KEYS.split())
NUMBERS = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
LEAVES = st.none() | st.booleans() | NUMBERS | st.text("a \x00\u2028\U0001f600", max_size=8) | KNOWN_WORDS
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KNOWN_KEYS, inner, max_size=4), max_leaves=12
)


@given(st.dictionaries(KNOWN_KEYS, VALUES, max_size=8), KNOWN_WORDS)
def test_no_message_of_any_shape_raises(message: dict[str, Json], kind: str) -> None:
    events = parse(message | {"type": kind})
    assert events
    for event in events:
        assert not isinstance(event, TurnResult) or (event.error is not None) == (event.outcome is Outcome.FAILED)


@given(
    st.lists(st.dictionaries(KNOWN_KEYS, VALUES, max_size=5) | VALUES, max_size=3),
    st.sampled_from(["assistant", "user"]),
)
def test_no_content_of_whatever_shape_raises(content: list[Json], kind: str) -> None:
    assert parse({"type": kind, "message": {"content": content}})


@given(st.binary(max_size=300))
def test_no_bytes_raise(body: bytes) -> None:
    assert Parser().parse(body)


def test_a_change_of_state_is_reported() -> None:
    (event,) = parse({"type": "system", "subtype": "session_state_changed", "state": "idle"})
    assert isinstance(event, SessionState)


@pytest.mark.parametrize(
    ("text", "timed_out"),
    [
        ("Exit code 143\nCommand timed out after 1s\nbefore", True),
        ("Command timed out after 2m 0.0s", True),
        ("Exit code 1\nCommand timed out after 5s", False),
        ("FAILED test_slow: Command timed out after 5s", False),
        ("Command timed out after all", False),
    ],
)
def test_only_the_programs_own_message_marks_a_tool_timeout(text: str, timed_out: bool) -> None:
    for is_error in (True, False):
        block: Json = {"type": "tool_result", "tool_use_id": "t", "is_error": is_error, "content": text}
        (finished,) = parse({"type": "user", "message": {"content": [block]}})
        assert isinstance(finished, ToolFinished)
        assert finished.timed_out is (timed_out and is_error)


def test_tokens_are_reported_with_every_line_of_a_message_including_subagents() -> None:
    cache: Json = {"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 30}
    usage: Json = {
        "input_tokens": 100, "output_tokens": 7, "cache_read_input_tokens": 9_000, "cache_creation_input_tokens": 50,
        "cache_creation": cache,
    }  # fmt: skip
    used = TokenUsage(
        message_id="m1", model="claude-opus-5-5", input_tokens=100, output_tokens=7, cache_read_tokens=9_000,
        cache_write_tokens=50, hour_cache_tokens=30,
    )  # fmt: skip
    line: Json = {
        "type": "assistant", "parent_tool_use_id": "t0",
        "message": {
            "id": "m1", "model": "claude-opus-5-5", "usage": usage, "content": [{"type": "thinking", "thinking": "hm"}],
        },
    }  # fmt: skip
    assert parse(line) == (Thinking(text="hm"), used)


def test_a_window_reports_its_utilization_and_overage() -> None:
    info: Json = {
        "status": "allowed_warning", "rateLimitType": "seven_day_fable", "resetsAt": 1_795_310_909,
        "utilization": 0.93, "isUsingOverage": True,
    }  # fmt: skip
    assert parse({"type": "rate_limit_event", "rate_limit_info": info}) == (
        Limit(
            status=LimitStatus.WARNING,
            window="seven_day_fable",
            resets_at=1_795_310_909,
            utilization=0.93,
            overage=True,
        ),
    )


@pytest.mark.parametrize(("told", "share"), [(0, 0.0), (1.2, 1.0), (10**400, 1.0), (-0.1, None), ("0.5", None)])
def test_a_share_is_a_fraction_between_zero_and_one(told: Json, share: float | None) -> None:
    assert share_of(told) == share
