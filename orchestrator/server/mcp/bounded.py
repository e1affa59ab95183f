"""Cut an answer to what an assistant can take in: long texts and long lists are shortened until it is small enough."""

from collections.abc import Sequence

import orjson

from orchestrator.formats.codec import Json, JsonObject

LARGEST = 40_000
"""Bytes of an answer as JSON: about ten thousand tokens, from which on Claude Code warns."""
STEPS: Sequence[tuple[int, int]] = ((8000, 200), (2000, 100), (500, 40), (200, 20), (80, 8), (60, 2))
"""Characters of a text and elements of a list that are kept, tried one after the other."""


def bounded(document: JsonObject) -> tuple[JsonObject, bool]:
    """Return the document, cut if it is too large, and whether it was cut. A cut text says by how much."""
    if len(orjson.dumps(document)) <= LARGEST:
        return document, False
    for characters, elements in STEPS:
        shorter = {name: _cut(value, characters, elements) for name, value in document.items()}
        if len(orjson.dumps(shorter)) <= LARGEST:
            break
    return shorter, True


def _cut(value: Json, characters: int, elements: int) -> Json:
    match value:
        case str() if len(value) > characters:
            return f"{value[:characters]}… [{len(value) - characters} characters more]"
        case list():
            return [_cut(one, characters, elements) for one in value[:elements]]
        case dict():
            return {name: _cut(one, characters, elements) for name, one in value.items()}
        case _:
            return value
