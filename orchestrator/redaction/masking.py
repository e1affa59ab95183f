"""How provided values look in what an agent writes, and what replaces them.

A value is recognised as it is, escaped in JSON once and twice, percent-encoded, in hexadecimal, and in base64, also
within other text. In what a branch adds, `names_in` also finds it in UTF-16, and any of these forms broken into lines.
It is not recognised in parts, reversed or compressed: an agent that wants to leak a value can. For a value of several
lines, each sufficiently long line is recognised, so that a file is masked however it is displayed.

A value is not masked if it is too short, or if it occurs in every line of an agent's output anyway, such as a number or
a word of the protocol: lines of JSON have to remain valid.
"""

import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass

SHORTEST = 6
SHORTEST_LINE = 16
"""Characters of a value, and of one line of a value that has several."""
_BETWEEN_STRINGS = re.compile(r"(?:[\s{}\[\],:0-9eE+.\-]|true|false|null)*")
_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASS|PWD|CREDENTIAL|PRIVATE|AUTH|DSN|CERT|PIN$", re.IGNORECASE)
_BLANK = b" \t\r\n"
_LOGIN = re.compile(r"://[^/\s@]*:[^/\s@]+@")
_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_WORDS = (
    "aborted_streaming aborted_tools active_goal affectedDocuments allowed_warning api_error_status api_key api_retry "
    "apiKeySource ask_user assistant attempt auth_status authentication autocompact_state background_tasks_changed "
    "blocking_limit budget_exhausted business cache_creation_input_tokens cache_read_input_tokens "
    "cacheCreationInputTokens cacheReadInputTokens cancelled category checkpoint_and_fail choice clarification "
    "claude_code_version command_lifecycle command_uuid commands_changed compact_boundary completed confirmation "
    "connection_failed content_block_delta control_cancel_request control_request_progress control_response "
    "conversation_reset criteria default DEPENDENCY_REQUEST description details discarded elicitation_complete "
    "env_variable error_during_execution error_max_budget_usd error_max_structured_output_retries error_max_turns "
    "errors Fallback file_path files_persisted hook_progress hook_response hook_started image_error informational "
    "inputTokens interrupted is_api_error_message is_error isUsingOverage keep_alive local_command_output "
    "malformed_tool_use_exhausted max_retries max_tokens memory_recall mirror_error model_error model_fallback "
    "model_refusal_fallback model_refusal_no_fallback modelUsage notebook_path notify_user num_turns options "
    "output_tokens outputTokens overloaded package parent_tool_use_id passed pattern pause_and_retry "
    "permission_denials permission_denied permissionMode phase_complete plugin_install prompt_suggestion "
    "prompt_too_long questions queued rapid_refill_breaker rate_limit_event rate_limit_info rateLimitType recovery "
    "rejected replace request_dependency request_id required requires_action resetsAt retry_delay_ms running "
    "server_tool_use service session_id session_state_changed session_writes_lost startup_failure_reason stop_reason "
    "stream_event structured_output_retry_exhausted subtype success surrogatepass synthetic system task_notification "
    "task_progress task_started task_updated terminal_reason thinking_tokens throttled timestamp tool_name "
    "tool_progress tool_result tool_use_summary total_cost_usd transcript_mirror turn_preempted turn_setup_failed "
    "unknown updatedInput usage_limit_reached USER_QUESTION utilization vcs_state_changed VERIFICATION_RESULT "
    "worker_shutting_down "
)

Mask = tuple[str, str]
"""The text to look for, and its replacement."""


@dataclass(frozen=True, slots=True)
class Masks:
    """What is masked in lines of JSON, and what in any other text."""

    json: tuple[Mask, ...] = ()
    plain: tuple[Mask, ...] = ()


NO_MASKS = Masks()


def why_unmasked(value: str) -> str:
    """Return why a value would be readable where an agent prints it; empty if it is masked there."""
    if len(value) < SHORTEST:
        return f"it has fewer than {SHORTEST} characters"
    if _BETWEEN_STRINGS.fullmatch(value):
        return "it is a number or consists of separators"
    if value in _WORDS:
        return "it is a word that occurs in every line of an agent's output"
    if not _pieces(value):
        return f"none of its lines has {SHORTEST_LINE} characters"
    return ""


def is_secret(name: str, value: str) -> bool:
    """Return whether a variable of that name and value must not appear in any work; an address or a mode may."""
    return bool(_SECRET_NAME.search(name) or _LOGIN.search(value))


def masks_of(values: Mapping[str, str]) -> Masks:
    """Return what to look for so that no value is readable, longer forms first; a value is replaced by its name."""
    plain: dict[str, str] = {}
    for name, value in values.items():
        for form in forms(value):
            plain.setdefault(form, f"<{name}>")
    found = sorted(plain.items(), key=lambda mask: (-len(mask[0]), mask[0]))
    return Masks(json=tuple(mask for mask in found if _fits_into_json(mask[0])), plain=tuple(found))


def names_in(content: bytes, values: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of the values that a content has in any known form, also in UTF-16 or broken into lines."""
    joined = content.translate(None, delete=_BLANK)
    return tuple(name for name, value in values.items() if _occurs(forms(value), content, joined))


def _occurs(known: tuple[str, ...], content: bytes, joined: bytes) -> bool:
    """Return whether a form of a value is in a content, or, if it is long, in the content without blank space."""
    if any(form.encode(code) in content for form in known for code in ("utf-8", "utf-16-le", "utf-16-be")):
        return True
    whole = (form.encode().translate(None, delete=_BLANK) for form in known)
    return any(len(form) >= SHORTEST_LINE and form in joined for form in whole)


def forms(value: str) -> tuple[str, ...]:
    """Return every form in which a value may occur in a text; nothing for a value that is not masked."""
    if why_unmasked(value):
        return ()
    return tuple(dict.fromkeys(form for piece in _pieces(value) for form in _forms(piece)))


def _pieces(value: str) -> list[str]:
    lines = [line.strip() for line in value.splitlines()]
    if len(lines) == 1:
        return [value]
    return [line for line in lines if len(line) >= SHORTEST_LINE and not _BETWEEN_STRINGS.fullmatch(line)]


def _forms(piece: str) -> list[str]:
    once = [_escaped(piece, only_ascii=only_ascii) for only_ascii in (False, True)]
    twice = [_escaped(form, only_ascii=False) for form in once]
    digits = piece.encode().hex()
    return [piece, *once, *twice, _percent_encoded(piece), digits, digits.upper(), *_in_base64(piece.encode())]


def _escaped(text: str, *, only_ascii: bool) -> str:
    return json.dumps(text, ensure_ascii=only_ascii)[1:-1]


def _percent_encoded(text: str) -> str:
    return "".join(sign if sign in _PLAIN else "".join(f"%{byte:02X}" for byte in sign.encode()) for sign in text)


def _in_base64(content: bytes) -> list[str]:
    """Return the base64 characters that a value certainly has within a longer text, at any of three byte offsets."""
    found = []
    for before in range(3):
        letters = (8 * (before + len(content))) // 6
        first = -(-8 * before // 6)
        longer = b"\0" * before + content
        found += [encode(longer)[first:letters].decode() for encode in (b64encode, urlsafe_b64encode)]
    return found


def _fits_into_json(form: str) -> bool:
    """Return whether a form can occur only within a string of JSON."""
    try:
        return isinstance(json.loads(f'"{form}"'), str)
    except ValueError:
        return False
