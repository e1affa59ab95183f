"""Translate a result line of the claude CLI into `TurnResult`: its success and its error class.

`subtype` is not enough: a failed API call has "success" with is_error, and some unfinished turns have is_error false.
So a turn is OK only by a positive rule; everything else, unknown words included, is a failure.

The error class is taken from the most exact field that there is: the reason of a failed start, the stop reason, the
first words of the error message (a missing login, missing credit and a limit of $0 show nowhere else), the API's error
type, the HTTP status, then the reason why the turn ended. Only results that are errors are searched for words, because
an agent may write about limits.
"""

import re
from collections.abc import Iterable
from typing import cast

import msgspec

from orchestrator.agents.claude_parts import Maybe, MaybeTable, ModelTokens, Structure, Tokens
from orchestrator.core.events.agent_events import ErrorClass, Outcome, TurnResult, TurnUsage
from orchestrator.formats.codec import Json
from orchestrator.formats.fields import count_of, integer_of, list_of, money_of, text_of

TEXT = 20_000
BEGINNING = 500
"""Characters of an error message that are searched for its kind."""

_UNFINISHED_STOPS = {"refusal": ErrorClass.REFUSED, "max_tokens": ErrorClass.OUTPUT}

_API_ERRORS = {"usage_limit_reached": ErrorClass.USAGE_LIMIT, "connection_failed": ErrorClass.SERVER}

# The order matters: problems of an account, which a person must solve, go before limits, which time solves.
_COMPLAINTS = {
    ErrorClass.SESSION: r"No conversation found|--resume requires a valid session",
    ErrorClass.AUTHENTICATION: (
        r"Not logged in|Login expired|Failed to authenticate|OAuth |Invalid (?:API|bearer|authentication)"
        r"|Could not resolve authentication|Your apiKeyHelper|Your account is on hold"
        r"|This organization has been disabled|This service is disabled for your org"
        r"|Your organization (?:has been disabled|does not have access)"
        r"|(?:authentication_failed|account_on_hold|oauth_org_not_allowed|verification_required|cloud_credential_error)\b"
    ),
    ErrorClass.BILLING: (
        r"(?:Your )?credit balance (?:is )?too low|Usage credits required|[A-Z][\w .-]{0,40} requires usage credits"
        r"|You're out of usage credits(?!.*\bresets?\b)|Your org is out of usage|Your seat type"
        r"|Your usage allocation has been disabled|Your (?:group|org)(?:anization)?'s usage limit is set to \$0"
        r"|billing_error\b"
    ),
    ErrorClass.USAGE_LIMIT: (
        r"You've (?:hit|reached) your|You're out of (?:extra usage|usage credits)|spend limit reached"
        r"|Claude (?:AI )?usage limit reached|(?:5-hour|[a-z]+ly|session|[a-z]+ weekly|opus|sonnet|usage) limit reached"
    ),
    ErrorClass.CONTEXT: r"Prompt is too long|Context limit reached|input length and .{1,20} exceed context limit",
    ErrorClass.MODEL: r"There's an issue with the selected model|model_not_found\b",
    ErrorClass.OVERLOADED: r"Repeated 529|(?:529 )?Overloaded",
    ErrorClass.THROTTLED: r"Server is temporarily limiting requests|Request rejected \(429\)",
    ErrorClass.SERVER: (
        r"Connection (?:error|refused|lost|closed|reset)|Unable to connect|Request timed out|Server error"
        r"|Your computer went to sleep|The response stopped|Response stalled|spend limit unavailable"
    ),
}

_RAW = r'(?:API Error:? ?)?(?:[1-5][0-9]{2} )?(?:\{.{0,100}"message": ?")?'
"""What may precede the message: the program's own prefix, the HTTP status, and the raw API answer."""

_FIRST_WORDS = re.compile(
    f"{_RAW}(?:{'|'.join(f'(?P<{error}>{words})' for error, words in _COMPLAINTS.items())})", re.IGNORECASE | re.DOTALL
)

_STATUS_IN_WORDS = re.compile(r"API Error: ([45][0-9]{2})\b")

_STATUSES = {
    401: ErrorClass.AUTHENTICATION,
    402: ErrorClass.BILLING,
    403: ErrorClass.AUTHENTICATION,
    404: ErrorClass.MODEL,
    413: ErrorClass.CONTEXT,
    429: ErrorClass.THROTTLED,
    529: ErrorClass.OVERLOADED,
}

_ENDS = {
    "max_turns": ErrorClass.TURNS,
    "error_max_turns": ErrorClass.TURNS,
    "budget_exhausted": ErrorClass.BUDGET,
    "error_max_budget_usd": ErrorClass.BUDGET,
    "prompt_too_long": ErrorClass.CONTEXT,
    "blocking_limit": ErrorClass.CONTEXT,
    "rapid_refill_breaker": ErrorClass.CONTEXT,
    "image_error": ErrorClass.CONTEXT,
    "malformed_tool_use_exhausted": ErrorClass.OUTPUT,
    "structured_output_retry_exhausted": ErrorClass.OUTPUT,
    "error_max_structured_output_retries": ErrorClass.OUTPUT,
    "turn_setup_failed": ErrorClass.STARTUP,
    "api_error": ErrorClass.SERVER,
    "model_error": ErrorClass.SERVER,
}

_INTERRUPTED = ("aborted_streaming", "aborted_tools")


class ResultLine(Structure, tag="result"):
    """The end of a turn, whatever the line holds."""

    stop_reason: object = None
    session_id: object = None
    total_cost_usd: object = None
    usage: Maybe[Tokens] = None
    model_usage: MaybeTable[Maybe[ModelTokens]] = msgspec.field(default=None, name="modelUsage")
    terminal_reason: object = None
    is_error: object = None
    num_turns: object = None
    subtype: object = None
    api_error_status: object = None
    result: object = None
    errors: object = None
    api_error: object = None
    startup_failure_reason: object = None
    structured_output: object = None

    def events(self) -> tuple[TurnResult]:
        """Return how the turn ended."""
        text = _last_words(self)
        reason = _reason(self)
        outcome = _outcome(self, reason)
        finished = TurnResult(
            outcome=outcome,
            reason=reason,
            error=_error_class(self, reason, text) if outcome is Outcome.FAILED else None,
            text=text,
            http_status=integer_of(self.api_error_status),
            cost_usd=money_of(self.total_cost_usd),
            usage=_usage(self),
            num_turns=count_of(self.num_turns),
            structured_output=cast(Json, self.structured_output),
            session_id=text_of(self.session_id),
        )
        return (finished,)


def _last_words(line: ResultLine) -> str:
    result = line.result
    if isinstance(result, str):
        return result[:TEXT]
    return "\n".join(text_of(error, TEXT) for error in list_of(line.errors)[:100])[:TEXT]


def _reason(line: ResultLine) -> str:
    stop = text_of(line.stop_reason)
    return (
        text_of(line.startup_failure_reason)
        or (stop if stop in _UNFINISHED_STOPS else "")
        or text_of(line.terminal_reason)
        or text_of(line.subtype)
    )


def _outcome(line: ResultLine, reason: str) -> Outcome:
    if (
        line.subtype == "success"
        and line.is_error is False
        and line.terminal_reason in (None, "completed")
        and reason not in _UNFINISHED_STOPS
    ):
        return Outcome.OK
    return Outcome.INTERRUPTED if reason in _INTERRUPTED else Outcome.FAILED


def _error_class(line: ResultLine, reason: str, text: str) -> ErrorClass:
    if line.startup_failure_reason:
        return ErrorClass.STARTUP
    complaint = text.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'") if line.is_error is True else ""
    return (
        _UNFINISHED_STOPS.get(reason)
        or _by_first_words(complaint)
        or _API_ERRORS.get(text_of(line.api_error))
        or _by_status(integer_of(line.api_error_status) or _status_in(complaint))
        or _ENDS.get(reason)
        or _ENDS.get(text_of(line.subtype))
        or (ErrorClass.SERVER if complaint.startswith("API Error") else ErrorClass.UNKNOWN)
    )


def _by_first_words(complaint: str) -> ErrorClass | None:
    known = _FIRST_WORDS.match(complaint[:BEGINNING])
    return ErrorClass(known.lastgroup) if known and known.lastgroup else None


def _status_in(complaint: str) -> int:
    said = _STATUS_IN_WORDS.match(complaint)
    return int(said[1]) if said else 0


def _by_status(status: int) -> ErrorClass | None:
    if status >= 500:
        return _STATUSES.get(status, ErrorClass.SERVER)
    return _STATUSES.get(status, ErrorClass.UNKNOWN) if status >= 400 else None


def _usage(line: ResultLine) -> TurnUsage:
    """The usage of all models since the process started if the line has it, else of this turn's main conversation."""
    models = line.model_usage
    if not isinstance(models, dict) or not models:
        return _sum((line.usage,), cumulative=False)
    return _sum(models.values(), cumulative=True)


def _sum(parts: Iterable[object], *, cumulative: bool) -> TurnUsage:
    given, written, read, cached = 0, 0, 0, 0
    for part in parts:
        if isinstance(part, (Tokens, ModelTokens)):
            given += count_of(part.input_tokens)
            written += count_of(part.output_tokens)
            read += count_of(part.cache_read_input_tokens)
            cached += count_of(part.cache_creation_input_tokens)
    return TurnUsage(
        input_tokens=given,
        output_tokens=written,
        cache_read_tokens=read,
        cache_write_tokens=cached,
        cumulative=cumulative,
    )
