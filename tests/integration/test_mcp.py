"""The tools of /mcp: over the socket as HTTP, and over `orchestrator mcp` with the SDK's own client."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from jsonschema import Draft202012Validator
from mcp import Client, StdioServerParameters, stdio_client
from mcp.types import CallToolResult, TextContent

from orchestrator.core.task.user_requests import RequestDraft, Subject
from orchestrator.processes.spec import MARKER
from orchestrator.server.mcp.bounded import LARGEST
from orchestrator.server.mcp.tools import TOOLS
from tests.fakes.in_process_daemon import InProcessDaemon, create_daemon, serving, status_for_child
from tests.fakes.repositories import repository

SECRET = "AKIA" + "ABCDEFGHIJKLMNOP"
ACCEPT = {"Accept": "application/json, text/event-stream"}
LISTING: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
QUESTION = RequestDraft(subject=Subject.QUESTION, text="Which database?", options=("SQLite", "Postgres"))
STAGE = RequestDraft(subject=Subject.STAGE, text="DESIGN is done: review plan.md", name="DESIGN")
READING = {"list", "show", "why", "waiting", "status", "limits", "transcript"}


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> InProcessDaemon:
    """A server in a home without settings."""
    for name in [name for name in os.environ if name.startswith("ORCHESTRATOR_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("ORCHESTRATOR_LISTEN", "127.0.0.1:0")
    repository(tmp_path / "repo")
    return create_daemon(tmp_path / "data")


@pytest_asyncio.fixture
async def http(daemon: InProcessDaemon) -> AsyncIterator[httpx.AsyncClient]:
    """A client of that server while it runs."""
    async with serving(daemon) as client:
        yield client
    daemon.store.close()


def bridge(daemon: InProcessDaemon) -> StdioServerParameters:
    """The program that an assistant starts."""
    arguments = ["-m", "orchestrator", "--data-dir", str(daemon.settings.data_dir), "mcp"]
    return StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))


def over_stdio(daemon: InProcessDaemon, mode: str = "auto") -> AbstractAsyncContextManager[Client]:
    return Client(stdio_client(bridge(daemon)), mode=mode)


def repo(daemon: InProcessDaemon) -> str:
    return str(daemon.settings.data_dir.parent / "repo")


def words(result: CallToolResult) -> str:
    return "\n".join(part.text for part in result.content if isinstance(part, TextContent))


async def call(http: httpx.AsyncClient, tool: str, **arguments: object) -> dict[str, Any]:
    """The result of a tool over HTTP."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    answer = await http.post("/mcp", json=message, headers=ACCEPT)
    assert answer.status_code == 200, answer.text
    result: dict[str, Any] = answer.json()["result"]
    return result


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_task_is_submitted_looked_at_and_answered_with_tools_alone(
    http: httpx.AsyncClient, daemon: InProcessDaemon, mode: str
) -> None:
    async with over_stdio(daemon, mode) as assistant:
        ticket = {"text": "Say hello", "repo": repo(daemon), "interactive": True, "key": "one"}
        made = await assistant.call_tool("submit", ticket)
        assert not made.is_error, words(made)
        task = made.structured_content["id"]
        again = await assistant.call_tool("submit", ticket)
        assert again.structured_content["id"] == task
        await daemon.inbox.settled()
        listed = await assistant.call_tool("list", {"status": ["in_progress"]})
        assert [line["id"] for line in listed.structured_content["tasks"]] == [task]
        await daemon.let_ask(task, QUESTION)
        (asked,) = (await assistant.call_tool("waiting", {})).structured_content["requests"]
        assert (asked["id"], asked["text"]) == (f"{task}.1", "Which database?")
        shown = await assistant.call_tool("show", {"task": task})
        assert [one["digest"] for one in shown.structured_content["waiting"]] == [asked["digest"]]
        wrong = await assistant.call_tool("answer", {"request": asked["id"], "answer": "Oracle"})
        assert wrong.is_error
        assert words(wrong).startswith("The answer does not fit: ")
        done = await assistant.call_tool(
            "answer", {"request": asked["id"], "answer": "sqlite", "digest": asked["digest"]}
        )
        assert (done.structured_content["status"], done.structured_content["answer"]) == ("answered", "SQLite")
        assert f"uid:{os.getuid()}" in done.structured_content["answeredBy"]
        why = await assistant.call_tool("why", {"task": task})
        assert why.structured_content["stage"] == "TICKET_INTAKE"
        late = await assistant.call_tool("answer", {"request": asked["id"], "answer": "Postgres"})
        assert words(late).startswith("It was answered before: ")


async def test_an_assistant_stays_connected_while_the_daemon_is_restarted(daemon: InProcessDaemon) -> None:
    async with serving(daemon), AsyncExitStack() as until_the_end:
        assistant = await until_the_end.enter_async_context(over_stdio(daemon))
        assert not (await assistant.call_tool("status", {})).is_error
        staying = until_the_end.pop_all()
    async with staying:
        away = asyncio.create_task(assistant.call_tool("list", {}))
        async with serving(daemon):
            assert (await away).structured_content["tasks"] == []
    daemon.store.close()


async def test_work_is_reviewed_paused_and_cancelled_with_tools(
    http: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    made = await call(http, "submit", text="Say hello", repo=repo(daemon), interactive=True)
    task = made["structuredContent"]["id"]
    await daemon.inbox.settled()
    await daemon.let_ask(task, STAGE)
    changed = await call(http, "request_changes", request=f"{task}.1", text="Shorter, please")
    assert changed["structuredContent"]["status"] == "changes_requested"
    assert (await call(http, "pause", task=task))["structuredContent"]["paused"] is True
    assert (await call(http, "resume", task=task))["structuredContent"]["status"] == "in_progress"
    assert (await call(http, "cancel", task=task))["structuredContent"]["status"] == "cancelled"
    refused = await call(http, "retry", task=task)
    assert refused["isError"]
    assert refused["content"][0]["text"].startswith("The task's state does not allow this: ")
    assert "\nAllowed now: " in refused["content"][0]["text"]


async def test_every_answer_fits_the_schema_that_its_tool_announces(
    http: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    listed = (await http.post("/mcp", json=LISTING, headers=ACCEPT)).json()["result"]["tools"]
    tools = {one["name"]: one for one in listed}
    assert {name for name, one in tools.items() if one["annotations"]["readOnlyHint"]} == READING
    assert {name for name, one in tools.items() if one["annotations"]["destructiveHint"]} == {"approve", "cancel"}
    assert [one["name"] for one in listed if not one["description"]] == []
    given: dict[str, dict[str, object]] = {
        "submit": {"text": "Say hello", "repo": repo(daemon), "interactive": True},
        "list": {},
        "status": {},
        "limits": {},
    }
    task = (await call(http, "submit", **given["submit"]))["structuredContent"]["id"]
    await daemon.inbox.settled()
    await daemon.let_ask(task, QUESTION, STAGE)
    given |= {name: {"task": task} for name in ("show", "why")} | {"waiting": {}}
    given |= {"answer": {"request": f"{task}.1", "answer": "SQLite"}, "approve": {"request": f"{task}.2"}}
    given |= {name: {"task": task} for name in ("pause", "resume", "cancel")}
    for name, arguments in given.items():
        Draft202012Validator(tools[name]["inputSchema"]).validate(arguments)
        result = await call(http, name, **arguments)
        assert not result.get("isError"), result
        Draft202012Validator(tools[name]["outputSchema"]).validate(result["structuredContent"])
        if name == "answer":
            await daemon.inbox.settled()


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("show", {"task": "NOPE-1"}, "There is no such task: "),
        ("show", {}, "The request is malformed: task: Field required"),
        ("show", {"task": ["x"]}, "The request is malformed: task: "),
        ("show", {"task": "x", "more": 1}, "The request is malformed: more: Extra inputs are not permitted"),
        ("submit", {"text": "Say hello", "repo": "relative"}, "The request is malformed: repo: is relative, "),
        ("answer", {"request": "no id", "answer": "x"}, "There is no such question, review or dependency: "),
        ("list", {"cursor": "x"}, "The request is malformed: cursor: is not a cursor"),
        ("list", {"limit": 1000}, "The request is malformed: limit: "),
        ("transcript", {"task": "NOPE-1"}, "There is no such task: "),
    ],
)
async def test_a_refusal_is_an_error_of_the_tool_in_the_words_of_the_api(
    http: httpx.AsyncClient, tool: str, arguments: dict[str, object], said: str
) -> None:
    result = await call(http, tool, **arguments)
    assert result["isError"]
    assert result["content"][0]["text"].startswith(said)


async def test_secrets_are_masked_in_what_tools_return(http: httpx.AsyncClient, daemon: InProcessDaemon) -> None:
    made = await call(http, "submit", text=f"Use {SECRET}", repo=repo(daemon), interactive=True)
    task = made["structuredContent"]["id"]
    await daemon.inbox.settled()
    await daemon.let_ask(task, RequestDraft(subject=Subject.QUESTION, text=f"Is {SECRET} right?"))
    for tool, arguments in (("show", {"task": task}), ("waiting", {}), ("list", {}), ("why", {"task": task})):
        assert SECRET not in str(await call(http, tool, **arguments)), tool
    refused = await call(http, "answer", request=f"{task}.1", answer=f"yes, {SECRET}")
    assert "contain a secret" in refused["content"][0]["text"]


async def test_an_answer_is_cut_to_what_an_assistant_can_take_in_and_says_so(
    http: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    made = await call(http, "submit", text="Say hello", repo=repo(daemon), interactive=True)
    task = made["structuredContent"]["id"]
    await daemon.inbox.settled()
    await daemon.let_ask(task, *(RequestDraft(subject=Subject.QUESTION, text=f"{n}? " + "x" * 9000) for n in range(30)))
    result = await call(http, "show", task=task)
    assert len(result["content"][0]["text"].encode()) <= LARGEST
    assert result["content"][1]["text"].startswith("It was too long")
    assert "characters more]" in result["structuredContent"]["waiting"][0]["text"]


async def test_a_transcript_is_read_from_its_end_or_in_parts_without_a_gap(
    http: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    task = (await call(http, "submit", text="Say hello", repo=repo(daemon)))["structuredContent"]["id"]
    await daemon.inbox.settled()
    refused = await call(http, "transcript", task=task)
    assert "has had no agent yet" in refused["content"][0]["text"]
    said = [f"line {number} " + "x" * (number % 50) * 100 for number in range(500)]
    lines = [{"type": "assistant", "message": {"content": [{"type": "text", "text": text}]}} for text in said]
    folder = daemon.store.files.run_folder(task, "agents/1")
    folder.mkdir(parents=True)
    (folder / "stdout.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    newest = (await call(http, "transcript", task=task, entries=5))["structuredContent"]["entries"]
    assert [entry["text"].split(" x")[0] for entry in newest] == [f"line {number}" for number in range(495, 500)]
    assert newest[-1]["text"].endswith(f"… [{len(said[-1]) - 1500} characters more]")
    seen, offset = list[str](), 0
    while not seen or seen[-1] != "line 499":
        page = (await call(http, "transcript", task=task, offset=offset, entries=60))["structuredContent"]
        assert 0 < len(page["entries"]) <= 60
        seen += [" ".join(entry["text"].split()[:2]) for entry in page["entries"]]
        offset = page["nextOffset"]
    assert seen == [f"line {number}" for number in range(500)]


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"Host": "attacker.example"}, 421),
        ({"Origin": "https://attacker.example"}, 403),
        ({"Accept": "text/html"}, 406),
    ],
)
async def test_a_page_of_another_host_is_refused(
    http: httpx.AsyncClient, headers: dict[str, str], expected: int
) -> None:
    assert (await http.post("/mcp", json=LISTING, headers=ACCEPT | headers)).status_code == expected
    assert (await http.get("/mcp", headers=ACCEPT)).status_code == 405


async def test_an_unknown_tool_and_a_broken_message_are_errors_of_the_protocol(http: httpx.AsyncClient) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "delete", "arguments": {}}}
    answer = await http.post("/mcp", json=message, headers=ACCEPT)
    assert answer.json()["error"]["message"] == "there is no tool 'delete'"
    for body in (b"{", b"[]", b'{"jsonrpc": "2.0"}', b"[" * 100_000):
        answer = await http.post("/mcp", content=body, headers={**ACCEPT, "Content-Type": "application/json"})
        assert answer.status_code == 400
        assert "error" in answer.json()


async def test_an_agent_of_the_daemon_gets_no_tool(http: httpx.AsyncClient, daemon: InProcessDaemon) -> None:
    marked = {MARKER: f"{daemon.settings.data_dir}/tasks/T-1/agents/1"}
    assert await status_for_child([], daemon, "POST", "/mcp", marked) == 403


async def test_over_tcp_a_token_lists_and_calls_what_its_scope_allows(daemon: InProcessDaemon) -> None:
    calling = {**LISTING, "method": "tools/call", "params": {"name": "pause", "arguments": {"task": "NOPE-1"}}}
    async with serving(daemon) as socket:
        url = httpx.URL((await socket.post("/api/links", json={})).json()["url"])
        async with httpx.AsyncClient(base_url=f"http://{url.host}:{url.port}", headers=ACCEPT) as tcp:
            assert (await tcp.post("/mcp", json=LISTING)).status_code == 403
            tcp.headers["Authorization"] = "Bearer another"
            assert (await tcp.post("/mcp", json=LISTING)).status_code == 401
            for scope, tools in (("view", READING), ("operate", {tool.name for tool in TOOLS})):
                made = (await socket.post("/api/tokens", json={"name": f"my-{scope}", "scope": scope})).json()
                tcp.headers["Authorization"] = f"Bearer {made['token']}"
                listed = (await tcp.post("/mcp", json=LISTING)).json()["result"]["tools"]
                assert {tool["name"] for tool in listed} == tools
                answer = str((await tcp.post("/mcp", json=calling)).json())
                assert ("there is no tool 'pause'" if scope == "view" else "There is no such task") in answer
            wrong = {"Host": "attacker.example"}
            assert (await tcp.post("/mcp", json=LISTING, headers=wrong)).status_code in {400, 403, 421}
    daemon.store.close()


def test_the_bridge_answers_each_line_even_without_a_daemon(tmp_path: Path) -> None:
    ping, told = b'{"jsonrpc": "2.0", "id": 7, "method": "ping"}', b'{"jsonrpc": "2.0", "method": "notifications/x"}'
    lines = b"\n".join((ping, b"", b"no json", b"[]", told, b""))
    done = subprocess.run(
        [sys.executable, "-m", "orchestrator", "--data-dir", str(tmp_path), "mcp"],
        input=lines,
        capture_output=True,
        timeout=60,
        check=True,
    )
    first, second, third = done.stdout.splitlines()
    assert b'"id":7' in first
    assert b"no daemon answers on" in first
    for line, code in ((second, -32700), (third, -32600)):
        answer = json.loads(line)
        assert (answer["id"], answer["error"]["code"]) == (None, code)


def test_nobody_pays_for_the_sdk_before_the_first_message() -> None:
    modules = "orchestrator.wiring.daemon, orchestrator.server.app, orchestrator.cli.app"
    code = f"import sys, {modules}; sys.exit('mcp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_tool_has_a_schema_without_secrets_and_another_name() -> None:
    assert len({tool.name for tool in TOOLS}) == len(TOOLS)
    assert "provide" not in {tool.name for tool in TOOLS}
