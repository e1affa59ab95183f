"""Describe values, as codec.py writes them, in JSON Schema by their declared types."""

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime
from enum import StrEnum
from types import NoneType, UnionType
from typing import Union, get_args, get_origin, get_type_hints

from orchestrator.formats.codec import Json, JsonObject

_PLAIN: Mapping[object, str] = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}


def schema_of(kind: object) -> JsonObject:
    """Return the schema of a declared type. Raises TypeError for a type that codec.py cannot write."""
    if kind in _PLAIN:
        return {"type": _PLAIN[kind]}
    if kind is datetime:
        return {"type": "string", "format": "date-time"}
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return {"anyOf": [schema_of(choice) for choice in args]}
    if origin is tuple:
        return array(schema_of(args[0]))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": schema_of(args[1])}
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return one_of(*(member.value for member in kind))
    if isinstance(kind, type) and is_dataclass(kind):
        needed = [one.name for one in fields(kind) if one.default is MISSING and one.default_factory is MISSING]
        return record(properties_of(kind), needed)
    raise TypeError(f"{getattr(kind, '__name__', kind)} has no form in JSON")


def properties_of(kind: type) -> JsonObject:
    """Return the schemas of a dataclass's fields, by name."""
    hints = get_type_hints(kind)
    return {one.name: schema_of(hints[one.name]) for one in fields(kind)} if is_dataclass(kind) else {}


def record(properties: JsonObject, needed: list[str] | None = None) -> JsonObject:
    """Return the schema of an object with exactly these properties; all are required unless `required` says which."""
    required: list[Json] = [*(properties if needed is None else needed)]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def array(items: JsonObject) -> JsonObject:
    """Return the schema of a list of such items."""
    return {"type": "array", "items": items}


def one_of(*words: str) -> JsonObject:
    """Return the schema of one of these words."""
    return {"type": "string", "enum": [*words]}


def maybe(schema: JsonObject) -> JsonObject:
    """Return the schema of such a value or null."""
    return {"anyOf": [schema, {"type": "null"}]}
