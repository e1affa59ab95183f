"""The API over a real Unix socket, with a real store, supervisor and intake behind it."""

import asyncio
import json
import os
import resource
import socket
import stat
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from orchestrator.core.schedule.admission import Capacity
from orchestrator.core.task.task import TaskStatus
from orchestrator.pipelines.bundled import Kind, bundled
from orchestrator.processes.spec import MARKER
from orchestrator.server.app import create_app
from orchestrator.server.listener import SocketRefused, make_server
from orchestrator.storage.records import TaskSummary
from tests.fakes.in_process_daemon import REQUEST_PROGRAM, InProcessDaemon, create_daemon, serving, status_for_child
from tests.integration.processes.stage import Stage

SECRET = "AKIA" + "ABCDEFGHIJKLMNOP"


def ticket(daemon: InProcessDaemon, **more: object) -> Mapping[str, object]:
    """Return a ticket that can be accepted."""
    return {"text": "Say hello", "repo": str(daemon.settings.data_dir.parent / "repo"), **more}


async def submitted(client: httpx.AsyncClient, daemon: InProcessDaemon, **more: object) -> str:
    answer = await client.post("/api/tasks", json=ticket(daemon, **more))
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


async def test_a_ticket_becomes_a_task_that_can_be_viewed(client: httpx.AsyncClient, daemon: InProcessDaemon) -> None:
    answer = await client.post("/api/tasks", json=ticket(daemon, ticket="ABC-7", type="bugfix", checks={"t": "true"}))
    task = answer.json()
    assert answer.status_code == 201
    assert answer.headers["location"] == f"/api/tasks/{task['id']}"
    assert (task["ticket"]["key"], task["ticket"]["type"], task["baseBranch"]) == ("ABC-7", "bugfix", "main")
    assert {one["name"]: one["command"] for one in task["checks"]}["t"] == "true"
    shown = (await client.get("/api/tasks/ABC-7")).json()
    assert shown["id"] == task["id"]
    assert shown["status"] in {"pending", "in_progress"}


async def test_the_submitter_is_identified_by_the_kernel_and_recorded(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    task_id = await submitted(client, daemon)
    entries = (await client.get(f"/api/tasks/{task_id}/journal")).json()["entries"]
    assert entries[0]["event"]["by"].endswith(f" uid:{os.getuid()} pid:{os.getpid()}")


async def test_the_agent_is_shown_under_the_names_of_the_original_system(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    task_id = await submitted(client, daemon)
    agent = (await client.get(f"/api/tasks/{task_id}/agent")).json()
    nothing = dict.fromkeys(("role", "currentPhase", "currentStep", "blockedBy", "lastUpdate"))
    counted = {"attempt": 0, "progress": 0, "tokensUsed": 0}
    checkpoint = {"lastSaved": None, "autoSaveInterval": 600_000}
    assert agent == {"status": "idle", **nothing, **counted, "checkpoint": checkpoint}
    entry = (await client.get(f"/api/tasks/{task_id}/journal")).json()["entries"][0]
    assert (entry["taskId"], entry["type"], entry["from"], entry["to"]) == (
        task_id,
        "state_transition",
        None,
        "pending",
    )
    assert (await client.get("/api/tasks/made-up/agent")).status_code == 404


async def test_lists_have_the_newest_first_and_are_filtered_by_page_and_status(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    made = [await submitted(client, daemon, ticket=f"ABC-{number}") for number in range(5)]
    await client.post(f"/api/tasks/{made[2]}/cancel")
    first = (await client.get("/api/tasks", params={"limit": 3})).json()
    second = (await client.get("/api/tasks", params={"limit": 3, "cursor": first["nextCursor"]})).json()
    assert [task["id"] for task in first["tasks"] + second["tasks"]] == made[::-1]
    assert second["nextCursor"] is None
    cancelled = (await client.get("/api/tasks", params={"status": "cancelled"})).json()
    assert [task["id"] for task in cancelled["tasks"]] == [made[2]]
    assert (await client.get("/api/tasks", params={"repo": "/elsewhere"})).json()["tasks"] == []


async def test_an_ended_task_keeps_its_priority_in_the_list(client: httpx.AsyncClient, daemon: InProcessDaemon) -> None:
    made = [await submitted(client, daemon, ticket=f"ABC-{n}", priority=p) for n, p in ((1, "high"), (2, "low"))]
    for task_id in made:
        await client.post(f"/api/tasks/{task_id}/cancel")
    await daemon.inbox.settled()
    listed = (await client.get("/api/tasks")).json()["tasks"]
    assert [line["priority"] for line in listed] == ["low", "high"]
    assert [one.priority for one in daemon.store.summaries() if isinstance(one, TaskSummary)] == ["high", "low"]


@pytest.mark.parametrize("cursor", ["made-up", "", "2026-05-28T22:30:00.000Z", "9_LOCAL-1", "zzz_x"])
async def test_an_invalid_cursor_is_refused_with_a_description_of_a_valid_one(
    client: httpx.AsyncClient, cursor: str
) -> None:
    answer = await client.get("/api/tasks", params={"cursor": cursor})
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json")
    assert answer.json()["detail"].startswith("cursor: ")


async def test_a_task_is_found_by_its_id_a_prefix_of_it_and_its_ticket_if_only_one_matches(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    one = await submitted(client, daemon, ticket="ABC-1")
    await submitted(client, daemon, ticket="ABC-12")
    assert (await client.get("/api/tasks/ABC-1")).json()["id"] == one
    assert (await client.get(f"/api/tasks/{one[:-1]}")).json()["id"] == one
    ambiguous = await client.get("/api/tasks/ABC")
    assert (ambiguous.status_code, len(ambiguous.json()["candidates"])) == (409, 2)
    again = await submitted(client, daemon, ticket="ABC-1", again=True)
    assert (await client.get("/api/tasks/ABC-1")).status_code == 409
    await client.post(f"/api/tasks/{one}/cancel")
    assert (await client.get("/api/tasks/ABC-1")).json()["id"] == again


async def test_a_task_is_found_by_any_part_of_its_id_that_no_other_task_has(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    one = await submitted(client, daemon, ticket="ABC-1")
    other = await submitted(client, daemon, ticket="XYZ-2")

    async def named(name: str) -> str | list[str] | int:
        found = await client.get(f"/api/tasks/{name}")
        body = found.json()
        return body.get("id") or sorted(body.get("candidates", ())) or found.status_code

    assert await named("BC-1") == await named("abc-1") == await named("bc-1") == one
    assert await named("X") == await named("yz-2_") == await named(other.lower()[:8]) == other
    assert await named("-") == 404
    assert await named("2026") == sorted([one, other])
    assert await named("BC") == 404, "two characters from the middle name no task"
    assert await named(f"{one[:-1]}9-2") == 404, "a whole id means only itself"


@pytest.mark.parametrize("name", ["nobody", "~root", "%00", "a" * 500])
async def test_a_missing_task_is_a_problem_document(client: httpx.AsyncClient, name: str) -> None:
    answer = await client.get(f"/api/tasks/{name}")
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")
    assert answer.json()["type"] == "urn:orchestrator:problem:no-such-task"


async def test_an_action_that_the_state_does_not_allow_is_refused_with_the_allowed_ones(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    first, second = await submitted(client, daemon), await submitted(client, daemon)
    answer = await client.post(f"/api/tasks/{second}/resume")
    assert (answer.status_code, answer.json()["taskStatus"]) == (409, "pending")
    assert answer.json()["allowed"] == ["pause", "cancel"]
    await client.post(f"/api/tasks/{first}/cancel")
    ended = await client.post(f"/api/tasks/{first}/pause")
    assert (ended.status_code, ended.json()["taskStatus"], ended.json()["allowed"][:1]) == (
        409,
        "cancelled",
        ["archive"],
    )


async def test_repeated_requests_are_not_errors(client: httpx.AsyncClient, daemon: InProcessDaemon) -> None:
    task = await submitted(client, daemon)
    for action, paused in (("pause", True), ("pause", True), ("resume", False), ("resume", False)):
        answer = await client.post(f"/api/tasks/{task}/{action}")
        assert (answer.status_code, answer.json()["agent"]["blockedBy"]) == (200, "user" if paused else None)
    for _ in range(2):
        assert (await client.post(f"/api/tasks/{task}/cancel")).json()["status"] == "cancelled"


@pytest.mark.parametrize(
    ("wrong", "status"),
    [
        ({"text": " "}, 422),
        ({"repo": "/nowhere"}, 422),
        ({"pipeline": "fulll"}, 422),
        ({"type": "wish"}, 400),
        ({"colour": "blue"}, 400),
        ({"after": ["nobody"]}, 404),
        ({"at": "2030-01-01T00:00:00"}, 400),
        ({"at": "0001-01-01T00:00:00+14:00"}, 400),
        ({"at": "2020-01-01T00:00:00+09:00"}, 422),
        ({"title": "\ud800"}, 400),
        ({"checks": {"unit_test": "\ud800"}}, 400),
        ({"checks": {f"check_{number}": "true" for number in range(51)}}, 400),
        ({"repo": "repo"}, 400),
        ({"text": SECRET[:4] + " -----BEGIN PRIVATE KEY-----"}, 422),
        ({"text": "x" * (9 * 1024 * 1024)}, 413),
    ],
)
async def test_a_ticket_that_cannot_be_accepted_leaves_nothing_behind(
    client: httpx.AsyncClient, daemon: InProcessDaemon, wrong: Mapping[str, object], status: int
) -> None:
    body = json.dumps({**ticket(daemon), **wrong})
    answer = await client.post("/api/tasks", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    assert answer.json()["detail"]
    assert list(daemon.store.files.root.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "kind", "problem", "says"),
    [
        ("{", "application/json", (400, "malformed"), "at character 2"),
        ("{}", "text/plain", (415, "unsupported-media-type"), "'text/plain'"),
        ("a=1", "application/x-www-form-urlencoded", (415, "unsupported-media-type"), "application/json"),
        ("[]", "application/json", (400, "malformed"), "body: "),
    ],
)
async def test_a_body_that_is_not_json_is_refused_as_such(
    client: httpx.AsyncClient, content: str, kind: str, problem: tuple[int, str], says: str
) -> None:
    answer = await client.post("/api/tasks", content=content, headers={"Content-Type": kind})
    assert (answer.status_code, answer.json()["type"].rpartition(":")[2]) == problem
    assert says in answer.json()["detail"]


async def test_the_same_key_gives_the_same_task_also_after_a_restart(daemon: InProcessDaemon) -> None:
    headers = {"Idempotency-Key": "one"}
    async with serving(daemon) as client:
        both = await asyncio.gather(
            *(client.post("/api/tasks", json=ticket(daemon), headers=headers) for _ in range(2))
        )
        assert both[0].json()["id"] == both[1].json()["id"]
    daemon.store.close()
    anew = create_daemon(daemon.settings.data_dir)
    anew.supervisor.recover(anew.store.load(both[0].json()["id"], keep_open=True).task)
    async with serving(anew) as client:
        again = await client.post("/api/tasks", json=ticket(daemon), headers=headers)
        assert again.json()["id"] == both[0].json()["id"]
        other = await client.post("/api/tasks", json=ticket(daemon, text="Something else"), headers=headers)
        assert (other.status_code, other.json()["type"]) == (409, "urn:orchestrator:problem:key-taken")
    anew.store.close()


async def test_a_refused_ticket_leaves_its_key_free(client: httpx.AsyncClient, daemon: InProcessDaemon) -> None:
    headers = {"Idempotency-Key": "one"}
    assert (await client.post("/api/tasks", json=ticket(daemon, pipeline="none"), headers=headers)).status_code == 422
    assert (await client.post("/api/tasks", json=ticket(daemon), headers=headers)).status_code == 201


async def test_every_write_happens_once_under_a_key_and_is_answered_as_the_first_time(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    task, key = await submitted(client, daemon), {"Idempotency-Key": "one"}
    paused = await client.post(f"/api/tasks/{task}/pause", headers=key)
    await client.post(f"/api/tasks/{task}/resume")
    again = await client.post(f"/api/tasks/{task}/pause", headers=key)
    assert (again.status_code, again.content, again.headers["content-type"]) == (
        200,
        paused.content,
        "application/json",
    )
    assert not daemon.supervisor.tasks[task].is_paused
    for verb, path in (("POST", "cancel"), ("POST", "pause?now"), ("PATCH", "")):
        other = await client.request(verb, f"/api/tasks/{task}/{path}".rstrip("/"), headers=key, json={})
        assert (other.status_code, other.json()["type"]) == (409, "urn:orchestrator:problem:key-taken")
    await client.post(f"/api/tasks/{task}/cancel")
    for _ in range(2):
        gone = await client.delete(f"/api/tasks/{task}", headers={"Idempotency-Key": "two"})
        assert (gone.status_code, gone.content) == (204, b"")


@pytest.mark.parametrize("wrong", [{"content": "{", "headers": {"Content-Type": "application/json"}}, {"json": {}}])
async def test_a_malformed_request_leaves_its_key_free(
    client: httpx.AsyncClient, daemon: InProcessDaemon, wrong: dict[str, Any]
) -> None:
    path, key = f"/api/tasks/{await submitted(client, daemon)}", {"Idempotency-Key": "one"}
    refused = await client.patch(path, **{**wrong, "headers": {**wrong.get("headers", {}), **key}})
    assert refused.status_code == 400
    assert (await client.patch(path, json={"priority": "high"}, headers=key)).json()["priority"] == "high"


async def test_every_write_knows_a_key_but_webhooks_and_those_whose_answer_is_a_secret(daemon: InProcessDaemon) -> None:
    writes = {
        (verb, path): [given["name"].lower() for given in said.get("parameters", ())]
        for path, verbs in create_app(daemon.service).openapi()["paths"].items()
        for verb, said in verbs.items()
        if verb != "get"
    }
    assert len(writes) > 20
    for secret in (("post", "/api/tokens"), ("delete", "/api/tokens/{token}"), ("post", "/api/links")):
        assert "idempotency-key" not in writes.pop(secret)
    assert "idempotency-key" not in writes.pop(("post", "/hooks/{kind}/{hook}"))  # known by its signed delivery
    assert "idempotency-key" not in writes.pop(("post", "/api/sources"))  # asked again, it gives the same copy
    assert [write for write, given in writes.items() if given.count("idempotency-key") != 1] == []
    daemon.store.close()


async def test_no_agent_controls_its_own_daemon_not_even_without_its_marker(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    task = await submitted(client, daemon)
    marked = {MARKER: str(daemon.store.files.path_of(task) / "agents/1")}
    cleared = ["sh", "-c", "env -u " + MARKER + ' "$@"; exit $?', "sh"]
    cancel = f"/api/tasks/{task}/cancel"
    assert await status_for_child([], daemon, "POST", cancel, marked) == 403
    assert await status_for_child(cleared, daemon, "POST", cancel, marked) == 403
    assert await status_for_child([], daemon, "GET", "/healthz", marked) == 200
    assert await status_for_child([], daemon, "POST", cancel, {MARKER: "/another/daemon/tasks/x/agents/1"}) == 200


async def test_a_run_that_cleared_its_environment_is_identified_by_its_holder(
    client: httpx.AsyncClient, daemon: InProcessDaemon, tmp_path: Path
) -> None:
    task = await submitted(client, daemon)
    asked = (sys.executable, "-c", REQUEST_PROGRAM, str(daemon.settings.socket), "POST", f"/api/tasks/{task}/cancel")
    stage = Stage(tmp_path)
    try:
        folder = await stage.start(("env", "-i", *asked))
        await stage.exit_of(folder)
        assert stage.output(folder) == b"403\n"
    finally:
        await stage.runs.close()
        stage.clear()


async def test_the_socket_is_private_and_removed_at_the_end(daemon: InProcessDaemon) -> None:
    path = daemon.settings.socket
    async with serving(daemon) as client:
        assert (await client.get("/healthz")).json() == {"status": "ok"}
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with pytest.raises(SocketRefused, match="another daemon"):
            make_server(create_app(daemon.service), [path], lambda: None)
    assert not path.exists()
    daemon.store.close()


async def test_a_dead_daemons_socket_is_replaced_and_anything_else_is_left_alone(daemon: InProcessDaemon) -> None:
    path = daemon.settings.socket
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    async with serving(daemon) as client:
        assert (await client.get("/healthz")).status_code == 200
    path.write_text("precious")
    with pytest.raises(SocketRefused, match="not a socket"):
        make_server(create_app(daemon.service), [path], lambda: None)
    assert path.read_text() == "precious"
    with pytest.raises(SocketRefused, match="bytes"):
        make_server(create_app(daemon.service), [daemon.settings.data_dir / ("x" * 120)], lambda: None)
    daemon.store.close()


async def test_the_status_names_the_tasks_that_hold_places_and_those_that_wait(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    first, second = await submitted(client, daemon), await submitted(client, daemon)
    status = (await client.get("/api/status")).json()
    assert (status["health"], status["pid"], status["placesTaken"]) == ("ok", os.getpid(), 1)
    assert [task["id"] for task in status["queue"]] == [second]
    assert status["counts"] == {"in_progress": 1, "pending": 1}
    why = (await client.get(f"/api/tasks/{second}/why")).json()
    assert first in why["facts"][0]
    assert why["next"]


async def test_the_journal_can_be_read_from_a_decision_on(client: httpx.AsyncClient, daemon: InProcessDaemon) -> None:
    task = await submitted(client, daemon)
    await client.post(f"/api/tasks/{task}/cancel")
    whole = (await client.get(f"/api/tasks/{task}/journal")).json()
    assert [entry["trigger"] for entry in whole["entries"]] == ["TaskSubmitted", "TaskAdmitted", "CancelRequested"]
    rest = (await client.get(f"/api/tasks/{task}/journal", params={"since": 2})).json()
    assert [entry["seq"] for entry in rest["entries"]] == [3]
    assert rest["nextSince"] == 3
    state = (await client.get(f"/api/tasks/{task}/state")).json()
    assert (state["task_id"], state["status"], state["schema_version"]) == (task, "cancelled", 2)


async def test_artifacts_are_the_files_of_the_tasks_folder_and_no_others(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    task = await submitted(client, daemon)
    folder = daemon.store.files.path_of(task)
    (folder / "plan.md").write_text(f"# Plan\nuse {SECRET}\n")
    (folder / "stolen.md").symlink_to("/etc/passwd")
    listed = (await client.get(f"/api/tasks/{task}/artifacts")).json()["artifacts"]
    assert [line["path"] for line in listed] == ["pipeline.toml", "plan.md", "ticket-parsed.json", "ticket.json"]
    text = (await client.get(f"/api/tasks/{task}/artifacts/plan.md")).text
    assert text == "# Plan\nuse [REDACTED:aws_access_key]\n"
    for path in ("stolen.md", "journal.jsonl", "..%2f..%2flock", "%2fetc%2fpasswd"):
        assert (await client.get(f"/api/tasks/{task}/artifacts/{path}")).status_code == 404


async def test_a_transcript_is_read_by_offset_as_text_and_without_secrets(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    task = await submitted(client, daemon)
    folder = daemon.store.files.path_of(task) / "agents/1"
    folder.mkdir(parents=True)
    said = {"type": "assistant", "message": {"content": [{"type": "text", "text": f"the key is {SECRET}"}]}}
    first = orjson.dumps(said) + b"\n"
    (folder / "stdout.jsonl").write_bytes(first + b"garbage\n" + b'{"type": "half')
    url = f"/api/tasks/{task}/agents/1/transcript"
    page = (await client.get(url)).json()
    assert [(entry["offset"], entry["kind"]) for entry in page["entries"]] == [(0, "text"), (len(first), "noise")]
    assert page["entries"][0]["text"] == "the key is [REDACTED:aws_access_key]"
    assert (page["nextOffset"], page["ended"]) == (len(first) + 8, False)
    raw = (await client.get(url, params={"raw": True})).json()
    assert SECRET not in raw["entries"][0]["text"]
    (folder / "exit").write_text("{}")
    last = (await client.get(url, params={"offset": page["nextOffset"]})).json()
    assert (last["entries"], last["ended"]) == ([], True)
    assert (await client.get(f"/api/tasks/{task}/agents")).json()["attempts"][0]["ended"] is True
    assert (await client.get(f"/api/tasks/{task}/agents/2/transcript")).status_code == 404


async def test_ended_tasks_are_found_after_a_restart_and_damaged_ones_are_named(daemon: InProcessDaemon) -> None:
    async with serving(daemon) as client:
        task = await submitted(client, daemon, ticket="OLD-1")
        await client.post(f"/api/tasks/{task}/cancel")
    daemon.store.close()
    (daemon.store.files.root / "broken").mkdir()
    (daemon.store.files.root / "broken" / "journal.jsonl").write_text("damaged\n")
    anew = create_daemon(daemon.settings.data_dir)
    anew.supervisor.ended[task] = TaskStatus.CANCELLED
    async with serving(anew) as client:
        page = (await client.get("/api/tasks")).json()
        assert [(line["id"], line["status"]) for line in page["tasks"]] == [(task, "cancelled")]
        assert "broken" in page["unreadable"][0]
        assert (await client.get("/api/tasks/OLD-1")).json()["status"] == "cancelled"
    anew.store.close()


async def test_a_full_disk_is_reported_as_such_and_nothing_has_changed(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    task = await submitted(client, daemon)
    before = daemon.supervisor.tasks[task]
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    full = (daemon.store.files.path_of(task) / "journal.jsonl").stat().st_size
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (full, hard))
        paused = await client.post(f"/api/tasks/{task}/pause")
        resource.setrlimit(resource.RLIMIT_FSIZE, (16, hard))
        handed_in = await client.post("/api/tasks", json=ticket(daemon))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    for answer in (paused, handed_in):
        assert (answer.status_code, answer.json()["type"]) == (507, "urn:orchestrator:problem:not-committed")
    assert daemon.supervisor.tasks == {task: before}
    assert [folder.name for folder in daemon.store.files.root.iterdir()] == [task]


async def test_pipelines_and_roles_are_shown_as_declared(client: httpx.AsyncClient) -> None:
    pipelines = (await client.get("/api/pipelines")).json()["pipelines"]
    bundled_pipelines = bundled(Kind.PIPELINES).glob("*.toml")
    assert sorted(one["name"] for one in pipelines) == sorted(path.stem for path in bundled_pipelines)
    first = {one["name"]: one["stages"][0]["name"] for one in pipelines}
    assert (first["full"], first["issue-plan-execute"]) == ("TICKET_INTAKE", "LIST")
    roles = (await client.get("/api/roles")).json()["roles"]
    assert sorted(role["name"] for role in roles) == sorted(path.stem for path in bundled(Kind.AGENTS).glob("*.md"))
    paths = (await client.get("/openapi.json")).json()["paths"]
    assert "/api/tasks/{name}/why" in paths


async def test_a_request_that_grows_too_large_in_transfer_is_refused_as_such(client: httpx.AsyncClient) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(9):
            yield b"x" * 1024 * 1024

    answer = await client.post("/api/tasks", content=pieces(), headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["type"]) == (413, "urn:orchestrator:problem:too-large")


async def test_the_daemon_is_ready_until_it_stops(client: httpx.AsyncClient, daemon: InProcessDaemon) -> None:
    assert (await client.get("/readyz")).status_code == 200
    daemon.supervisor.control.capacity = Capacity(draining=True)
    assert (await client.get("/readyz")).status_code == 503
    assert (await client.get("/healthz")).status_code == 200


async def test_the_failures_of_a_task_can_be_requested_separately(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    task = await submitted(client, daemon)
    assert (await client.get(f"/api/tasks/{task}/failures")).json() == {"total": 0, "entries": []}
