"""The calls of tools in a line of the claude CLI's stream-json, with what they were given and what they returned.

The program itself reads only a summary of both (claude.py). A person wants to see the command, the edit and the result,
so these are read here, cut at MOST characters each.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from orchestrator.formats.codec import Json, JsonObject
from orchestrator.formats.fields import list_of, object_of, text_of

MOST: Final = 20_000
"""Characters of an input, of one side of an edit, or of a result."""
MOST_EDITS: Final = 50

_MARKS: Final = (b'"tool_use"', b'"server_tool_use"', b'"tool_result"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A change that a tool was asked to make to a file; `old` is empty where a file is written whole."""

    path: str
    old: str
    new: str
    cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """What a tool was called with: its edits, or else its input as text."""

    id: str
    name: str
    input: str = ""
    edits: tuple[Edit, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What a tool returned; `cut` says that there was more."""

    id: str
    text: str
    ok: bool
    cut: bool = False


def calls_and_results(line: bytes) -> Mapping[str, ToolCall | ToolResult]:
    """Return the calls and results in a line by their ids; none if it has none or is not understood."""
    if not any(mark in line for mark in _MARKS):
        return {}
    try:
        document: Json = msgspec.json.decode(line)
        content = list_of(object_of(object_of(document).get("message")).get("content"))
        return {one.id: one for block in content if (one := _read(object_of(block))) is not None}
    except (ValueError, RecursionError):
        return {}


def _read(block: JsonObject) -> ToolCall | ToolResult | None:
    match block.get("type"):
        case "tool_use" | "server_tool_use":
            return _call(block)
        case "tool_result":
            text = _texts(block.get("content"))
            cut = len(text) > MOST
            return ToolResult(
                id=text_of(block.get("tool_use_id")), text=text[:MOST], ok=block.get("is_error") is not True, cut=cut
            )
        case _:
            return None


def _call(block: JsonObject) -> ToolCall:
    given = object_of(block.get("input"))
    edits = tuple(_edits(given))
    return ToolCall(
        id=text_of(block.get("id")),
        name=text_of(block.get("name")),
        input="" if edits else _input(given),
        edits=edits,
    )


def _edits(given: JsonObject) -> Iterator[Edit]:
    """Yield the edits of a call; which tools edit is known by their inputs, not by their names."""
    path = text_of(given.get("file_path") or given.get("notebook_path"), 4096)
    if not path:
        return
    several = [object_of(one) for one in list_of(given.get("edits"))[:MOST_EDITS]]
    for one in several or [given]:
        new = one.get("new_string", one.get("content", one.get("new_source")))
        if isinstance(new, str):
            old = text_of(one.get("old_string"), MOST + 1)
            cut = len(old) > MOST or len(new) > MOST
            yield Edit(path=path, old=old[:MOST], new=new[:MOST], cut=cut)


def _input(given: JsonObject) -> str:
    """Return an input as a person reads it: a single text as it is, anything else as JSON."""
    if not given:
        return ""
    command = given.get("command")
    if isinstance(command, str) and set(given) <= {"command", "description", "timeout"}:
        return command[:MOST]
    return json.dumps(given, ensure_ascii=False, indent=2)[:MOST]


def _texts(content: Json) -> str:
    """Return the text of a result, which is a text or a list of parts."""
    if isinstance(content, str):
        return content[: MOST + 1]
    parts = (object_of(part) for part in list_of(content)[:100])
    return "\n".join(text_of(part.get("text"), MOST) or f"[{text_of(part.get('type'))}]" for part in parts)[: MOST + 1]
