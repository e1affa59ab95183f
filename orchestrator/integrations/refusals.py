"""What a server says when it refuses: its message, when to come back, and where an answer is not what was expected."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx
import orjson
from pydantic import ValidationError

from orchestrator.formats.codec import Json
from orchestrator.formats.fields import line_of, list_of, object_of
from orchestrator.redaction.display import escape_text

LONGEST_WAIT = 86_400.0
"""Seconds; a server that names a longer wait is asked again after this."""

_LIMITS = (("X-RateLimit-Remaining", "X-RateLimit-Reset"), ("RateLimit-Remaining", "RateLimit-Reset"))
_LONGEST_MESSAGE = 500
_LEVELS = 4


def first_problem(error: ValidationError) -> str:
    """Return the place and the kind of the first problem, without the value that was found there."""
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{escape_text('.'.join(map(str, first['loc']))) or 'as a whole'}: {first['msg']}"


def message_in(content: bytes) -> str:
    """Return what a server says about a refusal, in one line: its message and the details of it."""
    try:
        answer = object_of(orjson.loads(content))
    except ValueError:
        return ""
    messages = [answer.get("message"), answer.get("error")]
    details = [_detail(item) for item in list_of(answer.get("errors"))]
    return escape_text("; ".join(filter(None, (*map(_words, messages), *details))), _LONGEST_MESSAGE)


def _detail(item: Json) -> str:
    """Return one of GitHub's errors: a message, or a field and a word for what is wrong with it."""
    error = object_of(item)
    field_and_code = " ".join(filter(None, (_words(error.get("field")), _words(error.get("code")))))
    return _words(error.get("message")) or field_and_code or _words(item)


def _words(value: Json, levels: int = _LEVELS) -> str:
    """Return a message, which GitLab may give as a list or by field; what is nested deeper is left out."""
    if isinstance(value, list | dict) and not levels:
        return ""
    if isinstance(value, list):
        return ", ".join(filter(None, (_words(inner, levels - 1) for inner in value)))
    if isinstance(value, dict):
        return ", ".join(f"{line_of(name)}: {_words(inner, levels - 1)}" for name, inner in value.items())
    return line_of(value, _LONGEST_MESSAGE)


def wanted_pause(response: httpx.Response) -> float | None:
    """Return the seconds after which a busy server wants to be asked again, by its own clock; None if it names none.

    GitHub reports its limits with status 403 too, and when one ends in headers of its own
    (https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api).
    """
    if response.status_code not in {403, 429} and response.status_code < httpx.codes.INTERNAL_SERVER_ERROR:
        return None
    headers = response.headers
    now = _date_in(headers.get("Date", "")) or datetime.now(UTC)
    after = headers.get("Retry-After", "")
    if _is_number(after):
        return min(float(after), LONGEST_WAIT)
    if until := _date_in(after):
        return min(max((until - now).total_seconds(), 0.0), LONGEST_WAIT)
    for left, reset in _LIMITS:
        at = headers.get(reset, "")
        if headers.get(left) == "0" and _is_number(at):
            return min(max(float(at) - now.timestamp(), 0.0), LONGEST_WAIT)
    return None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 12


def _date_in(text: str) -> datetime | None:
    """Return the time in a header, None where it is none."""
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return at.replace(tzinfo=at.tzinfo or UTC)
