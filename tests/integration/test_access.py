"""Callers over TCP: tokens, links, sessions and scopes, over a real port of a real server."""

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
from limits import RateLimitItemPerMinute
from structlog.testing import capture_logs

from orchestrator.daemon.callers import Caller
from orchestrator.daemon.services import events
from orchestrator.server.access import rates
from orchestrator.server.app import create_app
from orchestrator.server.listener import SocketRefused, make_server
from orchestrator.server.web import live
from orchestrator.settings.loading import SettingsError, load_settings
from tests.fakes.in_process_daemon import PATIENCE, InProcessDaemon, create_daemon, serving
from tests.fakes.repositories import repository
from tests.fakes.shell import Shell

PAGE = {"Accept": "text/html"}


@dataclass
class Doors:
    """A daemon that is asked over its socket and over TCP."""

    daemon: InProcessDaemon
    socket: httpx.AsyncClient
    tcp: httpx.AsyncClient
    shell: Shell

    @property
    def origin(self) -> str:
        """The address of the pages."""
        return str(self.tcp.base_url).rstrip("/")

    async def token(self, scope: str, name: str = "") -> dict[str, str]:
        """Return the header of a new token."""
        body = {"name": name or f"my-{scope}", "scope": scope}
        made = (await self.socket.post("/api/tokens", json=body)).json()
        return {"Authorization": f"Bearer {made['token']}"}

    async def submit(self) -> str:
        """Return the id of a new task."""
        folder = self.daemon.settings.data_dir.parent / "work"
        repository(folder)
        body = {"text": "Say hello", "repo": str(folder)}
        return str((await self.socket.post("/api/tasks", json=body)).json()["id"])

    async def login(self, scope: str = "admin") -> None:
        """Log the client of TCP in, as a browser does."""
        link = (await self.socket.post("/api/links", json={"scope": scope})).json()["url"]
        code = httpx.URL(link).params["code"]
        answer = await self.tcp.post("/login", data={"code": code}, headers={"Origin": self.origin})
        assert answer.status_code == 303


@pytest_asyncio.fixture
async def doors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Doors]:
    """A daemon in a home without settings, which listens on a free port too."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("ORCHESTRATOR_LISTEN", "127.0.0.1:0")
    daemon = create_daemon(tmp_path / "data")
    (tmp_path / "repo").mkdir()
    async with serving(daemon) as socket:
        url = httpx.URL((await socket.post("/api/links", json={})).json()["url"])
        async with httpx.AsyncClient(base_url=f"http://{url.host}:{url.port}") as tcp:
            yield Doors(daemon, socket, tcp, Shell(tmp_path))
    daemon.store.close()


async def test_without_credentials_only_what_is_open_is_answered(doors: Doors) -> None:
    assert (await doors.tcp.get("/healthz")).status_code == 200
    refused = await doors.tcp.get("/api/status")
    assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
    assert refused.json()["type"].endswith(":not-logged-in")
    page = await doors.tcp.get("/board", headers=PAGE)
    assert (page.status_code, "orchestrator open" in page.text) == (401, True)


async def test_a_token_reads_writes_or_administers_as_its_scope_says(doors: Doors) -> None:
    asked = {"read": ("GET", "/api/status"), "write": ("POST", "/api/pause"), "admin": ("GET", "/api/tokens")}
    allowed = {}
    for scope in ("view", "operate", "admin"):
        headers = await doors.token(scope)
        answers = {what: await doors.tcp.request(*one, headers=headers) for what, one in asked.items()}
        allowed[scope] = [what for what, answer in answers.items() if answer.status_code == 200]
        assert {answer.status_code for answer in answers.values()} <= {200, 403}
    assert allowed == {"view": ["read"], "operate": ["read", "write"], "admin": ["read", "write", "admin"]}


async def test_a_key_gives_nobody_the_answer_of_somebody_who_may_do_more(doors: Doors) -> None:
    key = {"Idempotency-Key": "one"}
    assert (await doors.tcp.post("/api/drain", headers=key | await doors.token("admin", "x"))).status_code == 200
    assert (await doors.socket.delete("/api/tokens/token:x")).status_code == 200
    refused = await doors.tcp.post("/api/drain", headers=key | await doors.token("operate", "x"))
    assert (refused.status_code, refused.json()["type"].rpartition(":")[2]) == (403, "out-of-scope")


async def test_the_log_says_who_drained_the_daemon_and_deleted_a_task(doors: Doors, tmp_path: Path) -> None:
    repository(tmp_path / "git")
    body = {"text": "Say hello", "repo": str(tmp_path / "git"), "draft": True}
    tasks = [(await doors.socket.post("/api/tasks", json=body)).json()["id"] for _ in range(3)]
    admin = await doors.token("admin", "x")
    with capture_logs() as lines:
        assert (await doors.tcp.post("/api/drain", headers=admin)).status_code == 200
        assert (await doors.tcp.post("/everything/drain", data={"next": "/"}, headers=admin)).status_code == 303
        assert (await doors.tcp.delete(f"/api/tasks/{tasks[0]}", headers=admin)).status_code == 204
        assert (await doors.tcp.post(f"/tasks/{tasks[1]}/delete", headers=admin)).status_code == 303
        await doors.tcp.post("/api/tasks/batch", json={"verb": "delete", "tasks": [tasks[2]]}, headers=admin)
    told = [(line["event"], line.get("task"), line["by"]) for line in lines if "by" in line]
    deleted = [("task_deleted", task, "token:x") for task in tasks]
    assert told == [("drained", None, "token:x")] * 2 + deleted


async def test_callers_that_use_the_same_key_get_a_task_each(doors: Doors, tmp_path: Path) -> None:
    repository(tmp_path / "git")
    ticket = {"text": "Say hello", "repo": str(tmp_path / "git"), "key": "one"}
    form = ticket | {"pipeline": "review_only", "priority": "high", "draft": "true"}
    body = {"text": "Say hello", "repo": str(tmp_path / "git"), "draft": True}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "submit", "arguments": ticket}}
    accept = {"Accept": "application/json, text/event-stream", "Idempotency-Key": "one"}
    made: dict[str, list[str]] = {"api": [], "form": [], "mcp": []}
    for who in (await doors.token("operate", "a"), await doors.token("operate", "b")):
        for _ in range(2):
            answer = await doors.tcp.post("/api/tasks", json=body, headers=who | accept)
            made["api"].append(answer.json()["id"])
            made["form"].append((await doors.tcp.post("/tasks", data=form, headers=who)).headers["location"])
            answer = await doors.tcp.post("/mcp", json=call, headers=who | accept)
            made["mcp"].append(answer.json()["result"]["structuredContent"]["id"])
    for way, (first, again, other, repeated) in made.items():
        assert (first, other) == (again, repeated), way
        assert first != other, way


async def test_who_may_only_look_is_told_so_instead_of_a_form_for_a_new_task(doors: Doors) -> None:
    for scope in ("view", "operate"):
        headers = await doors.token(scope)
        page = (await doors.tcp.get("/tasks/new", headers={**headers, **PAGE})).text
        assert ("You may look, but not submit." in page, 'id="new"' in page) == (scope == "view", scope == "operate")


async def test_a_link_logs_one_browser_in_once_and_looking_at_it_uses_nothing_up(doors: Doors) -> None:
    link = (await doors.socket.post("/api/links", json={})).json()["url"]
    for _ in range(3):
        assert "<form" in (await doors.tcp.get(link)).text
    code = {"code": httpx.URL(link).params["code"]}
    first = await doors.tcp.post("/login", data=code, headers={"Origin": doors.origin})
    assert (first.status_code, first.headers["location"]) == (303, "/")
    cookie = first.headers["set-cookie"].lower()
    assert all(word in cookie for word in ("httponly", "samesite=strict", "path=/"))
    assert "secure" not in cookie
    assert (await doors.tcp.get("/", headers=PAGE)).status_code == 200
    doors.tcp.cookies.clear()
    second = await doors.tcp.post("/login", data=code, headers={"Origin": doors.origin})
    assert (second.status_code, "set-cookie" in second.headers) == (403, False)
    assert "or the daemon was restarted since" in second.text


async def test_the_command_line_makes_lists_and_revokes_tokens(doors: Doors) -> None:
    told = await doors.shell("token", "create", "phone", "--scope", "view", "--expires", "30d")
    assert told.code == 0, told.err
    headers = {"Authorization": f"Bearer {told.out.strip()}"}
    assert (await doors.tcp.get("/api/status", headers=headers)).status_code == 200
    listed = (await doors.shell("token", "list")).out
    assert "phone" in listed
    assert told.out.strip() not in listed
    assert (await doors.shell("token", "create", "phone", "--scope", "view")).code == 5
    assert (await doors.shell("token", "revoke", "phone")).code == 0
    assert (await doors.tcp.get("/api/status", headers=headers)).status_code == 401
    assert (await doors.shell("token", "revoke", "phone")).code == 4
    assert (await doors.shell("token", "create", "x", "--scope", "view", "--expires", "soon")).code == 2
    named = await doors.shell("token", "create", "my phone", "--scope", "view")
    assert "a name has up to 64 letters, digits, dots, _ and -, and begins with a letter or digit" in named.err


async def test_an_open_stream_ends_when_its_token_is_revoked_or_its_session_ends(
    doors: Doors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "HEARTBEAT", 0.1)
    monkeypatch.setattr(live, "HEARTBEAT", 0.1)
    task = await doors.submit()
    for path in ("/api/events", f"/api/tasks/{task}/stream", "/live"):
        headers = await doors.token("view", "reader")
        async with asyncio.timeout(PATIENCE), doors.tcp.stream("GET", path, headers=headers) as stream:
            chunks = stream.aiter_text()
            assert "id: " in await anext(chunks)
            assert await anext(chunks) == ": ping\n\n"
            await doors.socket.delete("/api/tokens/reader")
            assert {chunk async for chunk in chunks} <= {": ping\n\n"}
        await doors.login("view")
        async with asyncio.timeout(PATIENCE), doors.tcp.stream("GET", path) as stream:
            chunks = stream.aiter_text()
            assert "id: " in await anext(chunks)
            await doors.tcp.post("/logout", headers={"Origin": doors.origin})
            assert {chunk async for chunk in chunks} <= {": ping\n\n"}


@pytest.mark.parametrize("path", ["/api/events", "/live"])
async def test_whoever_has_no_valid_token_any_more_is_told_nothing_new(doors: Doors, path: str) -> None:
    headers = await doors.token("view", "reader")
    async with asyncio.timeout(PATIENCE), doors.tcp.stream("GET", path, headers=headers) as stream:
        chunks = stream.aiter_text()
        assert "id: " in await anext(chunks)
        await doors.socket.delete("/api/tokens/reader")
        await doors.submit()
        assert [chunk async for chunk in chunks] == []


async def test_open_prints_a_link_and_over_ssh_the_way_to_it(doors: Doors) -> None:
    doors.shell.variables["SSH_CONNECTION"] = "10.0.0.9 5000 10.0.0.1 2222"
    told = await doors.shell("open", "--scope", "view")
    assert told.out.startswith(f"{doors.origin}/login?code=")
    port = httpx.URL(doors.origin).port
    assert f"ssh -L {port}:127.0.0.1:{port} -p 2222 " in told.err
    assert told.err.count("@10.0.0.1") == 1
    code = httpx.URL(told.out.strip()).params["code"]
    await doors.tcp.post("/login", data={"code": code}, headers={"Origin": doors.origin})
    assert (await doors.tcp.get("/api/status")).status_code == 200
    assert (await doors.tcp.post("/api/pause", headers={"Origin": doors.origin})).status_code == 403


async def test_whoever_asks_too_often_is_told_when_to_go_on(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "WRITES", RateLimitItemPerMinute(3))
    headers = await doors.token("operate")
    answers = [await doors.tcp.post("/api/resume", headers=headers) for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    assert answers[0].headers["ratelimit-policy"] == '"writes";q=3;w=60'
    assert answers[0].headers["ratelimit"].startswith('"writes";r=2;t=')
    assert 0 < int(answers[3].headers["retry-after"]) <= 60
    assert answers[3].json()["type"].endswith(":too-many-requests")
    assert (await doors.tcp.get("/api/status", headers=headers)).status_code == 200
    other = await doors.token("operate", "other")
    assert (await doors.tcp.post("/api/resume", headers=other)).status_code == 200
    assert [(await doors.socket.post("/api/resume")).status_code for _ in range(5)] == [200] * 5


async def test_failures_to_log_in_are_few_and_lock_nobody_out(doors: Doors) -> None:
    link = (await doors.socket.post("/api/links", json={})).json()["url"]
    headers = await doors.token("view")
    wrong = {"Authorization": "Bearer wrong"}
    told = [(await doors.tcp.get("/api/status", headers=wrong)).status_code for _ in range(12)]
    assert told == [401] * 10 + [429] * 2
    from_here = {"Origin": doors.origin}
    guessed = await doors.tcp.post("/login", data={"code": "guess"}, headers=from_here)
    assert (guessed.status_code, int(guessed.headers["retry-after"]) > 0) == (429, True)
    assert (await doors.tcp.get("/api/status", headers=headers)).status_code == 200
    code = {"code": httpx.URL(link).params["code"]}
    assert (await doors.tcp.post("/login", data=code, headers=from_here)).status_code == 303


async def test_a_browser_without_a_session_is_always_told_how_to_log_in(doors: Doors) -> None:
    for _ in range(15):
        await doors.tcp.get("/api/status")
    pages = [await doors.tcp.get("/", headers=PAGE) for _ in range(12)]
    assert {page.status_code for page in pages} == {401}
    assert all("orchestrator open" in page.text for page in pages)
    guess = {**PAGE, "Cookie": "orchestrator_session=guess"}
    assert (await doors.tcp.get("/", headers=guess)).status_code == 429


async def test_offering_another_protocol_is_answered_and_not_logged(
    doors: Doors, caplog: pytest.LogCaptureFixture
) -> None:
    offer = {"Connection": "Upgrade", "Upgrade": "websocket"}
    assert (await doors.tcp.get("/healthz", headers=offer)).status_code == 200
    assert not caplog.records


async def test_a_report_that_no_browser_sends_is_logged_without_its_values(doors: Doors) -> None:
    nested = '{"csp-report": {"blocked-uri": ' + "[" * 1000 + "]" * 1000 + ', "line-number": 7, "source-file": "a.js"}}'
    with capture_logs() as logged:
        answer = await doors.tcp.post("/csp-reports", content=nested)
    assert answer.status_code == 204
    (line,) = [one for one in logged if one["event"] == "page_policy_violated"]
    assert (line["blocked_uri"], line["line_number"], line["source_file"]) == ("", "7", "a.js")


async def test_the_log_names_who_may_ask_and_who_said_so_but_no_secret(doors: Doors) -> None:
    with capture_logs() as logged:
        shown = [(await doors.token("view", "phone"))["Authorization"].removeprefix("Bearer ")]
        await doors.login("operate")
        shown.append(doors.tcp.cookies["orchestrator_session"])
        await doors.tcp.post("/logout", headers={"Origin": doors.origin})
        await doors.socket.delete("/api/tokens/phone")
    me = Caller(uid=os.getuid(), pid=os.getpid())
    assert [(one["event"], one.get("name"), one.get("scope"), one["by"]) for one in logged if "by" in one] == [
        ("token_created", "phone", "view", str(me)),
        ("link_created", me.user, "operate", str(me)),
        ("session_begun", None, "operate", f"browser:{me.user}"),
        ("session_ended", None, "operate", f"browser:{me.user}"),
        ("token_revoked", "phone", None, str(me)),
    ]
    assert not [secret for secret in shown if secret in str(logged)]


async def test_logging_out_ends_the_session_and_logging_in_again_the_one_before(doors: Doors) -> None:
    await doors.login()
    first = doors.tcp.cookies["orchestrator_session"]
    await doors.login()
    second = doors.tcp.cookies["orchestrator_session"]
    doors.tcp.cookies.clear()
    for secret, status in ((first, 401), (second, 200)):
        answer = await doors.tcp.get("/api/status", headers={"Cookie": f"orchestrator_session={secret}"})
        assert answer.status_code == status
    cookie = {"Cookie": f"orchestrator_session={second}", "Origin": doors.origin}
    assert (await doors.tcp.post("/logout", headers=cookie)).status_code == 303
    assert (await doors.tcp.get("/api/status", headers=cookie)).status_code == 401


async def test_behind_a_proxy_the_cookie_is_secure_and_its_host_must_be_named(
    doors: Doors, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ORCHESTRATOR_ALLOWED_HOSTS", '["Night.example.org"]')
    daemon = create_daemon(tmp_path / "other")
    async with serving(daemon) as socket:
        url = httpx.URL((await socket.post("/api/links", json={})).json()["url"])
        proxied = {"X-Forwarded-Proto": "https", "Origin": "https://night.example.org"}
        async with httpx.AsyncClient(base_url=f"http://{url.host}:{url.port}") as tcp:
            at = {"Host": "night.example.org", **proxied}
            answer = await tcp.post("/login", data={"code": url.params["code"]}, headers=at)
            assert (answer.status_code, "secure" in answer.headers["set-cookie"].lower()) == (303, True)
            assert (await tcp.get("/healthz", headers={"Host": "day.example.org"})).status_code == 421
    daemon.store.close()


def test_only_loopback_can_be_listened_on() -> None:
    for text, problem in {
        "0.0.0.0:8700": "reverse proxy",
        "192.168.1.4:8700": "reverse proxy",
        "[::]:8700": "allowed_hosts",
        "127.0.0.1": "is not an address",
        "localhost:8700": "is not an address",
        "::1:8700": "is not an address",
        "127.0.0.1:99999": "no port",
        "127.0.0.1:-1": "is not an address",
    }.items():
        with pytest.raises(SettingsError, match=problem):
            load_settings(None, {"listen": text})
    assert load_settings(None, {"listen": "[::1]:8700"}).listen == "[::1]:8700"
    assert load_settings(None, {}).listen == ""


async def test_an_address_that_is_taken_is_refused_by_name(doors: Doors, tmp_path: Path) -> None:
    daemon = create_daemon(tmp_path / "second")
    taken = doors.origin.removeprefix("http://")
    with pytest.raises(SocketRefused, match=f"cannot listen on {taken}"):
        make_server(create_app(daemon.service), [daemon.settings.socket], lambda: None, listen=taken)
    daemon.store.close()


async def test_without_an_address_no_link_is_made_and_the_setting_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    daemon = create_daemon(tmp_path / "data")
    (tmp_path / "repo").mkdir()
    async with serving(daemon):
        told = await Shell(tmp_path)("open")
        assert (told.code, "listen =" in told.err) == (5, True)
    daemon.store.close()


async def test_a_browser_is_opened_on_a_private_file(doors: Doors, tmp_path: Path) -> None:
    runtime, arguments = tmp_path / "runtime", tmp_path / "arguments"
    runtime.mkdir()
    program = tmp_path / "browser"
    program.write_text(f'#!/bin/sh\necho "$@" > {arguments}\n')
    program.chmod(0o755)
    doors.shell.variables |= {"DISPLAY": ":9", "BROWSER": f"{program} %s", "XDG_RUNTIME_DIR": str(runtime)}
    told = await doors.shell("open")
    assert (told.code, told.out) == (0, "")
    (file,) = runtime.iterdir()
    assert arguments.read_text().strip() == file.as_uri()
    assert file.stat().st_mode & 0o777 == 0o600
    assert f"{doors.origin}/login?code=" in file.read_text()


async def test_browsers_call_a_name_of_its_own_if_one_is_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("ORCHESTRATOR_LISTEN", "127.0.0.1:0")
    monkeypatch.setenv("ORCHESTRATOR_ALLOWED_HOSTS", '["night.example.org", "x7h2k9q4.localhost"]')
    daemon = create_daemon(tmp_path / "data")
    async with serving(daemon) as socket:
        url = httpx.URL((await socket.post("/api/links", json={})).json()["url"])
        assert url.host == "x7h2k9q4.localhost"
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{url.port}") as tcp:
            at = {"Host": f"{url.host}:{url.port}", "Origin": f"http://{url.host}:{url.port}"}
            answer = await tcp.post("/login", data={"code": url.params["code"]}, headers=at)
            assert answer.status_code == 303
    daemon.store.close()
