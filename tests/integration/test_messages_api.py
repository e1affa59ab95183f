"""The scripted Messages API: any HTTP client gets valid responses."""

import httpx
import pytest

from orchestrator.formats.codec import Json, JsonObject
from tests.fakes.messages_api import MessagesApi
from tests.fakes.scripted_model import Reply, Say, Scene, ToolResult, Use, in_order, scene_of


def asked(*messages: JsonObject) -> JsonObject:
    listed: list[Json] = [*messages]
    return {"model": "m", "system": "Be brief.", "messages": listed}


def said(role: str, *blocks: JsonObject) -> JsonObject:
    listed: list[Json] = [*blocks]
    return {"role": role, "content": listed}


def text(words: str) -> JsonObject:
    return {"type": "text", "text": words}


def test_a_scene_is_the_newest_prompt_and_the_tool_results_since() -> None:
    scene = scene_of(
        asked(
            said("user", text("<system-reminder>hm</system-reminder>"), text("first")),
            said("system", text("# Environment")),
            said("assistant", text("ok")),
            said("user", text("second")),
            said("assistant", {"type": "tool_use", "id": "t", "name": "Bash", "input": {}}),
            said("user", {"type": "tool_result", "tool_use_id": "t", "content": "no", "is_error": True}),
        )
    )
    assert (scene.prompt, scene.step, scene.system) == ("second", 1, "Be brief.")
    assert scene.results == (ToolResult(text="no", ok=False),)


def test_replies_come_in_order_and_the_last_one_is_repeated() -> None:
    def reply(*answers: str) -> Reply:
        scene = scene_of(asked(said("user", text("go")), *(said("assistant", text(words)) for words in answers)))
        return in_order(scene, Use("Bash", {}), Say("done"))

    assert [reply(), reply("a"), reply("a", "b")] == [Use("Bash", {}), Say("done"), Say("done")]


def test_a_call_without_streaming_is_answered_whole() -> None:
    with MessagesApi(lambda scene: Say(scene.prompt)) as api:
        answer = httpx.post(f"{api.url}/v1/messages?beta=true", json=asked(said("user", text("hi"))))
    assert answer.json()["content"] == [{"type": "text", "text": "hi"}]
    assert answer.json()["stop_reason"] == "end_turn"


def test_a_streamed_call_is_answered_in_events() -> None:
    with MessagesApi(lambda _: Use("Bash", {"command": "ls"})) as api:
        answer = httpx.post(f"{api.url}/v1/messages", json=asked(said("user", text("hi"))) | {"stream": True})
    names = [line.removeprefix("event: ") for line in answer.text.splitlines() if line.startswith("event: ")]
    block = ["content_block_start", "content_block_delta", "content_block_stop"]
    assert names == ["message_start", *block, *block, "message_delta", "message_stop"]


def test_other_paths_get_valid_responses() -> None:
    with MessagesApi(lambda _: Say("")) as api:
        assert httpx.head(api.url).status_code == 200
        assert httpx.get(f"{api.url}/v1/models").status_code == 404
        assert httpx.post(f"{api.url}/v1/messages/count_tokens", json={}).json() == {"input_tokens": 100}
    assert api.scenes == []


def test_a_failing_script_fails_the_test() -> None:
    def model(scene: Scene) -> Reply:
        raise LookupError(scene.prompt)

    with pytest.raises(LookupError, match="hi"), MessagesApi(model) as api:
        httpx.post(f"{api.url}/v1/messages", json=asked(said("user", text("hi"))))
