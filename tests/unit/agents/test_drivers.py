"""Launches of agents and the lines sent to them, as values."""

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.agents.drivers import (
    ClaudeDriver,
    CommandDriver,
    Driver,
    EmptyTurn,
    Launch,
    RequestLost,
    allow_rules,
    tool_names,
)
from orchestrator.agents.user_request_parser import DEEPEST_INPUT, asking_of_request
from orchestrator.core.events.agent_events import Asked
from orchestrator.core.events.agent_messages import AgentTool
from orchestrator.core.task.user_requests import (
    DECIDE_YOURSELF,
    RequestDraft,
    RequestStatus,
    Subject,
    UserRequest,
    validate_answer,
)

SESSION = "4b7a8a4c-5f0c-4c0e-9a57-3a1f0f4f7a11"
DAEMON_ENV = {
    "PATH": "/usr/bin",
    "HOME": "/home/ada",
    "CLAUDECODE": "1",
    "CLAUDE_CODE_SESSION_ID": "other",
    "CLAUDE_CODE_USE_BEDROCK": "1",
    "ANTHROPIC_API_KEY": "stray",
    "ANTHROPIC_AUTH_TOKEN": "stray",
    "JIRA_API_TOKEN": "stray",
    "GITHUB_TOKEN": "stray",
    "GITLAB_TOKEN": "stray",
    "AWS_SECRET_ACCESS_KEY": "stray",
    "NPM_TOKEN": "stray",
    "LC_TIME": "de_DE.UTF-8",
    "https_proxy": "http://proxy:3128",
    "NOTIFY_SOCKET": "/run/notify",
    "GIT_DIR": "/somewhere/.git",
    "ORCHESTRATOR_SMTP__PASSWORD": "secret",
}


def order(
    *,
    base_env: Mapping[str, str] = DAEMON_ENV,
    resume: bool = False,
    tools: tuple[str, ...] = (),
    model: str | None = None,
    system_prompt: str = "",
) -> Launch:
    return Launch(
        task="T-7",
        role="planner",
        attempt=3,
        session_id=SESSION,
        resume=resume,
        cwd=Path("/w"),
        outbox=Path("/d/out"),
        base_env=base_env,
        allowed_tools=tools,
        model=model,
        system_prompt=system_prompt,
    )


def test_claude_gets_the_tasks_folder_the_users_login_and_the_users_plugins() -> None:
    driver = claude(env={"CLAUDE_CONFIG_DIR": "/home/ada/own", "CLAUDE_CODE_PLUGIN_SEED_DIR": "/opt/plugins"})
    launched = driver.launch(replace(order(resume=True), state=Path("/d/T-7/claude")))
    assert launched.env["CLAUDE_CONFIG_DIR"] == "/d/T-7/claude"
    assert launched.env["CLAUDE_SECURESTORAGE_CONFIG_DIR"] == "/home/ada/own"
    assert launched.env["CLAUDE_CODE_PLUGIN_SEED_DIR"] == "/opt/plugins:/home/ada/own/plugins"
    assert launched.folder
    assert (launched.folder.path, launched.folder.session_id) == (Path("/d/T-7/claude"), SESSION)
    shared = driver.launch(replace(order(), state=Path("/d/T-7/claude"), login=Path("/d/login")))
    assert shared.env["CLAUDE_SECURESTORAGE_CONFIG_DIR"] == "/d/login"
    assert shared.writable == (Path("/d/T-7/claude"), Path("/d/login"))


def test_a_role_without_a_network_runs_its_commands_in_the_offline_shell() -> None:
    offline = replace(order(tools=("Bash", "WebFetch")), offline_shell=Path("/d/offline-shell"))
    launched = claude().launch(offline)
    assert launched.env["CLAUDE_CODE_SHELL_PREFIX"] == "/d/offline-shell"
    assert "--disallowedTools=AskUserQuestion,WebFetch,WebSearch" in launched.argv
    assert launched.network, "the CLI itself must reach its model"
    assert not CommandDriver(argv=("agent",)).launch(offline).network


def claude(*, pass_env: tuple[str, ...] = (), env: Mapping[str, str] | None = None) -> ClaudeDriver:
    return ClaudeDriver(executable=Path("/opt/claude"), model="opus", pass_env=pass_env, env=env or {})


DRIVERS: tuple[Driver, ...] = (claude(), CommandDriver(argv=("agent", "--play")))


def test_claude_is_launched_with_every_option_explicit() -> None:
    launched = claude().launch(order(tools=("Bash(git *)", "Edit", "Read"), system_prompt="--Plan."))
    assert launched.argv == (
        "/opt/claude",
        "-p",
        "--input-format=stream-json",
        "--output-format=stream-json",
        "--verbose",
        f"--session-id={SESSION}",
        "--permission-mode=dontAsk",
        "--setting-sources=user",
        "--strict-mcp-config",
        "--add-dir=/d/out",
        "--tools=Bash,Edit,Read,Write",
        "--allowedTools=Bash(git *),Read,Edit(./**),Edit(//d/out/**)",
        "--disallowedTools=AskUserQuestion",
        "--model=opus",
        "--append-system-prompt=--Plan.",
    )


def test_a_role_that_may_ask_gets_the_tools_and_a_mode_in_which_unmatched_tools_are_asked_for() -> None:
    argv = claude().launch(replace(order(tools=("Edit", "Read")), asks=True)).argv
    assert "--permission-mode=default" in argv
    assert "--permission-prompt-tool=stdio" in argv
    assert "--tools=Edit,Read,Write,AskUserQuestion" in argv
    assert "--disallowedTools=" in argv


def test_a_role_in_plan_mode_can_leave_it_if_it_may_ask() -> None:
    argv = claude().launch(replace(order(tools=("Read",)), asks=True, permission_mode="plan")).argv
    assert "--permission-mode=plan" in argv
    assert "--tools=Read,Write,AskUserQuestion,ExitPlanMode" in argv


def test_a_roles_own_restrictions_apply_to_attended_tasks_too() -> None:
    argv = claude().launch(replace(order(), asks=True, permission_mode="dontAsk", disallowed_tools=("Bash",))).argv
    assert "--permission-mode=dontAsk" in argv
    assert "--disallowedTools=Bash" in argv


def test_provided_values_are_in_the_environment_but_cannot_replace_the_identity_of_the_agent() -> None:
    provided = replace(order(), provided={"STRIPE_KEY": "hush", "ORCHESTRATOR_TASK": "T-8"})
    for driver in DRIVERS:
        env = driver.launch(provided).env
        assert (env["STRIPE_KEY"], env["ORCHESTRATOR_TASK"]) == ("hush", "T-7")
    assert "hush" not in repr(provided)


def test_a_resumed_session_is_passed_by_resume_alone() -> None:
    argv = claude().launch(order(resume=True)).argv
    assert f"--resume={SESSION}" in argv
    assert not [word for word in argv if word.startswith("--session-id")]


def test_a_roles_own_model_takes_precedence() -> None:
    assert "--model=haiku" in claude().launch(order(model="haiku")).argv


def test_a_role_that_may_not_edit_has_a_rule_only_for_its_outbox() -> None:
    assert allow_rules(("Read", "Write"), Path("/d/out")) == ("Read", "Edit(//d/out/**)")


def test_special_characters_of_rules_are_replaced_in_paths() -> None:
    assert allow_rules((), Path("/a (b)/[c]")) == ("Edit(//a ?b?/?c?/**)",)


def test_a_role_that_names_mcp_servers_gets_their_configuration() -> None:
    driver = replace(claude(), mcp_config=Path("/etc/mcp.json"))
    tools = ("Read", "mcp__cks__search")
    needing = replace(order(tools=tools), mcp_servers=("cks",))
    argv = driver.launch(needing).argv
    assert "--mcp-config=/etc/mcp.json" in argv
    assert "--tools=Read,Write" in argv, "the tools of MCP servers are not built-in tools"
    assert any(flag.startswith("--allowedTools=Read,mcp__cks__search,") for flag in argv)
    for launched in (claude().launch(needing), driver.launch(order(tools=tools))):
        assert not [flag for flag in launched.argv if flag.startswith("--mcp-config")]


def test_a_role_with_the_daemons_own_tools_gets_their_server_last_and_may_use_them() -> None:
    driver = replace(claude(), mcp_config=Path("/etc/mcp.json"))
    wanting = replace(order(), mcp_servers=("cks",), own_tools=(AgentTool.ASK_USER, AgentTool.STEP))
    argv = driver.launch(wanting).argv
    first, own = (flag.partition("=")[2] for flag in argv if flag.startswith("--mcp-config="))
    assert first == "/etc/mcp.json", "of two servers of one name the CLI takes the later one"
    server = json.loads(own)["mcpServers"]["orchestrator"]
    assert (server["command"], server["args"][0], server["args"][-2:]) == (sys.executable, "-I", ["ask_user", "step"])
    allowed = next(flag for flag in argv if flag.startswith("--allowedTools="))
    assert allowed.endswith(",mcp__orchestrator__ask_user,mcp__orchestrator__step")


def test_every_tool_is_named_once_without_its_pattern() -> None:
    assert tool_names(("Bash(git *)", "Bash(make *)", "Read")) == ("Bash", "Read", "Write")


def test_claude_inherits_who_and_where_it_is_and_its_own_settings_and_nothing_else() -> None:
    assert claude().launch(order()).env == {
        "PATH": "/usr/bin",
        "HOME": "/home/ada",
        "LC_TIME": "de_DE.UTF-8",
        "https_proxy": "http://proxy:3128",
        "CLAUDE_CODE_USE_BEDROCK": "1",
        "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
        "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS": "1",
        "CLAUDE_CODE_STARTUP_FAILURE_RESULTS": "1",
        "DISABLE_AUTOUPDATER": "1",
        "TZ": "UTC",
        "ORCHESTRATOR_TASK": "T-7",
        "ORCHESTRATOR_ROLE": "planner",
        "ORCHESTRATOR_ATTEMPT": "3",
        "ORCHESTRATOR_SESSION_ID": SESSION,
        "ORCHESTRATOR_RESUME": "0",
        "ORCHESTRATOR_OUTBOX": "/d/out",
    }


def test_a_key_is_passed_on_when_it_is_configured() -> None:
    env = claude(pass_env=("ANTHROPIC_API_KEY",)).launch(order()).env
    assert env["ANTHROPIC_API_KEY"] == "stray"
    assert "ANTHROPIC_AUTH_TOKEN" not in env


def test_configured_variables_override_ours_but_not_the_identity_of_the_agent() -> None:
    env = claude(env={"DISABLE_AUTOUPDATER": "0", "ORCHESTRATOR_TASK": "T-8"}).launch(order()).env
    assert (env["DISABLE_AUTOUPDATER"], env["ORCHESTRATOR_TASK"]) == ("0", "T-7")


def test_a_printed_launch_shows_no_secret() -> None:
    assert "stray" not in repr(claude(pass_env=("ANTHROPIC_API_KEY",)).launch(order()))
    assert "stray" not in repr(order())
    assert "hush" not in repr(claude(env={"TOKEN": "hush"}))


def test_a_command_is_launched_as_configured_and_gets_its_identity() -> None:
    launched = CommandDriver(argv=("agent", "--play"), env={"SCENARIO": "x"}).launch(order(resume=True))
    assert launched.argv == ("agent", "--play")
    assert launched.env["SCENARIO"] == "x"
    assert launched.env["ORCHESTRATOR_RESUME"] == "1"
    assert "CLAUDECODE" not in launched.env


@pytest.mark.parametrize("driver", DRIVERS)
@given(text=st.text(st.characters(), min_size=1).filter(str.strip))
def test_a_turn_is_one_line_that_no_cli_takes_for_a_command(driver: Driver, text: str) -> None:
    line = driver.turn(text, "u-1")
    message = orjson.loads(line)
    said = message["message"]["content"][0]["text"]
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert (message["type"], message["uuid"]) == ("user", "u-1")
    assert said.removeprefix("\n") == text.encode("utf-8", "replace").decode().removeprefix("\n")
    assert not said.startswith("/")


@pytest.mark.parametrize("text", ["", "   ", "\n\t\u2003"])
def test_a_turn_without_text_is_refused(text: str) -> None:
    with pytest.raises(EmptyTurn, match="must hold some text"):
        claude().turn(text, "u-1")


@pytest.mark.parametrize("driver", DRIVERS)
def test_an_interrupt_and_a_refusal_carry_their_request_id(driver: Driver) -> None:
    assert orjson.loads(driver.interrupt("i-1")) == {
        "type": "control_request",
        "request_id": "i-1",
        "request": {"subtype": "interrupt"},
    }
    assert orjson.loads(driver.refuse("r-1", "nobody is there"))["response"] == {
        "subtype": "error",
        "request_id": "r-1",
        "error": "nobody is there",
    }


def asked(subject: Subject, status: RequestStatus, answer: str | None) -> UserRequest:
    asking = RequestDraft(subject=subject, text="?", request_id="r-1")
    at = datetime(2026, 1, 1, tzinfo=UTC)
    return UserRequest(
        number=1,
        draft=asking,
        digest=asking.digest,
        stage="ANALYSIS",
        visit=1,
        attempt=3,
        turn=1,
        asked_at=at,
        status=status,
        answer=answer,
    )


def request(given: object, request_id: str = "r-1") -> bytes:
    return orjson.dumps({"type": "control_request", "request_id": request_id, "request": {"input": given}})


def decision(subject: Subject, status: RequestStatus, answer: str | None) -> object:
    """Return the response of the line that answers a request for a tool."""
    line = claude().answer(request({"path": "/x"}), [asked(subject, status, answer)])
    assert line.endswith(b"}\n")
    response = orjson.loads(line)["response"]
    assert (response["subtype"], response["request_id"]) == ("success", "r-1")
    return response["response"]


def test_every_question_of_a_request_gets_its_own_answer_in_the_returned_input() -> None:
    questions = [{"question": "Which?", "options": [{"label": "A"}]}, {"question": "How many?"}, {"question": "Why?"}]
    answers = [asked(Subject.QUESTION, RequestStatus.ANSWERED, text) for text in ("A", "two \ud83d", "")]
    line = claude().answer(request({"questions": questions}) + b"\r", answers)
    assert orjson.loads(line)["response"]["response"] == {
        "behavior": "allow",
        "updatedInput": {
            "questions": questions,
            "answers": {"Which?": "A", "How many?": "two ?", "Why?": DECIDE_YOURSELF},
        },
    }


@pytest.mark.parametrize(
    ("subject", "status", "answer"),
    [(Subject.PERMISSION, RequestStatus.ANSWERED, "allow"), (Subject.PLAN, RequestStatus.APPROVED, "")],
)
def test_an_allowed_tool_gets_the_input_that_was_asked_about(
    subject: Subject, status: RequestStatus, answer: str
) -> None:
    assert decision(subject, status, answer) == {"behavior": "allow", "updatedInput": {"path": "/x"}}


@pytest.mark.parametrize(
    ("subject", "status", "answer", "message"),
    [
        (Subject.PERMISSION, RequestStatus.ANSWERED, "deny", "this is not allowed here; find another way"),
        (Subject.PERMISSION, RequestStatus.SKIPPED, None, "this is not allowed here; find another way"),
        (Subject.PLAN, RequestStatus.CHANGES_REQUESTED, "test first", "test first"),
        (Subject.PLAN, RequestStatus.CHANGES_REQUESTED, "allow", "allow"),
    ],
)
def test_a_denied_tool_gets_the_reason(
    subject: Subject, status: RequestStatus, answer: str | None, message: str
) -> None:
    assert decision(subject, status, answer) == {"behavior": "deny", "message": message}


def nested(depth: int) -> bytes:
    """Return a request whose input has this many nested lists."""
    given = b'{"a":' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"
    asks = b'"request":{"subtype":"can_use_tool","tool_name":"Bash","input":'
    return b'{"type":"control_request","request_id":"r-1",' + asks + given + b"}}"


@pytest.mark.parametrize("line", [b"", b"no json", b"[]", request({}, "r-2"), nested(300), nested(1000)])
def test_a_request_that_was_changed_externally_is_not_answered(line: bytes) -> None:
    with pytest.raises(RequestLost, match="r-1 is no longer in its output"):
        claude().answer(line, [asked(Subject.PERMISSION, RequestStatus.ANSWERED, "allow")])


@pytest.mark.parametrize(("depth", "may_ask"), [(DEEPEST_INPUT, True), (DEEPEST_INPUT + 1, False), (900, False)])
def test_a_request_that_cannot_be_repeated_in_an_answer_is_not_asked(depth: int, may_ask: bool) -> None:
    """JSON is read in 900 levels and more, but written in 254: a request in between would end whoever answers it."""
    (request,) = claude().parser.parse(nested(depth))
    assert isinstance(request, Asked)
    assert bool(asking_of_request(request, 0)) is may_ask
    if may_ask:
        claude().answer(nested(depth), [asked(Subject.PERMISSION, RequestStatus.ANSWERED, "allow")])


def test_an_option_with_surrounding_white_space_can_be_chosen() -> None:
    """An answer is stripped of white space at its ends, and would never equal such an option."""
    question = {"question": "Which?", "options": [{"label": " Latin\n"}, {"label": "All\tof it"}, {"label": " "}]}
    (request,) = claude().parser.parse(
        orjson.dumps(
            {
                "type": "control_request",
                "request_id": "r-1",
                "request": {
                    "subtype": "can_use_tool",
                    "tool_name": "AskUserQuestion",
                    "input": {"questions": [question]},
                },
            }
        )
    )
    assert isinstance(request, Asked)
    (asking,) = asking_of_request(request, 0)
    assert asking.options == ("Latin", "All of it")
    assert validate_answer(asking, " latin ") == "Latin"
