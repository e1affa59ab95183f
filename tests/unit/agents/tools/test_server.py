"""The program that serves an agent its tools: the protocol, what each tool takes, and what it refuses."""

import json
from io import BytesIO
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from orchestrator.agents.tools.catalogue import RECORDED, TOOLS
from orchestrator.agents.tools.server import CallRefused, failure_document, serve
from orchestrator.core.events.agent_messages import AgentTool
from orchestrator.formats.fields import object_of


def answers(*lines: bytes, tools: tuple[AgentTool, ...] = tuple(AgentTool)) -> list[dict[str, Any]]:
    """What the program answers to these lines."""
    output = BytesIO()
    serve(lines, output, tools)
    return [json.loads(line) for line in output.getvalue().splitlines()]


def request(method: str, **params: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()


def called(tool: str, arguments: object, tools: tuple[AgentTool, ...] = tuple(AgentTool)) -> tuple[str, bool]:
    """What a tool answers, and whether that is an error."""
    (answer,) = answers(request("tools/call", name=tool, arguments=arguments), tools=tools)
    return answer["result"]["content"][0]["text"], answer["result"]["isError"]


def test_a_client_is_greeted_in_its_own_version_of_the_protocol_or_in_the_newest_known() -> None:
    for wanted, given in (("2025-06-18", "2025-06-18"), ("2099-01-01", "2025-11-25")):
        (answer,) = answers(request("initialize", protocolVersion=wanted))
        assert answer["result"]["protocolVersion"] == given
        assert answer["result"]["serverInfo"]["name"] == "orchestrator"


def test_only_the_tools_of_the_role_are_listed_and_can_be_called() -> None:
    only = (AgentTool.ASK_USER,)
    (answer,) = answers(request("tools/list"), tools=only)
    assert [tool["name"] for tool in answer["result"]["tools"]] == ["ask_user"]
    (answer,) = answers(request("tools/call", name="step", arguments={}), tools=only)
    assert answer["error"]["message"] == "there is no such tool"


def test_every_tool_has_a_valid_schema_that_accepts_what_the_tool_takes() -> None:
    given = {
        AgentTool.ASK_USER: {"question": "Which?", "category": "choice", "options": ["a", "b"], "default": "a"},
        AgentTool.REQUEST_DEPENDENCY: {
            "type": "api_key",
            "name": "SHOP_KEY",
            "description": "to pay",
            "required": True,
        },
        AgentTool.PHASE_COMPLETE: {"number": 2, "documents": ["design.md"]},
    }
    for tool in AgentTool:
        Draft202012Validator.check_schema(object_of(TOOLS[tool]["inputSchema"]))
    for tool, arguments in given.items():
        Draft202012Validator(object_of(TOOLS[tool]["inputSchema"])).validate(arguments)
        assert called(tool, arguments) == (RECORDED[tool], False)


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("ask_user", {}, "Not done: question is missing."),
        ("ask_user", {"question": ""}, "Not done: question is missing."),
        ("ask_user", {"question": ["x"]}, "Not done: question must be a text."),
        ("ask_user", {"question": "Which?", "category": "choice"}, "Not done: a choice needs at least two options."),
        ("ask_user", {"question": "Which?", "options": ["a"] * 3 + [1]}, "Not done: options must be a list of texts."),
        ("ask_user", {"question": "x" * 10_001}, "Not done: question is longer than 10,000 characters."),
        (
            "ask_user",
            {"question": "x" * 1_000_000},
            "Not done: the arguments are larger than 100 KiB.",
        ),
        ("ask_user", {"question": "x", "answer": "y"}, "Not done: there is no argument 'answer'."),
        ("ask_user", "no object", "Not done: question is missing."),
        (
            "request_dependency",
            {"type": "money", "name": "x", "description": "y"},
            "Not done: there is no type",
        ),
        ("request_dependency", {"type": "api_key", "name": "a b", "description": "y"}, "Not done: name must be an env"),
        ("phase_complete", {"number": "2"}, "Not done: number must be a whole number from 1 to 999."),
        ("phase_complete", {"number": True}, "Not done: number must be a whole number from 1 to 999."),
        ("phase_complete", {"number": 1, "documents": "x"}, "Not done: documents must be a list of texts."),
        ("fail", {}, "Not done: summary is missing."),
    ],
)
def test_a_call_that_cannot_be_understood_is_refused_with_the_reason(tool: str, arguments: object, said: str) -> None:
    text, is_error = called(tool, arguments)
    assert is_error
    assert text.startswith(said)


def test_without_a_token_nothing_is_reported_to_the_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ORCHESTRATOR_TOKEN", raising=False)
    for tool, arguments in (("step", {"step_id": 1, "status": "completed"}), ("fail", {"summary": "It broke"})):
        assert called(tool, arguments) == ("Not done: this agent may not report to the daemon.", True)


def test_a_daemon_that_is_away_is_an_error_that_says_when_to_try_again(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("SOCKET", "/nowhere/agents.sock"), ("TOKEN", "x"), ("TASK", "T-1")):
        monkeypatch.setenv(f"ORCHESTRATOR_{name}", value)
    text, is_error = called("fail", {"summary": "It broke"})
    assert is_error
    assert text == "Not done: the daemon did not answer (FileNotFoundError); try again in a minute."


def test_a_failure_is_reported_as_the_state_operations_take_it() -> None:
    assert failure_document({"summary": "It broke", "exit_code": 2, "command": "make"})["actual_outcome"] == {
        "summary": "It broke",
        "exit_code": 2,
        "type": "failure",
    }
    with pytest.raises(CallRefused):
        failure_document({"summary": 7})


def test_broken_lines_are_answered_and_end_nothing() -> None:
    notification = b'{"method": "notifications/initialized"}'
    found = answers(b"no json\n", b"[" * 100_000, notification, request("nope"), request("ping"))
    assert [one.get("error", {}).get("code") for one in found] == [-32700, -32700, -32601, None]
