"""What lines of the claude CLI's stream-json are made of: structures with the fields that are read.

The decoder skips every other field without decoding it. Nothing in a line is certain, so every field may hold any JSON
value, or be missing (None); an object is decoded into its structure, and what stands in its place is kept as it is.
Fields stand in the order in which the CLI writes them: the decoder looks for the next one behind the last.
"""

from typing import TypeAlias, TypeVar

import msgspec

T = TypeVar("T")

Maybe: TypeAlias = T | list[object] | str | float | int | bool | None
"""An object of that structure, or whatever stands in its place."""
MaybeList: TypeAlias = list[T] | dict[str, object] | str | float | int | bool | None
MaybeTable: TypeAlias = dict[str, T] | list[object] | str | float | int | bool | None


class Structure(msgspec.Struct, gc=False):
    """An object of a line; JSON holds no cycles, so the garbage collector need not know it."""


class ToolInput(Structure):
    """The inputs of a tool that tell a person what it is called for, the most telling one first."""

    command: object = None
    file_path: object = None
    notebook_path: object = None
    path: object = None
    pattern: object = None
    url: object = None
    query: object = None
    skill: object = None
    question: object = None
    description: object = None
    prompt: object = None


class Block(Structure):
    """A block of a message's content: text, a thought, the call of a tool, or the result of one."""

    type: object = None
    text: object = None
    thinking: object = None
    id: object = None
    name: object = None
    input: Maybe[ToolInput] = None
    tool_use_id: object = None
    content: object = None
    is_error: object = None


class CacheCreation(Structure):
    """How long what was written to a cache is kept."""

    ephemeral_1h_input_tokens: object = None


class Tokens(Structure):
    """The tokens of one message, or of the main conversation of one turn."""

    input_tokens: object = None
    cache_creation_input_tokens: object = None
    cache_read_input_tokens: object = None
    cache_creation: Maybe[CacheCreation] = None
    output_tokens: object = None


class ModelTokens(Structure, rename="camel"):
    """The tokens of one model since the process began."""

    input_tokens: object = None
    output_tokens: object = None
    cache_read_input_tokens: object = None
    cache_creation_input_tokens: object = None


class Message(Structure):
    """A message of the model's, or one that was sent to it."""

    id: object = None
    model: object = None
    content: MaybeList[Maybe[Block]] = None
    usage: Maybe[Tokens] = None

    def blocks(self) -> list[Block]:
        """Return the blocks of the content, leaving out whatever else stands among them."""
        content = self.content
        return [block for block in content if isinstance(block, Block)] if isinstance(content, list) else []


class RateLimitInfo(Structure, rename="camel"):
    """How one usage window of the account stands."""

    status: object = None
    rate_limit_type: object = None
    resets_at: object = None
    utilization: object = None
    is_using_overage: object = None


class Request(Structure):
    """What the CLI asks for; `input` is whole because an answer may have to repeat it."""

    subtype: object = None
    tool_name: object = None
    input: object = None


class Response(Structure):
    """How the CLI took a request of ours."""

    request_id: object = None
    subtype: object = None
    error: object = None
