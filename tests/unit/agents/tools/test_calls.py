"""An agent's calls of the daemon's tools, as its reader finds them in its output."""

from datetime import UTC, datetime
from pathlib import Path

import orjson
import pytest

from orchestrator.agents.claude import Parser
from orchestrator.agents.output_reader import OutputReader, ReaderCallbacks
from orchestrator.agents.tools.catalogue import PREFIX, RECORDED
from orchestrator.core.events.agent_messages import AgentTool
from orchestrator.core.events.events import AgentSaid, Event, TurnFinished
from orchestrator.core.task.agent import Agent
from orchestrator.core.task.user_requests import RequestDraft, Subject
from orchestrator.formats.codec import Json, JsonObject

NOW = datetime(2026, 11, 21, 22, tzinfo=UTC)
ASK = f"{PREFIX}ask_user"
QUESTION: JsonObject = {"question": "Which database?", "options": ["SQLite", "Postgres"], "default": "sqlite"}
END: JsonObject = {"type": "result", "subtype": "success", "is_error": False, "result": "done"}


def use(name: str = ASK, given: Json = QUESTION, *, call: str = "t1", parent: str | None = None) -> JsonObject:
    block: JsonObject = {"type": "tool_use", "id": call, "name": name, "input": given}
    return {"type": "assistant", "message": {"content": [block]}, "parent_tool_use_id": parent}


def result(text: str = RECORDED[AgentTool.ASK_USER], *, call: str = "t1", error: bool = False) -> JsonObject:
    content: Json = text if error else [{"type": "text", "text": text}]
    block: JsonObject = {"type": "tool_result", "tool_use_id": call, "content": content, "is_error": error}
    return {"type": "user", "message": {"content": [block]}}


def read(folder: Path, *lines: JsonObject, after: int = 0) -> list[Event]:
    """What a reader reports of these lines that begins after the first `after` of them."""
    written = [orjson.dumps(line) + b"\n" for line in lines]
    (folder / "stdout.jsonl").write_bytes(b"".join(written))
    heard: list[Event] = []
    callbacks = ReaderCallbacks(
        event=heard.append,
        telemetry=lambda _: None,
        asked=lambda _: None,
        by_role=lambda _: None,
        limit=lambda _: None,
        clock=lambda: NOW,
    )
    agent = Agent(attempt=1, read_offset=sum(map(len, written[:after])))
    reader = OutputReader(folder, agent, Parser(), callbacks)
    while reader.read():
        pass
    return heard


def asked(events: list[Event]) -> list[RequestDraft]:
    return [draft for event in events if isinstance(event, AgentSaid) for draft in event.asking]


def test_an_acknowledged_question_is_asked_as_in_the_text_protocol(tmp_path: Path) -> None:
    (draft,) = asked(read(tmp_path, use(), result()))
    assert (draft.subject, draft.text, draft.options) == (Subject.QUESTION, "Which database?", ("SQLite", "Postgres"))
    assert (draft.default, draft.request_id) == ("SQLite", None)


def test_a_dependency_is_requested_as_in_the_text_protocol(tmp_path: Path) -> None:
    given: JsonObject = {"type": "api_key", "name": "SHOP_KEY", "description": "to pay", "required": False}
    name = f"{PREFIX}request_dependency"
    (draft,) = asked(read(tmp_path, use(name, given), result(RECORDED[AgentTool.REQUEST_DEPENDENCY])))
    assert (draft.subject, draft.name, draft.type, draft.required) == (Subject.DEPENDENCY, "SHOP_KEY", "api_key", False)


@pytest.mark.parametrize("after", [0, 1, 2])
def test_a_reader_that_begins_anywhere_counts_a_call_once(tmp_path: Path, after: int) -> None:
    alive: JsonObject = {"type": "keep_alive"}
    lines = (use(), alive, result())
    before, later = read(tmp_path, *lines[:after]), read(tmp_path, *lines, after=after)
    assert len(asked(before) + asked(later)) == 1
    assert asked(read(tmp_path, *lines, after=3)) == []


@pytest.mark.parametrize(
    "lines",
    [
        (use(),),
        (use(), result("Not done: question is missing.", error=True)),
        (use(), result(error=True)),
        (use(), result("Asked by other means.")),
        (use(), result(call="t2")),
        (use(parent="t0"), result()),
        (use("Bash", {"command": "echo"}), result()),
        (use("mcp__other__ask_user"), result()),
        (use(f"{PREFIX}delete"), result()),
        (use(f"{PREFIX}phase_complete", {"number": 2}), result(RECORDED[AgentTool.PHASE_COMPLETE])),
        (use(f"{PREFIX}request_dependency"), result()),
        (result(), use()),
    ],
)
def test_nothing_is_asked_by_a_call_that_failed_or_is_another_tools(tmp_path: Path, lines: tuple[JsonObject]) -> None:
    for after in range(len(lines) + 1):
        assert asked(read(tmp_path, *lines, END, after=after)) == []


def test_a_call_that_the_tool_should_not_have_taken_is_reported_back_as_malformed(tmp_path: Path) -> None:
    other: JsonObject = {"question": "Which?", "default": "c", "options": ["a", "b"]}
    unfit: list[Json] = [{}, {"question": "x" * 20_000}, "no object", other]
    for given in unfit:
        events = read(tmp_path, use(given=given), result(), END)
        assert asked(events) == []
        ended = next(event for event in events if isinstance(event, TurnFinished))
        assert ended.malformed[0].startswith("USER_QUESTION was not understood: ")


def test_a_line_that_is_too_long_is_malformed_and_costs_no_more_than_others(tmp_path: Path) -> None:
    assert asked(read(tmp_path, use(given={"question": "x" * 2_000_000}), result(), END)) == []


def test_several_questions_in_one_message_are_asked_once_each(tmp_path: Path) -> None:
    calls = [use(call=f"t{n}", given={"question": f"{n}?"}) for n in range(3)]
    lines = calls + [result(call=f"t{n}") for n in range(3)]
    assert [draft.text for draft in asked(read(tmp_path, *lines))] == ["0?", "1?", "2?"]
