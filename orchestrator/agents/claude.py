"""Translate lines of the claude CLI's stream-json into neutral events.

Every release may add kinds of lines: an unknown one is `Unknown`, never an error. `parse` never raises, whatever the
bytes are, and keeps no state: a line means the same wherever reading begins.
"""

import re
from collections.abc import Callable
from typing import Final

from orchestrator.agents.outcome import turn_finished
from orchestrator.core.events.agent_events import (
    AgentEvent,
    Answered,
    Asked,
    AskWithdrawn,
    Delivered,
    Delivery,
    Limit,
    LimitStatus,
    Noise,
    Progress,
    Retry,
    SessionActivity,
    SessionStarted,
    SessionState,
    Text,
    Thinking,
    TokenUsage,
    ToolDenied,
    ToolFinished,
    ToolStarted,
    Unknown,
)
from orchestrator.formats.codec import Json, JsonObject
from orchestrator.formats.fields import count_of, integer_of, line_of, list_of, object_of, share_of, text_of

TEXT: Final = 100_000  # characters kept of one block of text or thought

Events = tuple[AgentEvent, ...]

_PROGRESS: Final = (Progress(),)

_TELLING_INPUTS: Final = (
    "command", "file_path", "notebook_path", "path", "pattern", "url", "query", "skill", "description", "prompt",
)  # fmt: skip

# Measured with 2.1.329; 143 is the SIGTERM by which the CLI ends the command, older versions left the code out.
_TIMED_OUT: Final = re.compile(r"(?:Exit code (?:137|143)\n)?Command timed out after [0-9]")

_ACTIVITIES: Final = {activity.value: (SessionState(state=activity),) for activity in SessionActivity}
_DELIVERIES: Final = {delivery.value: delivery for delivery in Delivery}
_LIMITS: Final = {status.value: status for status in LimitStatus}


class Parser:
    """Gives the neutral events of one line.

    `decode` turns bytes into a JSON value and may raise ValueError or RecursionError. It must be strict: orjson.loads
    refuses lone surrogates and NaN, which `json.loads` lets through.
    """

    def __init__(self, decode: Callable[[bytes], Json]) -> None:
        self._decode = decode

    def parse(self, body: bytes) -> Events:
        """The events of a line, at least one; a sign of life at the least."""
        try:
            message = self._decode(body)
        except (ValueError, RecursionError):
            return _noise(body)
        if not isinstance(message, dict):
            return _noise(body)
        kind = text_of(message.get("type"))
        if handler := _BY_TYPE.get(kind):
            return handler(message)
        return _PROGRESS if kind in _LIVENESS else _unknown(kind)


def _noise(body: bytes) -> Events:
    return (Noise(excerpt=body[:200].decode("utf-8", "replace")),)


def _unknown(kind: str) -> Events:
    return (Unknown(kind=kind),)


def _assistant(message: JsonObject) -> Events:
    said = object_of(message.get("message"))
    subagent = message.get("parent_tool_use_id") is not None
    events: list[AgentEvent] = []
    for block in map(object_of, list_of(said.get("content"))):
        match text_of(block.get("type")):
            case "text":
                synthetic = said.get("model") == "<synthetic>" or message.get("is_api_error_message") is True
                error = text_of(message.get("error")) or None
                text = text_of(block.get("text"), TEXT)
                events.append(Text(text=text, subagent=subagent, synthetic=synthetic, error=error))
            case "thinking":
                events.append(Thinking(text=text_of(block.get("thinking"), TEXT)))
            case "tool_use" | "server_tool_use":
                events.append(_tool_started(block, subagent=subagent))
    usage = object_of(said.get("usage"))
    if tokens := count_of(usage.get("input_tokens")) + count_of(usage.get("output_tokens")):
        events.append(TokenUsage(message_id=text_of(said.get("id")), tokens=tokens))
    return tuple(events) or _PROGRESS


def _tool_started(block: JsonObject, *, subagent: bool) -> ToolStarted:
    given = object_of(block.get("input"))
    telling = next((key for key in _TELLING_INPUTS if isinstance(given.get(key), str)), "")
    return ToolStarted(
        id=text_of(block.get("id")),
        name=text_of(block.get("name")),
        summary=line_of(given.get(telling)),
        subagent=subagent,
    )


def _user(message: JsonObject) -> Events:
    blocks = map(object_of, list_of(object_of(message.get("message")).get("content")))
    return tuple(_tool_finished(block) for block in blocks if block.get("type") == "tool_result") or _PROGRESS


def _tool_finished(block: JsonObject) -> ToolFinished:
    content = block.get("content")
    text = next((object_of(part).get("text") for part in list_of(content)), content)
    ok = block.get("is_error") is not True
    return ToolFinished(
        id=text_of(block.get("tool_use_id")),
        ok=ok,
        summary=line_of(text),
        timed_out=not ok and _TIMED_OUT.match(text_of(text)) is not None,
    )


def _system(message: JsonObject) -> Events:
    match text_of(message.get("subtype")):
        case "init":
            return (_session_started(message),)
        case "session_state_changed" if events := _ACTIVITIES.get(text_of(message.get("state"))):
            return events
        case "api_retry":
            return (_retry(message),)
        case "permission_denied":
            return (_tool_denied(message),)
        case subtype if subtype in _SYSTEM_LIVENESS:
            return _PROGRESS
        case subtype:
            return _unknown(f"system/{subtype}")


def _session_started(message: JsonObject) -> SessionStarted:
    return SessionStarted(
        session_id=text_of(message.get("session_id")),
        model=text_of(message.get("model")),
        version=text_of(message.get("claude_code_version")),
        auth_source=text_of(message.get("apiKeySource")),
        cwd=text_of(message.get("cwd"), 4096),
        permission_mode=text_of(message.get("permissionMode")),
    )


def _retry(message: JsonObject) -> Retry:
    return Retry(
        attempt=count_of(message.get("attempt")),
        max_retries=count_of(message.get("max_retries")),
        delay_ms=count_of(message.get("retry_delay_ms")),
        status=integer_of(message.get("error_status")),
        error=text_of(message.get("error")),
    )


def _tool_denied(message: JsonObject) -> ToolDenied:
    return ToolDenied(
        id=text_of(message.get("tool_use_id")),
        name=text_of(message.get("tool_name")),
        reason=line_of(message.get("message")),
    )


def _limit(message: JsonObject) -> Events:
    info = object_of(message.get("rate_limit_info"))
    status = _LIMITS.get(text_of(info.get("status")))
    if status is None:
        return _unknown("rate_limit_event")
    window = text_of(info.get("rateLimitType")) or None
    return (
        Limit(
            status=status,
            window=window,
            resets_at=integer_of(info.get("resetsAt")),
            utilization=share_of(info.get("utilization")),
            overage=info.get("isUsingOverage") is True,
        ),
    )


def _delivered(message: JsonObject) -> Events:
    state = _DELIVERIES.get(text_of(message.get("state")))
    if state is None:
        return _unknown("command_lifecycle")
    return (Delivered(uuid=text_of(message.get("command_uuid")), state=state),)


def _asked(message: JsonObject) -> Events:
    request = object_of(message.get("request"))
    return (
        Asked(
            request_id=text_of(message.get("request_id")),
            subtype=text_of(request.get("subtype")),
            tool=text_of(request.get("tool_name")) or None,
            input=request.get("input"),
        ),
    )


def _ask_withdrawn(message: JsonObject) -> Events:
    return (AskWithdrawn(request_id=text_of(message.get("request_id"))),)


def _answered(message: JsonObject) -> Events:
    response = object_of(message.get("response"))
    return (
        Answered(
            request_id=text_of(response.get("request_id")),
            ok=response.get("subtype") == "success",
            error=line_of(response.get("error")) or None,
        ),
    )


_BY_TYPE: Final[dict[str, Callable[[JsonObject], Events]]] = {
    "assistant": _assistant,
    "user": _user,
    "system": _system,
    "result": lambda message: (turn_finished(message),),
    "rate_limit_event": _limit,
    "command_lifecycle": _delivered,
    "control_request": _asked,
    "control_cancel_request": _ask_withdrawn,
    "control_response": _answered,
}

_LIVENESS: Final = frozenset({
    "active_goal", "auth_status", "conversation_reset", "keep_alive", "prompt_suggestion", "stream_event",
    "tool_progress", "tool_use_summary", "transcript_mirror", "vcs_state_changed",
})  # fmt: skip

_SYSTEM_LIVENESS: Final = frozenset({
    "autocompact_state", "background_tasks_changed", "commands_changed", "compact_boundary", "control_request_progress",
    "elicitation_complete", "files_persisted", "hook_progress", "hook_response", "hook_started", "informational",
    "local_command_output", "memory_recall", "mirror_error", "model_fallback", "model_refusal_fallback",
    "model_refusal_no_fallback", "notification", "plugin_install", "session_writes_lost", "status",
    "task_notification", "task_progress", "task_started", "task_updated", "thinking_tokens", "turn_preempted",
    "worker_shutting_down",
})  # fmt: skip
