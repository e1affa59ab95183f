"""The input of a model, and its possible replies: the vocabulary of the scripted Messages API."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from orchestrator.formats.codec import JsonObject
from orchestrator.formats.fields import list_of, object_of, text_of

MUCH = 100_000_000


@dataclass(frozen=True, slots=True)
class Say:
    """The model's final text of a turn."""

    text: str


@dataclass(frozen=True, slots=True)
class Use:
    """The model calls a tool; the CLI returns with the result."""

    name: str
    input: JsonObject
    text: str = "I use a tool."


@dataclass(frozen=True, slots=True)
class Drip:
    """A final text that comes piece by piece, `every` seconds apart."""

    pieces: tuple[str, ...]
    every: float


@dataclass(frozen=True, slots=True)
class Fail:
    """An HTTP error of the API."""

    status: int
    error: str
    message: str
    headers: Mapping[str, str] = field(default_factory=dict)


Reply = Say | Use | Drip | Fail


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool."""

    text: str
    ok: bool


@dataclass(frozen=True, slots=True)
class Scene:
    """One call to the model: the newest prompt, the tool results since, and everything else in `request`."""

    prompt: str
    results: tuple[ToolResult, ...]
    system: str
    step: int  # how often the model has answered since the prompt
    request: JsonObject


ScriptedModel = Callable[[Scene], Reply]


def in_order(scene: Scene, *replies: Reply) -> Reply:
    """Return the next reply since the newest prompt; the last one again when all are used up."""
    return replies[min(scene.step, len(replies) - 1)]


def usage_limit(*, resets_at: int, window: str = "five_hour") -> Fail:
    """Return a subscription's usage limit (only with CLAUDE_CODE_OAUTH_TOKEN); `resets_at` in epoch seconds."""
    unified = "anthropic-ratelimit-unified"
    headers = {
        f"{unified}-status": "rejected",
        f"{unified}-reset": str(resets_at),
        f"{unified}-representative-claim": window,
    }
    return Fail(429, "rate_limit_error", "This request would exceed your account's rate limit.", headers)


def scene_of(request: JsonObject) -> Scene:
    """Return the text of a request, without the reminders that the CLI inserts."""
    prompt, results, step = "", list[ToolResult](), 0
    for message in map(object_of, list_of(request.get("messages"))):
        if message.get("role") == "assistant":
            step += 1
        if message.get("role") != "user":
            continue
        blocks = content_blocks(message)
        texts = [text_of(block.get("text"), MUCH) for block in blocks if block.get("type") == "text"]
        said = [text for text in texts if text and not text.startswith("<system-reminder>")]
        if said:
            prompt, step = said[-1], 0
            results.clear()
        results += [tool_result(block) for block in blocks if block.get("type") == "tool_result"]
    system = "\n".join(text_of(block.get("text"), MUCH) for block in system_blocks(request))
    return Scene(prompt=prompt, results=tuple(results), system=system, step=step, request=request)


def content_blocks(message: JsonObject) -> list[JsonObject]:
    content = message.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else [*map(object_of, list_of(content))]


def system_blocks(request: JsonObject) -> list[JsonObject]:
    return content_blocks({"content": request.get("system")})


def tool_result(block: JsonObject) -> ToolResult:
    text = "\n".join(text_of(part.get("text"), MUCH) for part in content_blocks(block))
    return ToolResult(text=text, ok=block.get("is_error") is not True)
