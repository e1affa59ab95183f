"""Read one field of a message in which any field may be missing, of another type, or huge."""

from orchestrator.formats.codec import Json, JsonObject

NAME = 200  # characters of an id, a name, a path, a word

LARGEST_COUNT = 10**12
"""Upper bound of an agent's counters, so that sums of them stay within what JSON can represent."""

_LARGEST = 2**63 - 1


def text_of(value: object, limit: int = NAME) -> str:
    """Return the string, cut to `limit` characters; "" for anything else."""
    if isinstance(value, str):
        return value if len(value) <= limit else value[:limit]
    return ""


def line_of(value: object, limit: int = NAME) -> str:
    """Return the beginning of the string as one line: every run of white space becomes one space."""
    return " ".join(text_of(value, 4 * limit).split())[:limit]


def integer_of(value: object) -> int | None:
    """Return the number as an integer from 0 to 2⁶³-1, or None."""
    if type(value) is int or type(value) is float:
        return int(value) if 0 <= value <= _LARGEST else None
    return None


def count_of(value: object) -> int:
    """Return the number as an integer from 0 to 10¹², with 0 for anything else."""
    if type(value) is int and 0 <= value <= LARGEST_COUNT:
        return value
    return min(integer_of(value) or 0, LARGEST_COUNT)


def money_of(value: object) -> float:
    """Return the number as US dollars; 0.0 for anything else and for negative numbers."""
    if type(value) is int or type(value) is float:
        return float(value) if 0 <= value <= _LARGEST else 0.0
    return 0.0


def share_of(value: object) -> float | None:
    """Return the number as a fraction of at most 1.0; None for anything else and for negative numbers."""
    if type(value) is int or type(value) is float:
        return float(min(value, 1)) if value >= 0 else None
    return None


def object_of(value: object) -> JsonObject:
    """Return the object, or an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def list_of(value: object) -> list[Json]:
    """Return the list, or an empty one for anything else."""
    return value if isinstance(value, list) else []
