"""Read the fields of a JSON document field by field, so that every refusal names the field and the reason.

The documents come from agents, from people and from the original tool. Whatever they hold, only `InvalidField` is
raised, and every text and list has a limit.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import orjson

from orchestrator.formats.codec import Json, JsonObject

T = TypeVar("T")

NAME, TEXT = 200, 64 * 1024
"""Characters: of an id or a name, and of a text."""
MOST_ENTRIES = 1000
"""How many entries a list may have."""
LARGEST = 256 * 1024
"""Bytes that a solution or a result may have."""
DEEPEST = 100
"""How many lists and objects may be within each other."""


class InvalidField(ValueError):
    """A document breaks its format: `field` is the place, such as `tasks[2].action`, `reason` what is wrong."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}" if field else reason)
        self.field, self.reason = field, reason


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of one JSON object; `path` says where in its document it is."""

    content: JsonObject
    path: str = ""

    @classmethod
    def of(cls, value: object, path: str = "") -> "Fields":
        """Return the fields of a value that has to be an object. Raises InvalidField."""
        if not isinstance(value, dict):
            raise InvalidField(path, f"it must be a JSON object, not {_kind(value)}")
        return cls(value, path)

    @classmethod
    def parse(cls, text: str | bytes) -> "Fields":
        """Return the fields of a document. Raises InvalidField."""
        try:
            return cls.of(shallow(orjson.loads(text)))
        except orjson.JSONDecodeError as error:
            raise InvalidField("", f"it is no JSON: {error!s:.200}") from error

    def place(self, name: str) -> str:
        """Return where a field is, for messages."""
        return f"{self.path}.{name}" if self.path else name

    def refuse(self, name: str, reason: str) -> InvalidField:
        """Return the error that a field is refused with."""
        return InvalidField(self.place(name), reason)

    def get(self, name: str) -> Json:
        """Return a field as it is, None if it is missing."""
        return self.content.get(name)

    def text(self, name: str, limit: int = NAME, *, default: str | None = None) -> str:
        """Return a text; without a default it must be there and not be blank. Raises InvalidField."""
        value = self.get(name)
        if value is None and default is not None:
            return default
        if value is None:
            raise self.refuse(name, "it is missing")
        if not isinstance(value, str):
            raise self.refuse(name, f"it must be a text, not {_kind(value)}")
        if default is None and not value.strip():
            raise self.refuse(name, "it is empty")
        if len(value) > limit:
            raise self.refuse(name, f"it has {len(value)} characters; at most {limit} are allowed")
        return value

    def choice(self, name: str, known: Mapping[str, T], default: T | None = None) -> T:
        """Return what a word stands for. Raises InvalidField if it is unknown, or missing without a default."""
        if default is not None and self.get(name) is None:
            return default
        word = self.text(name)
        if word.lower() not in known:
            raise self.refuse(name, f"{word!r:.60} is unknown; it is one of {', '.join(known)}")
        return known[word.lower()]

    def number(self, name: str, lowest: float, highest: float) -> float | None:
        """Return a number within these bounds, None if it is missing. Raises InvalidField."""
        value = self.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not lowest <= value <= highest:
            raise self.refuse(name, f"it must be a number from {lowest:g} to {highest:g}")
        return value

    def flag(self, name: str) -> bool | None:
        """Return a truth value, None if it is missing. Raises InvalidField."""
        value = self.get(name)
        if value is not None and not isinstance(value, bool):
            raise self.refuse(name, f"it must be true or false, not {_kind(value)}")
        return value

    def entries(self, name: str, most: int = MOST_ENTRIES) -> list[Json]:
        """Return a list, empty if it is missing. Raises InvalidField."""
        value = self.get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.refuse(name, f"it must be a list, not {_kind(value)}")
        if len(value) > most:
            raise self.refuse(name, f"it has {len(value)} entries; at most {most} are allowed")
        return value

    def objects(self, name: str, most: int = MOST_ENTRIES) -> list["Fields"]:
        """Return a list of objects, empty if it is missing. Raises InvalidField."""
        place = self.place(name)
        return [Fields.of(one, f"{place}[{number}]") for number, one in enumerate(self.entries(name, most))]

    def texts(self, name: str, most: int = MOST_ENTRIES, limit: int = TEXT) -> tuple[str, ...]:
        """Return a list of texts, empty if it is missing; one text counts as a list of it. Raises InvalidField."""
        if isinstance(self.get(name), str):
            return (self.text(name, limit, default=""),)
        found = self.entries(name, most)
        for number, one in enumerate(found):
            if not isinstance(one, str):
                raise self.refuse(f"{name}[{number}]", f"it must be a text, not {_kind(one)}")
            if len(one) > limit:
                raise self.refuse(f"{name}[{number}]", f"it has more than {limit} characters")
        return tuple(one for one in found if isinstance(one, str))

    def inner(self, name: str) -> "Fields":
        """Return an object within this one, an empty one if it is missing. Raises InvalidField."""
        value = self.get(name)
        return Fields.of({} if value is None else value, self.place(name))


def sized(text: str | bytes) -> str | bytes:
    """Return the text of a solution or a result that is not too large. Raises InvalidField."""
    size = len(text) if isinstance(text, bytes) else len(text.encode("utf-8", "replace"))
    if size > LARGEST:
        raise InvalidField("", f"it has {size} bytes; at most {LARGEST >> 10} KiB are allowed")
    return text


def shallow(value: Json, path: str = "") -> Json:
    """Return a value that is not nested too deeply. Raises InvalidField."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(DEEPEST):
        inner = (one for outer in level for one in (outer.values() if isinstance(outer, dict) else outer))
        level = [one for one in inner if isinstance(one, dict | list)]
        if not level:
            return value
    raise InvalidField(path, f"it is nested more than {DEEPEST} deep; make it flatter")


def _kind(value: object) -> str:
    """Return what JSON calls a value of this type."""
    if value is None:
        return "null"
    kinds = {dict: "an object", list: "a list", str: "a text", bool: "true or false"}
    return kinds.get(type(value), "a number")
