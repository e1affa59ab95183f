"""Jira tickets through a gateway: real conversations with a server of the Model Context Protocol, good and bad."""

import asyncio
import json
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
import structlog
import uvicorn
from mcp.server.mcpserver import MCPServer

from orchestrator.core.task.ticket import TicketType
from orchestrator.integrations.errors import AuthenticationFailed, NotFound, NoTicket, UnfitAnswer, Unreachable
from orchestrator.integrations.http import Patience
from orchestrator.integrations.tickets.account import TrackerAccount
from orchestrator.integrations.tickets.gateway import (
    PROGRAM,
    Gateway,
    GatewayMissing,
    SecretWithheld,
    ToolRefused,
    conversation,
)
from orchestrator.integrations.tickets.text.ticket import Requirement, Tracker
from orchestrator.integrations.tickets.trackers import Trackers
from tests.fakes import gateway_server
from tests.fakes.jira_server import JiraServer
from tests.fakes.loopback_server import Handler, LoopbackServer

JIRA = "https://jira.acme.example"
BUG = {
    "ticket_id": "ABC-1",
    "type": "Bug",
    "summary": "Login\u202e fails\x1b[2J",
    "description": "## Steps\n\n- Größe\n",
    "status": "To Do",
    "status_category": "new",
    "labels": ["auth"],
    "created": "2026-05-28T12:00:00.000+0000",
    "updated": "",
    "_filter_metadata": {"scan_result": "CLEAN", "redacted_count": 0, "blocked_patterns": None},
}
PATIENT = Patience(request=20.0, ticket=60.0)
HASTY = Patience(request=0.5, ticket=60.0)


def registered(folder: Path, server: Mapping[str, object], **variables: str) -> Gateway:
    config = folder / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {"jira-gateway": server}}))
    return Gateway(name="jira-gateway", config=config, env={"PATH": os.environ["PATH"], **variables})


def gateway(folder: Path, mishap: str = "", ticket: dict[str, Any] = BUG) -> Gateway:
    """A gateway that knows one ticket, with a fault."""
    (folder / "tickets.json").write_text(json.dumps({"ABC-1": ticket}))
    script = str(Path(gateway_server.__file__))
    server = {
        "command": "${PYTHON}",
        "args": ["-I", script, str(folder), *([mishap] if mishap else [])],
        "env": {"JIRA_API_TOKEN": "${JIRA_API_TOKEN}", "LEVEL": "${LEVEL:-1}"},
    }
    return registered(folder, server, PYTHON=sys.executable, JIRA_API_TOKEN="t", ANOTHER_SECRET="s")


def trackers(gate: Gateway, patience: Patience = PATIENT) -> Trackers:
    return Trackers([TrackerAccount(kind=Tracker.JIRA, url=JIRA, gateway=gate)], patience)


async def fetched(gate: Gateway, patience: Patience = PATIENT) -> Requirement:
    return await trackers(gate, patience).requirement("ABC-1")


def told(folder: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in (folder / "told.jsonl").read_text().splitlines()]


def left(folder: Path) -> list[int]:
    """Return the processes of the gateway that are still alive."""
    return [*filter(lives, map(int, (folder / "pids").read_text().split()))]


def lives(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


async def test_a_ticket_of_a_gateway_becomes_a_requirement_like_one_of_jira(tmp_path: Path) -> None:
    found = await fetched(gateway(tmp_path))
    assert (found.key, found.title, found.text) == ("ABC-1", "Login fails[2J", "## Steps\n\n- Größe\n")
    assert (found.type, found.source, found.url) == (TicketType.BUGFIX, "jira", f"{JIRA}/browse/ABC-1")
    assert (found.labels, found.status, found.updated) == (("auth",), "To Do", None)
    assert not left(tmp_path)


async def test_a_gateway_gets_only_the_variables_of_its_registration(tmp_path: Path) -> None:
    await fetched(gateway(tmp_path))
    names = set((tmp_path / "variables").read_text().split())
    assert names - {"LC_CTYPE"} == {"PATH", "JIRA_API_TOKEN", "LEVEL", "ORCHESTRATOR_RUN"}


async def test_a_comment_is_posted_once_and_the_status_set_through_the_gateway(tmp_path: Path) -> None:
    gate = trackers(gateway(tmp_path))
    for _ in range(2):
        assert await gate.tell(f"{JIRA}/browse/ABC-1", "Größe:\n\nPR created", "In Review") == ""
    status = {"ticket_id": "ABC-1", "target": "In Review"}
    assert told(tmp_path) == [{"ticket_id": "ABC-1", "body": "Größe:\n\nPR created"}, status, status]


async def test_each_error_of_a_gateway_has_a_message(tmp_path: Path) -> None:
    async with conversation(gateway(tmp_path), "the ticket", PATIENT) as gate:
        for key, error, said in (
            (
                "ERR-1",
                AuthenticationFailed,
                r"does not accept the login of the gateway 'jira-gateway' \(check JIRA_API_TOKEN\)",
            ),
            ("ERR-2", NotFound, "the ticket does not exist"),
            ("ERR-3", SecretWithheld, r"contains secrets \(private_key_pem, \\x1b\[2J\); remove them"),
            ("ERR-4", Unreachable, r"failed at jira_read_ticket \(status 502\); the same may work later"),
            ("ERR-5", ToolRefused, "rejects jira_read_ticket for the ticket: ticket_id is required"),
        ):
            with pytest.raises(error, match=said):
                await gate.call("jira_read_ticket", ticket_id=key)
        with pytest.raises(ToolRefused, match="refuses jira_fly: unknown tool jira_fly"):
            await gate.call("jira_fly", ticket_id="ABC-1")


async def test_a_ticket_that_the_gateway_has_emptied_is_withheld(tmp_path: Path) -> None:
    blocked = {**BUG, "_filter_metadata": {"scan_result": "BLOCKED", "blocked_patterns": ["jwt_token"]}}
    with pytest.raises(
        SecretWithheld, match=r"withholds ABC-1 on jira\.acme\.example because it contains secrets \(jwt_token\)"
    ):
        await fetched(gateway(tmp_path, ticket=blocked))


@pytest.mark.parametrize(
    ("mishap", "error", "said"),
    [
        ("mute", Unreachable, "did not answer jira_read_ticket in time"),
        ("silent", Unreachable, "did not answer jira_read_ticket in time"),
        ("deaf", Unreachable, "did not answer jira_read_ticket in time"),
        ("dies", Unreachable, "ended without an answer to jira_read_ticket; the daemon's log"),
        ("endless", Unreachable, "did not answer jira_read_ticket in time"),
        ("flood", UnfitAnswer, "answered more than 4096 KiB for ABC-1"),
        ("strange", UnfitAnswer, r"something else than ABC-1 on jira\.acme\.example \(ticket_id: Field required\)"),
    ],
)
async def test_a_faulty_gateway_is_refused_and_ended(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], mishap: str, error: type[Exception], said: str
) -> None:
    with structlog.testing.capture_logs() as logged, pytest.raises(error, match=said) as refusal:
        await fetched(gateway(tmp_path, mishap), HASTY if error is Unreachable else PATIENT)
    assert not left(tmp_path)
    assert capfd.readouterr() == ("", "")
    assert "hunter2" not in str(refusal.value)
    words = "no route to jira, token = hunter2hunter2" if mishap == "dies" else ""
    assert [line["words"] for line in logged if line["event"] == "gateway_failed"] in ([words], [])


async def test_a_gateway_ends_with_the_client_of_a_killed_daemon(tmp_path: Path) -> None:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*PROGRAM, stdin=pipe, stdout=pipe)
    assert process.stdin
    assert process.stdout
    order = {**gateway(tmp_path).order(PATIENT, "/dev/null"), "patience": 1000}
    for line in (order, *({"tool": tool, "arguments": {"ticket_id": "ABC-1"}} for tool in ("jira_fly", "jira_think"))):
        process.stdin.write(json.dumps(line).encode() + b"\n")
    assert json.loads(await process.stdout.readline()) == {"refused": "unknown tool jira_fly"}
    process.stdin.close()
    assert await process.wait() == 0
    assert not left(tmp_path)


@pytest.mark.parametrize("mishap", ["junk", "litter"])
async def test_extra_output_and_leftover_processes_of_a_gateway_do_no_harm(tmp_path: Path, mishap: str) -> None:
    assert (await fetched(gateway(tmp_path, mishap))).key == "ABC-1"
    assert not left(tmp_path)


@pytest.mark.parametrize(
    ("field", "error"),
    [
        ({"ticket_id": "../x"}, UnfitAnswer),
        ({"summary": ["a"]}, UnfitAnswer),
        ({"created": "today"}, UnfitAnswer),
        ({"description": "x" * 1100000}, NoTicket),
    ],
)
async def test_a_malformed_ticket_is_refused(tmp_path: Path, field: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error, match="ABC-1"):
        await fetched(gateway(tmp_path, ticket={**BUG, **field}))


async def test_an_unusable_gateway_is_reported_with_instructions(tmp_path: Path) -> None:
    for server, said in (
        ({"command": str(tmp_path / "gone")}, r"cannot be started \(No such file or directory\); check its command"),
        ({"command": "x", "env": {"T": "${NOT_SET}"}}, "needs NOT_SET in the daemon's environment; set it there"),
        ({"args": ["x"]}, "no command and no url, or both"),
    ):
        with pytest.raises(GatewayMissing, match=said):
            await fetched(registered(tmp_path, server))
    other = Gateway(name="jira-gatewax", config=tmp_path / "mcp.json", env={})
    assert "does not register the server 'jira-gatewax'; did you mean 'jira-gateway'?" in (
        await trackers(other).tell(f"{JIRA}/browse/ABC-1", "Done.", None)
    )


async def test_a_remote_gateway_that_requires_another_login_is_reported(tmp_path: Path) -> None:
    with JiraServer({}, token="another") as server:
        gate = registered(
            tmp_path, {"url": f"{server.url}/mcp", "headers": {"Authorization": "Bearer ${T}"}}, T="wrong"
        )
        with pytest.raises(AuthenticationFailed, match=r"does not accept our login; check its headers in .*mcp\.json"):
            await fetched(gate)
        assert {asked.headers["authorization"] for asked in server.asked} == {"Bearer wrong"}


@contextmanager
def running() -> Iterator[str]:
    """Run a gateway built with the SDK as a server of its own; return its URL."""
    server = MCPServer("jira")

    @server.tool()
    def jira_read_ticket(ticket_id: str) -> dict[str, object]:
        return {**BUG, "ticket_id": ticket_id, "description": "y" * (5 * 1024 * 1024 if ticket_id == "ABC-2" else 10)}

    web = uvicorn.Server(uvicorn.Config(server.streamable_http_app(), port=0, log_level="critical", ws="none"))
    thread = threading.Thread(target=web.run, daemon=True)
    thread.start()
    while not web.started:
        thread.join(0.02)
    try:
        yield f"http://127.0.0.1:{web.servers[0].sockets[0].getsockname()[1]}"
    finally:
        web.should_exit = True
        thread.join()


class _Endless(Handler[LoopbackServer]):
    """An answer that never ends."""

    def do_POST(self) -> None:
        self.read()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        while True:
            self.wfile.write(b" " * 65536)


async def test_a_gateway_elsewhere_whose_answer_never_ends_is_refused(tmp_path: Path) -> None:
    with LoopbackServer(_Endless) as server:
        gate = registered(tmp_path, {"url": f"{server.url}/mcp"})
        with pytest.raises(UnfitAnswer, match="answered more than"):
            await fetched(gate)


async def test_a_gateway_that_runs_elsewhere_is_spoken_to_over_http(tmp_path: Path) -> None:
    with running() as address:
        gate = trackers(registered(tmp_path, {"type": "http", "url": f"{address}/mcp"}))
        assert (await gate.requirement("ABC-1")).text == "y" * 10 + "\n"
        with pytest.raises(UnfitAnswer, match="answered more than 4096 KiB for ABC-2"):
            await gate.requirement("ABC-2")
    with pytest.raises(Unreachable, match="cannot be reached"):
        await gate.requirement("ABC-1")
