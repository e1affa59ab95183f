"""A scripted Messages API on loopback, so that the real CLI can be driven without an account and without a network.

    def model(scene: Scene) -> Reply:
        return in_order(scene, Use("Bash", {"command": "pytest -q"}), Say("All green."))

    with MessagesApi(model) as api:
        run_claude(env={"ANTHROPIC_BASE_URL": api.url, "ANTHROPIC_API_KEY": "anything"})
    assert api.scenes[1].results[0].text == "3 passed"

The model is called once per call to the model, on the server's threads. An exception in it is answered with status
400, which the CLI does not retry, and raised again when the `with` block ends.
"""

import json
import threading
from collections.abc import Iterator, Mapping
from typing import assert_never
from uuid import uuid4

import orjson

from orchestrator.formats.codec import Json, JsonObject
from orchestrator.formats.fields import object_of, text_of
from tests.fakes.loopback_server import Handler, LoopbackServer
from tests.fakes.scripted_model import Drip, Fail, Reply, Say, Scene, ScriptedModel, Use, scene_of


class MessagesApi(LoopbackServer):
    """`url` is the value of ANTHROPIC_BASE_URL; `scenes` records every call to the model so far."""

    def __init__(self, model: ScriptedModel) -> None:
        super().__init__(_Handler)
        self.scenes: list[Scene] = []
        self.input_tokens = 100
        """What every call to the model has taken in, as it reports."""
        self._model = model
        self._errors: list[Exception] = []

    @property
    def env(self) -> dict[str, str]:
        """Return the environment with which the CLI talks only to this API."""
        quiet = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
        return {"ANTHROPIC_BASE_URL": self.url, "ANTHROPIC_API_KEY": "sk-ant-scripted", **quiet}

    def verify(self) -> None:
        """Raise the model's own exception."""
        if self._errors:
            raise self._errors[0]

    def answer(self, request: JsonObject) -> Reply:
        """Return the model's reply to one call."""
        scene = scene_of(request)
        self.scenes.append(scene)
        try:
            return self._model(scene)
        except Exception as error:  # noqa: BLE001 - it belongs to the test, not to this thread
            self._errors.append(error)
            return Fail(400, "invalid_request_error", f"the model failed: {error!r}")


class _Handler(Handler[MessagesApi]):
    def do_HEAD(self) -> None:
        """Answer the CLI's connectivity check."""
        self.send(200)

    def do_GET(self) -> None:
        """Nothing else is served."""
        self._send_json(404, {"type": "error", "error": {"type": "not_found_error", "message": self.path}})

    def do_POST(self) -> None:
        """Answer a call to the model, or a count of tokens."""
        body = self.read()
        match self.path.split("?")[0]:
            case "/v1/messages":
                request = object_of(orjson.loads(body))
                self._play(self.stand_in.answer(request), request)
            case "/v1/messages/count_tokens":
                self._send_json(200, {"input_tokens": 100})
            case _:
                self.do_GET()

    def _play(self, reply: Reply, request: JsonObject) -> None:
        if isinstance(reply, Fail):
            error: JsonObject = {"type": "error", "error": {"type": reply.error, "message": reply.message}}
            self._send_json(reply.status, error, reply.headers)
        elif request.get("stream") is True:
            self._stream(reply, message_head(self.stand_in, request))
        else:
            blocks: list[Json] = [*blocks_of(reply)]
            end: JsonObject = {"stop_reason": stop_reason(reply), "usage": usage(self.stand_in, 50)}
            self._send_json(200, message_head(self.stand_in, request) | {"content": blocks} | end)

    def _stream(self, reply: Say | Use | Drip, head: JsonObject) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        for event in events_of(reply, head, self.stand_in.closing):
            self.wfile.write(b"event: %s\ndata: %s\n\n" % (text_of(event["type"]).encode(), orjson.dumps(event)))

    def _send_json(self, status: int, body: JsonObject, headers: Mapping[str, str] | None = None) -> None:
        self.send(status, orjson.dumps(body), {"Content-Type": "application/json", **(headers or {})})


def message_head(api: MessagesApi, request: JsonObject) -> JsonObject:
    return {
        "id": f"msg_{len(api.scenes):06}",
        "type": "message",
        "role": "assistant",
        "model": text_of(request.get("model")),
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage(api, 1),
    }


def usage(api: MessagesApi, output_tokens: int) -> JsonObject:
    cache: JsonObject = {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    return {"input_tokens": api.input_tokens, "output_tokens": output_tokens} | cache


def stop_reason(reply: Say | Use | Drip) -> str:
    return "tool_use" if isinstance(reply, Use) else "end_turn"


def blocks_of(reply: Say | Use | Drip) -> Iterator[JsonObject]:
    match reply:
        case Say(text):
            yield {"type": "text", "text": text}
        case Drip(pieces):
            yield {"type": "text", "text": "".join(pieces)}
        case Use(name, given, text):
            yield {"type": "text", "text": text}
            yield {"type": "tool_use", "id": tool_use_id(), "name": name, "input": given}
        case _:
            assert_never(reply)


def events_of(reply: Say | Use | Drip, head: JsonObject, closing: threading.Event) -> Iterator[JsonObject]:
    """Return the reply as the API streams it."""
    yield {"type": "message_start", "message": head}
    for index, block in enumerate(blocks_of(reply)):
        is_tool = block["type"] == "tool_use"
        empty: JsonObject = {"input": {}} if is_tool else {"text": ""}
        yield {"type": "content_block_start", "index": index, "content_block": block | empty}
        if is_tool:
            delta: JsonObject = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        else:
            for piece in reply.pieces if isinstance(reply, Drip) else (block["text"],):
                yield {"type": "content_block_delta", "index": index, "delta": {"type": "text_delta", "text": piece}}
                if isinstance(reply, Drip) and closing.wait(reply.every):
                    return
        yield {"type": "content_block_stop", "index": index}
    end: JsonObject = {"stop_reason": stop_reason(reply), "stop_sequence": None}
    yield {"type": "message_delta", "delta": end, "usage": {"output_tokens": 50}}
    yield {"type": "message_stop"}


def tool_use_id() -> str:
    return f"toolu_{uuid4().hex}"
