"""JSON with field names in camelCase, made of what codec.py and the state document write in snake_case.

Names that people or agents chose, of stages, checks and files, are keys too, and stay as they are. They are the keys of
the objects that are listed here.
"""

from functools import lru_cache

from orchestrator.formats.codec import Json, JsonObject

KEYED_BY_DATA = frozenset(
    {
        *("stages", "sessions", "results", "by_state", "by_type", "budgets", "by_day", "files"),
        *("states", "checks", "check_options", "result_details"),  # as state.json has them
    }
)
"""The fields whose objects have no field names as keys."""


@lru_cache(maxsize=4096)
def camel_name(name: str) -> str:
    """Return a field's name in camelCase."""
    first, *rest = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest)


def camel_keys(value: Json, field: str = "") -> Json:
    """Return the same JSON with its field names in camelCase; it is the value of a field, whose own name matters."""
    if isinstance(value, list):
        return [camel_keys(item) for item in value]
    if not isinstance(value, dict):
        return value
    if field in KEYED_BY_DATA:
        return {key: camel_keys(item) for key, item in value.items()}
    return {camel_name(key): camel_keys(item, key) for key, item in value.items()}


def camel_patch(operations: Json) -> Json:
    """Return the same JSON Patch with the field names in its paths and values in camelCase.

    It leads from one document to another if both are in camelCase. Anything but a patch is returned as it is.
    """
    if not isinstance(operations, list):
        return operations
    return [_operation(one) if isinstance(one, dict) else one for one in operations]


def _operation(one: JsonObject) -> JsonObject:
    path, field = "", ""
    for name in str(one.get("path", "")).split("/")[1:]:
        is_data = field in KEYED_BY_DATA
        path, field = f"{path}/{name if is_data else camel_name(name)}", "" if is_data else name
    return {**one, "path": path, **({"value": camel_keys(one["value"], field)} if "value" in one else {})}
