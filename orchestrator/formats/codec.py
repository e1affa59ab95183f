"""Convert values to JSON and back by their declared types; every dataclass of ours is serialised here.

Times are UTC, ISO 8601 with Z and milliseconds; enums are written as their values and tuples as lists.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import TypeVar, Union, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")

_PLAIN = frozenset({NoneType, bool, int, float, str})

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
JsonObject = dict[str, Json]

Reader = Callable[[Json], object]


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
    return cast(T, _reader(cast(object, kind))(value))


@cache
def _reader(kind: object) -> Reader:
    """Return the reader of a declared type; inspecting the type for each value would take three times as long."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return _optional_reader(next(choice for choice in arguments if choice is not NoneType))
    if origin is tuple:
        return _tuple_reader(kind, arguments[0])
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping_reader(kind, arguments[1])
    if isinstance(kind, type) and is_dataclass(kind):
        return _record_reader(kind)
    if kind is datetime:
        return lambda value: time_of(value) if isinstance(value, str) else _refuse(kind, value)
    if kind is float:
        return lambda value: float(value) if isinstance(value, int | float) else _refuse(kind, value)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return _enum_reader(kind)
    plain = cast(type, kind)
    return lambda value: value if isinstance(value, plain) else _refuse(kind, value)


def _optional_reader(kind: object) -> Reader:
    read = _reader(kind)
    return lambda value: None if value is None else read(value)


def _tuple_reader(kind: object, item: object) -> Reader:
    read = _reader(item)
    return lambda value: tuple(map(read, value)) if isinstance(value, list) else _refuse(kind, value)


def _mapping_reader(kind: object, item: object) -> Reader:
    read = _reader(item)

    def read_mapping(value: Json) -> object:
        return {key: read(one) for key, one in value.items()} if isinstance(value, dict) else _refuse(kind, value)

    return read_mapping


def _enum_reader(kind: type[StrEnum]) -> Reader:
    members = {str(member): member for member in kind}

    def read_member(value: Json) -> object:
        if not isinstance(value, str):
            return _refuse(kind, value)
        return members[value] if value in members else kind(value)

    return read_member


def _record_reader(kind: type) -> Reader:
    def read_record(value: Json) -> object:
        if not isinstance(value, dict):
            return _refuse(kind, value)
        return kind(**{name: read(value[name]) for name, read in _field_readers(kind) if name in value})

    return read_record


@cache
def _field_readers(kind: type) -> tuple[tuple[str, Reader], ...]:
    hints = get_type_hints(kind)
    return tuple((name, _reader(hints[name])) for name in _names(kind))


def _refuse(kind: object, value: Json) -> object:
    raise TypeError(f"{value!r:.80} is not {getattr(kind, '__name__', kind)}")


_NAMES: dict[type, tuple[str, ...]] = {}


def _names(kind: type) -> tuple[str, ...]:
    if kind not in _NAMES:
        if not is_dataclass(kind):
            raise TypeError(f"{kind.__name__} has no form in JSON")
        _NAMES[kind] = tuple(field.name for field in fields(kind))
    return _NAMES[kind]
