"""Convert values to JSON and back by their declared types; every dataclass of ours is serialised here.

Times are UTC, ISO 8601 with Z and milliseconds; enums are written as their values and tuples as lists.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from enum import StrEnum
from types import NoneType, UnionType
from typing import TypeVar, Union, cast, get_args, get_origin, get_type_hints

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
        return value.value
    if isinstance(value, datetime):
        return stamp(value)
    if isinstance(value, tuple | list | frozenset):
        return [to_json(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    return {name: to_json(getattr(value, name)) for name in _names(type(value))}


def from_json(kind: type[T], value: Json) -> T:
    """Return the value of a declared type that plain JSON data describes.

    Missing fields take their defaults and unknown ones are ignored, so that files of other versions can be read. Raises
    TypeError or ValueError if the data does not fit the type.
    """
    return cast(T, _read(kind, value))


def _read(kind: object, value: Json) -> object:
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        choices = [choice for choice in get_args(kind) if choice is not NoneType]
        return None if value is None else _read(choices[0], value)
    if origin is tuple and isinstance(value, list):
        return tuple(_read(get_args(kind)[0], item) for item in value)
    if isinstance(origin, type) and issubclass(origin, Mapping) and isinstance(value, dict):
        return {key: _read(get_args(kind)[1], item) for key, item in value.items()}
    if kind is datetime and isinstance(value, str):
        return time_of(value)
    if kind is float and isinstance(value, int | float):
        return float(value)
    if isinstance(kind, type) and issubclass(kind, StrEnum) and isinstance(value, str):
        return kind(value)
    if isinstance(kind, type) and is_dataclass(kind) and isinstance(value, dict):
        hints = _hints(kind)
        return kind(**{name: _read(hints[name], value[name]) for name in _names(kind) if name in value})
    if isinstance(kind, type) and isinstance(value, kind):
        return value
    raise TypeError(f"{value!r:.80} is not {getattr(kind, '__name__', kind)}")


_NAMES: dict[type, tuple[str, ...]] = {}
_HINTS: dict[type, dict[str, object]] = {}


def _names(kind: type) -> tuple[str, ...]:
    if kind not in _NAMES:
        if not is_dataclass(kind):
            raise TypeError(f"{kind.__name__} has no form in JSON")
        _NAMES[kind] = tuple(field.name for field in fields(kind))
    return _NAMES[kind]


def _hints(kind: type) -> dict[str, object]:
    if kind not in _HINTS:
        _HINTS[kind] = get_type_hints(kind)
    return _HINTS[kind]
