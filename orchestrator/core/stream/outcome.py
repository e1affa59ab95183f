"""A result line of the claude CLI → `TurnFinished`: did the turn go well, and if not, what is to be done.

`subtype` does not tell: a failed call to the API is "success" with is_error, and some turns that did not finish have
is_error false. So OK has a positive rule (collected.md §1.2), everything else is a failure, and unknown words can
only make it one.

The error class is found from the most exact field to the least: the reason of a failed start, the stop reason, the
API's own words, then the complaint's first words (a missing login and a missing credit have nothing else), then the
HTTP status, then why the turn ended. Only a result that is an error is ever searched for words: an agent may well
talk about limits.
"""

import re

from orchestrator.core.stream.fields import count_of, integer_of, list_of, money_of, object_of, text_of
from orchestrator.core.stream.neutral import ErrorClass, JsonObject, Outcome, TurnFinished, Usage

TEXT = 20_000

_UNFINISHED_STOPS = {"refusal": ErrorClass.REFUSED, "max_tokens": ErrorClass.OUTPUT}

_API_ERRORS = {"usage_limit_reached": ErrorClass.USAGE_LIMIT, "connection_failed": ErrorClass.SERVER}

_COMPLAINTS = {
    "No conversation found": ErrorClass.SESSION,
    "--resume requires a valid session": ErrorClass.SESSION,
    "You're out of usage credits": ErrorClass.BILLING,
    "Usage credits required": ErrorClass.BILLING,
    "Credit balance is too low": ErrorClass.BILLING,
    "Your org is out of usage": ErrorClass.BILLING,
    "Your seat type": ErrorClass.BILLING,
    "Your group's usage limit is set to $0": ErrorClass.BILLING,
    "You've hit your": ErrorClass.USAGE_LIMIT,
    "You've reached your": ErrorClass.USAGE_LIMIT,
    "You're out of extra usage": ErrorClass.USAGE_LIMIT,
    "Claude AI usage limit reached": ErrorClass.USAGE_LIMIT,
    "Claude usage limit reached": ErrorClass.USAGE_LIMIT,
    "5-hour limit reached": ErrorClass.USAGE_LIMIT,
    "Weekly limit reached": ErrorClass.USAGE_LIMIT,
    "Not logged in": ErrorClass.AUTHENTICATION,
    "Failed to authenticate": ErrorClass.AUTHENTICATION,
    "OAuth ": ErrorClass.AUTHENTICATION,
    "Invalid API key": ErrorClass.AUTHENTICATION,
    "This organization has been disabled": ErrorClass.AUTHENTICATION,
    "This service is disabled for your org": ErrorClass.AUTHENTICATION,
    "Prompt is too long": ErrorClass.CONTEXT,
    "Context limit reached": ErrorClass.CONTEXT,
    "There's an issue with the selected model": ErrorClass.MODEL,
}

_FIRST_WORDS = re.compile("|".join(map(re.escape, _COMPLAINTS)))

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


def turn_finished(message: JsonObject) -> TurnFinished:
    """The end of a turn, whatever shape the line is in."""
    text = _last_words(message)
    reason = _reason(message)
    outcome = _outcome(message, reason)
    return TurnFinished(
        outcome=outcome,
        reason=reason,
        error=_error_class(message, reason, text) if outcome is Outcome.FAILED else None,
        text=text,
        http_status=integer_of(message.get("api_error_status")),
        cost_usd=money_of(message.get("total_cost_usd")),
        usage=_usage(message),
        num_turns=count_of(message.get("num_turns")),
        structured_output=message.get("structured_output"),
        session_id=text_of(message.get("session_id")),
    )


def _last_words(message: JsonObject) -> str:
    result = message.get("result")
    if isinstance(result, str):
        return result[:TEXT]
    return "\n".join(text_of(error, TEXT) for error in list_of(message.get("errors"))[:100])[:TEXT]


def _reason(message: JsonObject) -> str:
    stop = text_of(message.get("stop_reason"))
    return (
        text_of(message.get("startup_failure_reason"))
        or (stop if stop in _UNFINISHED_STOPS else "")
        or text_of(message.get("terminal_reason"))
        or text_of(message.get("subtype"))
    )


def _outcome(message: JsonObject, reason: str) -> Outcome:
    if (
        message.get("subtype") == "success"
        and message.get("is_error") is False
        and message.get("terminal_reason") in (None, "completed")
        and reason not in _UNFINISHED_STOPS
    ):
        return Outcome.OK
    return Outcome.INTERRUPTED if reason in _INTERRUPTED else Outcome.FAILED


def _error_class(message: JsonObject, reason: str, text: str) -> ErrorClass:
    if message.get("startup_failure_reason"):
        return ErrorClass.STARTUP
    status = integer_of(message.get("api_error_status")) or 0
    complaint = text.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'") if message.get("is_error") is True else ""
    return (
        _UNFINISHED_STOPS.get(reason)
        or _API_ERRORS.get(text_of(message.get("api_error")))
        or _by_first_words(complaint)
        or _STATUSES.get(status)
        or (ErrorClass.SERVER if status >= 500 else None)
        or (ErrorClass.UNKNOWN if status >= 400 else None)
        or _ENDS.get(reason)
        or _ENDS.get(text_of(message.get("subtype")))
        or ErrorClass.UNKNOWN
    )


def _by_first_words(complaint: str) -> ErrorClass | None:
    known = _FIRST_WORDS.match(complaint)
    return _COMPLAINTS[known.group()] if known else None


def _usage(message: JsonObject) -> Usage:
    """Of all models since the process began where the line says it, else of this turn's main conversation."""
    models = object_of(message.get("modelUsage"))
    if not models:
        return _usage_of_turn(object_of(message.get("usage")))
    given, written, read, cached = 0, 0, 0, 0
    for model in map(object_of, models.values()):
        given += count_of(model.get("inputTokens"))
        written += count_of(model.get("outputTokens"))
        read += count_of(model.get("cacheReadInputTokens"))
        cached += count_of(model.get("cacheCreationInputTokens"))
    return Usage(
        input_tokens=given, output_tokens=written, cache_read_tokens=read, cache_write_tokens=cached, cumulative=True
    )


def _usage_of_turn(usage: JsonObject) -> Usage:
    return Usage(
        input_tokens=count_of(usage.get("input_tokens")),
        output_tokens=count_of(usage.get("output_tokens")),
        cache_read_tokens=count_of(usage.get("cache_read_input_tokens")),
        cache_write_tokens=count_of(usage.get("cache_creation_input_tokens")),
        cumulative=False,
    )
