"""The API is what its OpenAPI document says: schemathesis makes up requests, and compares each answer with it."""

import asyncio
import os
import re
import sys
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import httpx
import pytest

from orchestrator.core.task.user_requests import RequestDraft, Subject
from tests.fakes.in_process_daemon import InProcessDaemon, create_daemon, serving
from tests.fakes.openapi_hooks import PLACES

SEED = 1
EXAMPLES = 4
"""Requests of each kind that are made up for a route."""
PHASES = {"examples,coverage,fuzzing": (40, 300), "stateful": (15, 30)}
"""When to make up no more on a machine that is slow, in seconds, and how many requests there are at least."""
HOOKS = Path(__file__).parent.parent / "fakes" / "openapi_hooks.py"
CONFIG = f"""
hooks = "{HOOKS}"

[dictionaries.tasks]
values = ["ABC-0", "ABC-1", "ABC-2"]

[dictionaries.deleted]
values = ["ABC-3"]

[dictionaries.requests]
values = ["ABC-0.1", "ABC-0.2", "ABC-0.3", "ABC-0.4"]

[parameters."path.name"]
dictionary = "tasks"
probability = 0.5

[checks.positive_data_acceptance]
expected-statuses = ["2xx", 401, 403, 404, 409, 422, 429, 502, 503]

[checks.negative_data_rejection]
expected-statuses = [400, 401, 403, 404, 405, 406, 409, 415, 422, 429, 431, "5xx"]

[[operations]]
include-path-regex = "^/api/(events|tasks/{{name}}/stream)$"
generation.allow-extra-parameters = false

[[operations]]
include-path = "/api/tasks/{{name}}"
include-method = "DELETE"
parameters."path.name" = {{ dictionary = "deleted", probability = 0.5 }}

[[operations]]
include-path = "/readyz"
checks.not_a_server_error.expected-statuses = ["2xx", "4xx", 503]

[[operations]]
include-path-regex = "^/api/(questions|reviews|dependencies)/"
parameters."path.name" = {{ dictionary = "requests", probability = 0.6 }}
"""
"""What a document cannot say: which tasks there are, and that a valid request may ask for what is not there (422)."""
ASKING = (
    RequestDraft(subject=Subject.QUESTION, text="Which separator?", options=("dash", "dot")),
    RequestDraft(subject=Subject.QUESTION, text="Any wish?", required=False),
    RequestDraft(subject=Subject.DEPENDENCY, text="to talk to the shop", name="SHOP_KEY", type="api_key"),
    RequestDraft(subject=Subject.STAGE, text="DESIGN is done: review plan.md", name="DESIGN"),
)


@asynccontextmanager
async def on_tcp(path: Path) -> AsyncIterator[int]:
    """Yield a port of loopback that leads to a Unix socket: schemathesis speaks to no other kind."""

    async def forward(reader: StreamReader, writer: StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_unix_connection(str(path))
        await asyncio.gather(_pass_on(reader, inner_writer), _pass_on(inner_reader, writer))

    server = await asyncio.start_server(forward, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def _pass_on(reader: StreamReader, writer: StreamWriter) -> None:
    with suppress(ConnectionError):
        while piece := await reader.read(65536):
            writer.write(piece)
            await writer.drain()
    writer.close()


async def with_tasks(client: httpx.AsyncClient, daemon: InProcessDaemon, repo: Path) -> None:
    """Submit tasks that there is something to ask of: one whose agent has requests, one that ended, one draft."""
    for number in range(4):
        body = {"text": "Say hello", "repo": str(repo), "ticket": f"ABC-{number}", "autonomy": "interactive"}
        answer = await client.post("/api/tasks", json={**body, "draft": number == 2})
        assert answer.status_code == 201, answer.text
        if number == 0:
            await daemon.let_ask(answer.json()["id"], *ASKING)
    await client.post("/api/tasks/ABC-1/cancel")


async def run_schemathesis(port: int, folder: Path, phases: str) -> tuple[int, str]:
    """Return the exit code of schemathesis, and its report."""
    (folder / "schemathesis.toml").write_text(CONFIG)
    places = f"repo={folder / 'repo'}:folder={folder / 'repo'}"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "schemathesis.cli", "run", f"http://127.0.0.1:{port}/openapi.json"),
        *("--seed", str(SEED), "--max-examples", str(EXAMPLES)),
        *("--phases", phases, "--max-time", str(PHASES[phases][0])),
        *("--exclude-checks", "ignored_auth", "--continue-on-failure", "--no-color", "--suppress-health-check", "all"),
        cwd=folder,
        env={**os.environ, PLACES: places, "PYTHONPATH": str(HOOKS.parent.parent.parent)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, said.decode(errors="replace")


@pytest.mark.parametrize("phases", PHASES)
async def test_no_request_that_the_document_leads_to_is_answered_otherwise_than_it_says(
    daemon: InProcessDaemon, tmp_path: Path, phases: str
) -> None:
    async with serving(daemon) as client, on_tcp(daemon.settings.socket) as port:
        document = (await client.get("/openapi.json")).json()
        await with_tasks(client, daemon, tmp_path / "repo")
        code, report = await run_schemathesis(port, tmp_path, phases)
    daemon.store.close()
    assert code == 0, report
    generated = re.search(r"(\d+) generated", report)
    assert generated, report
    assert int(generated.group(1)) > PHASES[phases][1], report
    if "coverage" in phases:
        tested = re.search(r"Tested: (\d+)", report)
        assert tested, report
        assert int(tested.group(1)) == sum(len(item) for item in document["paths"].values())


async def test_every_route_that_needs_credentials_refuses_who_shows_none_or_too_little_over_tcp(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Failures are limited too: beyond ten in a minute they are answered with 429."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("ORCHESTRATOR_LISTEN", "127.0.0.1:0")
    daemon = create_daemon(tmp_path / "data")
    async with serving(daemon) as client:
        document = (await client.get("/openapi.json")).json()
        token = (await client.post("/api/tokens", json={"name": "reader", "scope": "view"})).json()["token"]
        url = httpx.URL((await client.post("/api/links", json={})).json()["url"])
        async with httpx.AsyncClient(base_url=f"http://{url.host}:{url.port}") as tcp:
            for path, item in document["paths"].items():
                for method, operation in item.items():
                    if operation["security"] == [{}]:
                        continue
                    address = re.sub(r"\{\w+\}", "1", path)
                    anybody = await tcp.request(method, address)
                    assert anybody.status_code in {401, 403, 429}, (method, path)
                    assert str(anybody.status_code) in operation["responses"]
                    if method != "get":
                        reader = await tcp.request(method, address, headers={"Authorization": f"Bearer {token}"})
                        assert (reader.status_code, reader.json()["type"].rpartition(":")[2]) == (403, "out-of-scope")
    daemon.store.close()
