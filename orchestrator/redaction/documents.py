"""Masking secrets in JSON: string by string, so that what remains is JSON, and so that no document is too large."""

from collections.abc import Callable

import orjson

from orchestrator.formats.codec import Json


def mask_document(text: str, masked: Callable[[str], str]) -> str:
    """Return a text with its secrets masked; that of JSON, or of JSON lines, string by string.

    JSON that is nested too deeply to be written again is masked as any other text.
    """
    try:
        return _masked(text, masked)
    except orjson.JSONDecodeError:
        lines = text.split("\n")
    except (TypeError, RecursionError):
        return masked(text)
    try:
        return "\n".join(_masked(line, masked) if line.strip() else line for line in lines)
    except (orjson.JSONDecodeError, TypeError, RecursionError):
        return masked(text) if text else ""


def _masked(text: str, masked: Callable[[str], str]) -> str:
    """Return a JSON document with its secrets masked, on one line unless it is on several. Raises JSONDecodeError."""
    option = orjson.OPT_INDENT_2 if "\n" in text.strip() else None
    value: Json = orjson.loads(text)
    ending = "\n" if text.endswith("\n") else ""
    return orjson.dumps(mask_values(value, masked), option=option).decode() + ending


def mask_values(value: Json, masked: Callable[[str], str]) -> Json:
    """Return a JSON value with the secrets in all of its strings masked."""
    if isinstance(value, str):
        return masked(value) if value else value
    if isinstance(value, list):
        return [mask_values(one, masked) for one in value]
    if isinstance(value, dict):
        return {masked(name): mask_values(one, masked) for name, one in value.items()}
    return value
