"""Reading one field of a message in which every field may be missing, of another type, or huge."""

from orchestrator.formats.codec import Json, JsonObject

NAME = 200  # characters of an id, a name, a path, a word

LARGEST_COUNT = 10**12
"""No counter of an agent's is believed to be larger, so that sums of them stay what JSON can hold."""

_LARGEST = 2**63 - 1


def text_of(value: object, limit: int = NAME) -> str:
    """The string, cut to `limit` characters; "" for anything else."""
    if isinstance(value, str):
        return value if len(value) <= limit else value[:limit]
    return ""


def line_of(value: object, limit: int = NAME) -> str:
    """The beginning of the string as one line: every run of white space becomes one space."""
    return " ".join(text_of(value, 4 * limit).split())[:limit]


def integer_of(value: object) -> int | None:
    """The number as an integer within 0 … 2⁶³-1, or None."""
    if type(value) is int or type(value) is float:
        return int(value) if 0 <= value <= _LARGEST else None
    return None


def count_of(value: object) -> int:
    """As `integer_of`, at most 10¹², with 0 for what is no such number."""
    if type(value) is int and 0 <= value <= LARGEST_COUNT:
        return value
    return min(integer_of(value) or 0, LARGEST_COUNT)


def money_of(value: object) -> float:
    """The number in US dollars, 0.0 for what is none or negative."""
    if type(value) is int or type(value) is float:
        return float(value) if 0 <= value <= _LARGEST else 0.0
    return 0.0


def share_of(value: object) -> float | None:
    """The number as a part of a whole, at most 1.0, or None for what is none or negative."""
    if type(value) is int or type(value) is float:
        return float(min(value, 1)) if value >= 0 else None
    return None


def object_of(value: object) -> JsonObject:
    """The object, or an empty one."""
    return value if isinstance(value, dict) else {}


def list_of(value: object) -> list[Json]:
    """The list, or an empty one."""
    return value if isinstance(value, list) else []
