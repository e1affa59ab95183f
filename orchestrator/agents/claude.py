"""Translate lines of the claude CLI's stream-json into neutral events.

Every release may add kinds of lines: an unknown one is `Unknown`, never an error. `parse` never raises, whatever the
bytes are, and keeps no state: a line means the same wherever reading begins.
"""

import re
from operator import attrgetter
from typing import Final, TypeAlias, cast

import msgspec

from orchestrator.agents.claude_parts import (
    Block,
    CacheCreation,
    Maybe,
    Message,
    RateLimitInfo,
    Request,
    Response,
    Structure,
    Tokens,
    ToolInput,
)
from orchestrator.agents.outcome import ResultLine
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
    SessionOpened,
    SessionState,
    Text,
    Thinking,
    TokenUsage,
    ToolDenied,
    ToolFinished,
    ToolStarted,
    Unknown,
)
from orchestrator.formats.codec import Json
from orchestrator.formats.fields import count_of, integer_of, line_of, list_of, object_of, share_of, text_of

TEXT: Final = 100_000  # characters kept of one block of text or thought

Events = tuple[AgentEvent, ...]

_PROGRESS: Final = (Progress(),)

# Measured with 2.1.329; 143 is the SIGTERM by which the CLI ends the command, older versions left the code out.
_TIMED_OUT: Final = re.compile(r"(?:Exit code (?:137|143)\n)?Command timed out after [0-9]")

_ACTIVITIES: Final = {activity.value: (SessionState(state=activity),) for activity in SessionActivity}
_DELIVERIES: Final = {delivery.value: delivery for delivery in Delivery}
_LIMITS: Final = {status.value: status for status in LimitStatus}

_inputs_of: Final = attrgetter(*ToolInput.__struct_fields__)


class Assistant(Structure, tag="assistant"):
    """What the model said: one or more blocks."""

    message: Maybe[Message] = None
    parent_tool_use_id: object = None
    is_api_error_message: object = None
    error: object = None

    def events(self) -> Events:
        """Return what each block says, and the tokens of the message so far."""
        said = self.message
        if not isinstance(said, Message):
            return _PROGRESS
        events: list[AgentEvent] = []
        for block in said.blocks():
            match block.type:
                case "text":
                    events.append(self._text(said, block))
                case "thinking":
                    events.append(Thinking(text=text_of(block.thinking, TEXT)))
                case "tool_use" | "server_tool_use":
                    events.append(_tool_started(block, subagent=self.parent_tool_use_id is not None))
        if isinstance(said.usage, Tokens):
            used = _used(said, said.usage)
            events += [used] if used.tokens else []
        return tuple(events) or _PROGRESS

    def _text(self, said: Message, block: Block) -> Text:
        return Text(
            text=text_of(block.text, TEXT),
            subagent=self.parent_tool_use_id is not None,
            synthetic=said.model == "<synthetic>" or self.is_api_error_message is True,
            error=text_of(self.error) or None,
        )


def _used(said: Message, usage: Tokens) -> TokenUsage:
    kept = usage.cache_creation
    written = count_of(usage.cache_creation_input_tokens)
    hour = count_of(kept.ephemeral_1h_input_tokens) if isinstance(kept, CacheCreation) else 0
    return TokenUsage(
        message_id=text_of(said.id),
        model=text_of(said.model),
        input_tokens=count_of(usage.input_tokens),
        output_tokens=count_of(usage.output_tokens),
        cache_read_tokens=count_of(usage.cache_read_input_tokens),
        cache_write_tokens=written,
        hour_cache_tokens=min(hour, written),
    )


class User(Structure, tag="user"):
    """What the model was told: results of tools, and echoed prompts."""

    message: Maybe[Message] = None

    def events(self) -> Events:
        """Return the tools that have finished; an echoed prompt is no more than a sign of life."""
        blocks = self.message.blocks() if isinstance(self.message, Message) else ()
        return tuple([_tool_finished(block) for block in blocks if block.type == "tool_result"]) or _PROGRESS


class System(Structure, tag="system"):
    """News of the session; `subtype` says which, and with it which of the other fields are there."""

    subtype: object = None
    state: object = None
    cwd: object = None
    session_id: object = None
    model: object = None
    permission_mode: object = msgspec.field(default=None, name="permissionMode")
    api_key_source: object = msgspec.field(default=None, name="apiKeySource")
    claude_code_version: object = None
    attempt: object = None
    max_retries: object = None
    retry_delay_ms: object = None
    error_status: object = None
    error: object = None
    tool_use_id: object = None
    tool_name: object = None
    message: object = None

    def events(self) -> Events:
        """Return the one event that the subtype stands for."""
        match self.subtype:
            case "session_state_changed" if events := _ACTIVITIES.get(text_of(self.state)):
                return events
            case "init":
                return (self._session_started(),)
            case "api_retry":
                return (self._retry(),)
            case "permission_denied":
                return (self._tool_denied(),)
            case str() as subtype if subtype in _SYSTEM_LIVENESS:
                return _PROGRESS
            case subtype:
                return (Unknown(kind=f"system/{text_of(subtype)}"),)

    def _session_started(self) -> SessionOpened:
        return SessionOpened(
            session_id=text_of(self.session_id),
            model=text_of(self.model),
            version=text_of(self.claude_code_version),
            auth_source=text_of(self.api_key_source),
            cwd=text_of(self.cwd, 4096),
            permission_mode=text_of(self.permission_mode),
        )

    def _retry(self) -> Retry:
        return Retry(
            attempt=count_of(self.attempt),
            max_retries=count_of(self.max_retries),
            delay_ms=count_of(self.retry_delay_ms),
            status=integer_of(self.error_status),
            error=text_of(self.error),
        )

    def _tool_denied(self) -> ToolDenied:
        return ToolDenied(id=text_of(self.tool_use_id), name=text_of(self.tool_name), reason=line_of(self.message))


class RateLimit(Structure, tag="rate_limit_event"):
    """News of a usage window."""

    rate_limit_info: Maybe[RateLimitInfo] = None

    def events(self) -> Events:
        """Return how the window stands; a status of a later version is unknown."""
        info = self.rate_limit_info
        if not isinstance(info, RateLimitInfo) or (status := _LIMITS.get(text_of(info.status))) is None:
            return (Unknown(kind="rate_limit_event"),)
        return (
            Limit(
                status=status,
                window=text_of(info.rate_limit_type) or None,
                resets_at=integer_of(info.resets_at),
                utilization=share_of(info.utilization),
                overage=info.is_using_overage is True,
            ),
        )


class Lifecycle(Structure, tag="command_lifecycle"):
    """What became of a turn that was sent with this uuid."""

    command_uuid: object = None
    state: object = None

    def events(self) -> Events:
        """Return the delivery; a state of a later version is unknown."""
        state = _DELIVERIES.get(text_of(self.state))
        if state is None:
            return (Unknown(kind="command_lifecycle"),)
        return (Delivered(uuid=text_of(self.command_uuid), state=state),)


class ControlRequest(Structure, tag="control_request"):
    """The CLI waits for an answer."""

    request_id: object = None
    request: Maybe[Request] = None

    def events(self) -> Events:
        """Return what is asked."""
        asked = self.request if isinstance(self.request, Request) else Request()
        return (
            Asked(
                request_id=text_of(self.request_id),
                subtype=text_of(asked.subtype),
                tool=text_of(asked.tool_name) or None,
                input=cast(Json, asked.input),
            ),
        )


class ControlCancelRequest(Structure, tag="control_cancel_request"):
    """The CLI no longer waits for an answer."""

    request_id: object = None

    def events(self) -> Events:
        """Return which request was withdrawn."""
        return (AskWithdrawn(request_id=text_of(self.request_id)),)


class ControlResponse(Structure, tag="control_response"):
    """The CLI answers a request of ours."""

    response: Maybe[Response] = None

    def events(self) -> Events:
        """Return the answer."""
        given = self.response if isinstance(self.response, Response) else Response()
        ok, error = given.subtype == "success", line_of(given.error) or None
        return (Answered(request_id=text_of(given.request_id), ok=ok, error=error),)


class Other(Structure):
    """A line of any other kind: nothing but the kind is read."""

    type: object = None

    def events(self) -> Events:
        """Return a sign of life, or that the kind is unknown."""
        kind = text_of(self.type)
        return _PROGRESS if kind in _LIVENESS else (Unknown(kind=kind),)


Line: TypeAlias = (
    Assistant
    | User
    | System
    | ResultLine
    | RateLimit
    | Lifecycle
    | ControlRequest
    | ControlCancelRequest
    | ControlResponse
)  # fmt: skip

_LINE: Final[msgspec.json.Decoder[Line]] = msgspec.json.Decoder(Line)
_OTHER: Final[msgspec.json.Decoder[Other]] = msgspec.json.Decoder(Other)


class Parser:
    """Gives the neutral events of one line."""

    def parse(self, body: bytes) -> Events:
        """Return the events of a line, at least one; a sign of life at the least."""
        try:
            line = _decoded(body)
        except (ValueError, RecursionError):
            return (Noise(excerpt=body[:200].decode("utf-8", "replace")),)
        return line.events()


def _decoded(body: bytes) -> Line | Other:
    try:
        return _LINE.decode(body)
    except msgspec.ValidationError:
        return _OTHER.decode(body)


def _tool_started(block: Block, *, subagent: bool) -> ToolStarted:
    inputs = _inputs_of(block.input) if isinstance(block.input, ToolInput) else ()
    summary = line_of(next((value for value in inputs if isinstance(value, str)), ""))
    return ToolStarted(id=text_of(block.id), name=text_of(block.name), summary=summary, subagent=subagent)


def _tool_finished(block: Block) -> ToolFinished:
    text = next((object_of(part).get("text") for part in list_of(block.content)), block.content)
    ok = block.is_error is not True
    return ToolFinished(
        id=text_of(block.tool_use_id),
        ok=ok,
        summary=line_of(text),
        timed_out=not ok and _TIMED_OUT.match(text_of(text)) is not None,
    )


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
