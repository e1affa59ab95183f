"""The difference between two JSON documents as a JSON Patch (RFC 6902: add, replace, remove), and its application.

`applied(old, difference(old, new)) == new` for any two objects. A list that only grew gets its new items appended; any
other change of a list replaces it as a whole.
"""

from typing import Final

from orchestrator.formats.codec import Json

Operation = dict[str, Json]

MISSING: Final = object()


def difference(old: dict[str, Json], new: dict[str, Json], path: str = "") -> list[Operation]:
    """Return the operations that turn one object into another; identical parts (`is`) are not compared further."""
    operations: list[Operation] = [{"op": "remove", "path": f"{path}/{_escaped(key)}"} for key in old if key not in new]
    for key, after in new.items():
        before = old.get(key, MISSING)
        if before is after or before == after:
            continue
        place = f"{path}/{_escaped(key)}"
        if before is MISSING:
            operations.append({"op": "add", "path": place, "value": after})
        elif isinstance(before, dict) and isinstance(after, dict):
            operations += difference(before, after, place)
        elif isinstance(before, list) and isinstance(after, list) and before and after[: len(before)] == before:
            operations += [{"op": "add", "path": f"{place}/-", "value": item} for item in after[len(before) :]]
        else:
            operations.append({"op": "replace", "path": place, "value": after})
    return operations


def applied(document: dict[str, Json], operations: list[Operation]) -> dict[str, Json]:
    """Return a new object with the operations applied. Raises ValueError if a path leads nowhere."""
    for operation in operations:
        keys = [_unescaped(part) for part in str(operation["path"]).split("/")[1:]]
        document = _changed(document, keys, operation)
    return document


def _changed(document: dict[str, Json], keys: list[str], operation: Operation) -> dict[str, Json]:
    key, *rest = keys
    document = dict(document)
    if not rest:
        if operation["op"] == "remove":
            del document[key]
        else:
            document[key] = operation["value"]
        return document
    inner = document.get(key)
    if isinstance(inner, dict):
        document[key] = _changed(inner, rest, operation)
    elif isinstance(inner, list) and rest == ["-"]:
        document[key] = [*inner, operation["value"]]
    else:
        raise ValueError(f"{operation['path']} leads nowhere")
    return document


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _unescaped(part: str) -> str:
    return part.replace("~1", "/").replace("~0", "~")
