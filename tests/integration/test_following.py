"""Reading an agent's output, including a hostile one's."""

from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import orjson

from orchestrator.agents.claude import Parser
from orchestrator.agents.output_reader import MOST_REFUSED, MOST_TOKENS, TAKEN_AT_ONCE, OutputReader, ReaderCallbacks
from orchestrator.core.events.agent_events import Asked, Limit
from orchestrator.core.events.events import Event, TurnFinished
from orchestrator.core.task.agent import Agent
from orchestrator.formats.codec import JsonObject, to_json

NOW = datetime(2026, 11, 21, 22, tzinfo=UTC)
MOST = 2**63 - 1
ENDLESS: JsonObject = {"input_tokens": MOST, "output_tokens": MOST}


class Heard:
    """Records what a follower posts for these lines, each as it would be written down."""

    def __init__(self, folder: Path, *lines: JsonObject) -> None:
        self.agent = Agent(attempt=1)
        self.events: list[Event] = []
        self.asked: list[Asked] = []
        self.limits: list[Limit] = []
        self.written = b""
        (folder / "stdout.jsonl").write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
        ears = ReaderCallbacks(
            event=self._event,
            telemetry=lambda change: self._note(change(self.agent)),
            asked=self.asked.append,
            by_role=lambda _: None,
            limit=self.limits.append,
            clock=lambda: NOW,
        )
        follower = OutputReader(folder, self.agent, Parser(), ears)
        self.read_to = [0]
        while follower.read():
            self.read_to.append(follower.offset)

    def _event(self, event: Event) -> None:
        self.events.append(event)
        self.written += orjson.dumps(to_json(event))

    def _note(self, agent: Agent) -> None:
        self.agent = agent
        self.written += orjson.dumps(to_json(agent))


def test_no_token_count_is_too_large_to_be_stored(tmp_path: Path) -> None:
    """JSON as written here has 64-bit integers: a larger sum could be neither stored nor decided on."""
    said: list[JsonObject] = [
        {"type": "assistant", "message": {"id": str(number), "usage": ENDLESS, "content": []}} for number in range(2000)
    ]
    end: JsonObject = {"type": "result", "subtype": "success", "result": "done", "usage": ENDLESS}
    heard = Heard(tmp_path, *said, *[end] * 2000)
    assert heard.agent.turn.tokens <= MOST_TOKENS
    last = heard.events[-1]
    assert isinstance(last, TurnFinished)
    assert last.tokens <= MOST_TOKENS


def test_the_tool_that_has_run_for_longest_is_known_with_its_beginning(tmp_path: Path) -> None:
    def begun(tool: str, name: str) -> JsonObject:
        return {"type": "assistant", "message": {"content": [{"type": "tool_use", "id": tool, "name": name}]}}

    def ended(tool: str) -> JsonObject:
        return {"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": tool}]}}

    said = [begun("t1", "Bash"), begun("t2", "Task"), ended("t1")]
    after_one = Heard(tmp_path, said[0]).agent.turn
    assert (after_one.open_tools, after_one.tool, after_one.tool_since) == (1, "Bash", NOW)
    assert Heard(tmp_path, *said[:2]).agent.turn.tool == "Bash"
    assert Heard(tmp_path, *said).agent.turn.tool == "Task"
    at_rest = Heard(tmp_path, *said, ended("t2")).agent.turn
    assert (at_rest.open_tools, at_rest.tool, at_rest.tool_since) == (0, "", None)


def test_what_a_turn_costs_is_estimated_from_every_call_and_from_what_was_written_so_far(tmp_path: Path) -> None:
    def call(name: str, text: str = "") -> JsonObject:
        usage: JsonObject = {"input_tokens": 100_000, "output_tokens": 1}
        message: JsonObject = {"id": name, "model": "claude-opus-5", "usage": usage}
        return {"type": "assistant", "message": {**message, "content": [{"type": "text", "text": text}]}}

    assert Heard(tmp_path, call("m1")).agent.turn.usd == 0.500025
    assert Heard(tmp_path, call("m1"), call("m1"), call("m2")).agent.turn.usd == 1.00005
    written = Heard(tmp_path, call("m1", "x" * 400_000)).agent.turn.usd
    assert 2.9 < written < 3.1, "a hundred thousand tokens of output that are not reported yet"


def test_endless_output_is_read_in_portions_and_each_line_once(tmp_path: Path) -> None:
    told: JsonObject = {"type": "assistant", "message": {"id": "m", "usage": {"output_tokens": 1}, "content": []}}
    size, count = len(orjson.dumps(told)) + 1, 3 * TAKEN_AT_ONCE
    heard = Heard(tmp_path, *[told] * count)
    assert heard.agent.read_offset == count * size
    assert len(heard.read_to) > count / TAKEN_AT_ONCE
    assert max(after - before for before, after in pairwise(heard.read_to)) <= TAKEN_AT_ONCE * size


def test_the_number_of_refusals_of_unknown_requests_is_bounded(tmp_path: Path) -> None:
    asks: list[JsonObject] = [
        {"type": "control_request", "request_id": str(number), "request": {"subtype": "no such thing"}}
        for number in range(MOST_REFUSED + 500)
    ]
    heard = Heard(tmp_path, *asks)
    assert [asked.request_id for asked in heard.asked] == [str(number) for number in range(MOST_REFUSED)]
