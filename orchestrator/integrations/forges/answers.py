"""Reading fields of a forge's answer in which every field may be missing, of another type, or huge."""

from datetime import UTC, datetime

from orchestrator.formats.codec import Json, JsonObject, time_of
from orchestrator.formats.fields import list_of, object_of, text_of
from orchestrator.integrations.forges.errors import ForgeRefused

LONG = 65_536
"""Characters of a body."""

TAIL = 16 * 1024
"""Bytes of a log's end."""

URL = 2_000
"""Characters of an address."""


def objects_of(value: Json) -> list[JsonObject]:
    """The objects of a list."""
    return [object_of(item) for item in list_of(value)]


def number_of(value: Json, what: str) -> int:
    """An id or a number; ForgeRefused names `what` was looked for where there is none."""
    if type(value) is not int:
        raise ForgeRefused(f"the forge's answer has no {what}; is the address of its API right?")
    return value


def name_of(value: Json, field: str) -> str:
    """One text of an object that may not be there, such as the login of a user who is gone."""
    return text_of(object_of(value).get(field))


def at_of(value: Json) -> datetime:
    """The time that a field says; the beginning of time where it says none, so that nothing is newer than it is."""
    try:
        return time_of(text_of(value))
    except ValueError:
        return datetime.fromtimestamp(0, UTC)
