"""Convert values to JSON and back by their declared types; every dataclass of ours is serialised here.

Times are UTC, ISO 8601 with Z and milliseconds; enums are written as their values and tuples as lists.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, date, datetime
from enum import StrEnum
from types import NoneType
from typing import TypeVar, cast

import msgspec

T = TypeVar("T")

_PLAIN = frozenset({NoneType, bool, int, float, str})

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
JsonObject = dict[str, Json]


def stamp(at: datetime) -> str:
    """Return a time as it is written everywhere: `2026-05-28T01:23:45.000Z`."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def time_of(text: str) -> datetime:
    """Return the time that a stamp denotes. Raises ValueError."""
    return datetime.fromisoformat(text).astimezone(UTC)


def to_json(value: object) -> Json:
    """Return a value as plain JSON data."""
    if type(value) in _PLAIN:
        return cast(Json, value)
    if isinstance(value, StrEnum):
        return str(value)
    if isinstance(value, datetime):
        return stamp(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, tuple | list | frozenset):
        return [to_json(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    members = ((name, getattr(value, name)) for name in _names(type(value)))
    return {name: one if type(one) in _PLAIN else to_json(one) for name, one in members}


def from_json(kind: type[T], value: Json) -> T:
    """Return the value of a declared type that plain JSON data describes.

    Missing fields take their defaults and unknown ones are ignored, so that files of other versions can be read. Raises
    ValueError if the data does not fit the type.
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error


_NAMES: dict[type, tuple[str, ...]] = {}


def _names(kind: type) -> tuple[str, ...]:
    if kind not in _NAMES:
        if not is_dataclass(kind):
            raise TypeError(f"{kind.__name__} has no form in JSON")
        _NAMES[kind] = tuple(field.name for field in fields(kind))
    return _NAMES[kind]
