"""Event streams over a real Unix socket: nothing is lost or repeated, whoever reads and whatever breaks."""

import asyncio
import json
import os
import re
import select
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from orchestrator import clock
from orchestrator.cli.commands.streams import render_event
from orchestrator.core.events.events import ForeignEditFound
from orchestrator.daemon.services.events import HEARTBEAT, MOST_UNSENT
from orchestrator.server.schemas.events import GapView
from orchestrator.storage.event_index import INDEX, EventIndex, UnfitIndex
from tests.fakes.in_process_daemon import PATIENCE, InProcessDaemon, create_daemon, serving
from tests.fakes.repositories import repository

SECRET = "AKIA" + "ABCDEFGHIJKLMNOP"

Json = dict[str, Any]


async def submitted(client: httpx.AsyncClient, daemon: InProcessDaemon, **more: object) -> str:
    body = {"text": "Say hello", "repo": str(daemon.settings.data_dir.parent / "repo"), **more}
    answer = await client.post("/api/tasks", json=body)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


async def restarted(daemon: InProcessDaemon) -> InProcessDaemon:
    """Another server on the same data, as after the end of this one; it recovers the active tasks."""
    live = list(daemon.supervisor.tasks)
    daemon.store.close()
    anew = create_daemon(daemon.settings.data_dir)
    for task in live:
        anew.supervisor.recover(anew.store.load(task, keep_open=True).task)
    return anew


def parse(block: str) -> Json:
    """Return one event of a stream as its fields, with `data` decoded."""
    fields = dict(line.split(": ", 1) for line in block.splitlines())
    return {**fields, "data": json.loads(fields["data"])}


@asynccontextmanager
async def reading(client: httpx.AsyncClient, path: str, **params: Any) -> AsyncIterator[AsyncIterator[Json]]:
    """Yield the events of a stream while it is open."""
    headers = {"Last-Event-ID": str(params.pop("last_id"))} if "last_id" in params else {}
    async with client.stream("GET", path, params=params, headers=headers) as answer:
        assert (answer.status_code, answer.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
        yield _events(answer)


async def _events(answer: httpx.Response) -> AsyncIterator[Json]:
    text = ""
    async for piece in answer.aiter_text():
        *blocks, text = (text + piece).split("\n\n")
        for block in blocks:
            if "data: " in block:
                yield parse(block)


async def everything(client: httpx.AsyncClient, path: str = "/api/events", begin: int = 0, **params: Any) -> list[Json]:
    """Return all events so far."""
    async with reading(client, path, **{"from": begin, "follow": False, **params}) as events:
        return [event async for event in events]


def told(events: list[Json]) -> list[tuple[str, int]]:
    """Return which decisions were reported."""
    return [(event["data"]["task"], event["data"]["seq"]) for event in events]


def in_journals(daemon: InProcessDaemon) -> set[tuple[str, int]]:
    """Return every decision on disk."""
    found = set()
    for journal in daemon.store.files.root.glob("*/journal.jsonl"):
        found |= {(journal.parent.name, orjson.loads(line)["seq"]) for line in journal.read_bytes().splitlines()}
    return found


async def test_an_event_describes_the_decision_in_camel_case_and_in_text(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    task = await submitted(client, daemon)
    first, second = await everything(client)
    assert (first["id"], first["event"], second["id"]) == ("1", "state_transition", "2")
    assert first["data"]["text"].startswith("submitted by ")
    data = second["data"]
    assert (data["task"], data["seq"], data["trigger"], data["from"], data["to"]) == (
        task,
        2,
        "TaskAdmitted",
        "pending",
        "in_progress",
    )
    assert set(data) == {
        *("number", "task", "seq", "timestamp", "type", "from", "to", "trigger", "text", "metadata"),
    }
    whole = (await everything(client, whole=True))[1]["data"]
    assert whole["change"]
    assert whole["event"]["at"]


def snake_case_in(value: object) -> set[str]:
    """Return the keys and paths of JSON that have an underscore."""
    if isinstance(value, list):
        return set().union(*map(snake_case_in, value))
    if not isinstance(value, dict):
        return set()
    paths = {str(value["path"])} if "op" in value else set()
    return {key for key in {*value, *paths} if "_" in key}.union(*map(snake_case_in, value.values()))


async def test_all_of_an_event_is_in_camel_case_but_what_people_named(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    task = await submitted(client, daemon, checks={"my_check": "true"})
    await client.post(f"/api/tasks/{task}/pause")
    await client.patch(f"/api/tasks/{task}", json={"caps": {"usd": 2}})
    streamed = [event["data"] for event in await everything(client, whole=True)]
    entries = (await client.get(f"/api/tasks/{task}/journal")).json()["entries"]
    assert [entry["change"] for entry in entries] == [event["change"] for event in streamed]
    full = daemon.definitions.pipelines["full"]
    assert snake_case_in([streamed, entries]) - {*full.stages, *full.budgets} == {"my_check", "unit_test"}


async def test_a_follower_gets_everything_new_and_nothing_old(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    first = await submitted(client, daemon)
    async with reading(client, "/api/events") as events, reading(client, f"/api/tasks/{first}/stream") as own:
        second = await submitted(client, daemon)
        await client.post(f"/api/tasks/{first}/cancel")
        heard = [await anext(events) for _ in range(3)]
        assert told(heard) == [(second, 1), (first, 3), (second, 2)]
        assert [event["id"] for event in heard] == ["3", "4", "5"]
        assert told([await anext(own)]) == [(first, 3)]


async def test_a_stream_continues_after_the_last_event_that_was_received(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    tasks = [await submitted(client, daemon) for _ in range(3)]
    every = await everything(client)
    assert [event["id"] for event in every] == ["1", "2", "3", "4"]
    assert await everything(client, last_id=2) == every[2:]
    assert await everything(client, begin=3) == every[3:]
    assert await everything(client, begin=-2) == every[2:]
    assert await everything(client, begin=-20) == every
    own = await everything(client, f"/api/tasks/{tasks[0]}/stream", last_id=1)
    assert (told(own), own[0]["id"]) == ([(tasks[0], 2)], "2")
    assert told(await everything(client, f"/api/tasks/{tasks[0]}/stream", begin=-1)) == [(tasks[0], 2)]


@pytest.mark.parametrize(("query", "number"), [("", b"2"), ("?from=1", b"1"), ("?from=-5", b"0")])
async def test_a_stream_first_states_the_number_after_which_it_starts(
    client: httpx.AsyncClient, daemon: InProcessDaemon, query: str, number: bytes
) -> None:
    task = await submitted(client, daemon)
    for path in ("/api/events", f"/api/tasks/{task}/stream"):
        async with client.stream("GET", path + query) as answer:
            assert (await anext(answer.aiter_bytes())).startswith(b"id: " + number + b"\n\n")


async def test_a_stream_starts_at_a_time(client: httpx.AsyncClient, daemon: InProcessDaemon) -> None:
    first = await submitted(client, daemon)
    await asyncio.sleep(0.002)  # events within one millisecond have one time
    between = clock.now()
    second = await submitted(client, daemon)
    await client.post(f"/api/tasks/{first}/cancel")
    params = {"since": between.isoformat(), "follow": False}
    async with reading(client, "/api/events", **params) as events:
        assert told([event async for event in events])[:2] == [(second, 1), (first, 3)]
    async with reading(client, f"/api/tasks/{first}/stream", **params) as events:
        assert told([event async for event in events]) == [(first, 3)]
    assert await everything(client, since="2999-01-01T00:00:00Z", begin=-1) != []


async def test_a_restart_loses_and_repeats_nothing(daemon: InProcessDaemon) -> None:
    heard: list[Json] = []
    ids = []
    for _ in range(3):
        async with serving(daemon) as client:
            ids.append(await submitted(client, daemon))
            heard += await everything(client, last_id=heard[-1]["id"] if heard else 0)
            await client.post(f"/api/tasks/{ids[0]}/cancel")
        daemon = await restarted(daemon)
    async with serving(daemon) as client:
        await daemon.inbox.settled()
        heard += await everything(client, last_id=heard[-1]["id"])
        assert heard == await everything(client)
    assert len(told(heard)) == len(set(told(heard)))
    assert set(told(heard)) == in_journals(daemon)
    assert [event["id"] for event in heard] == [str(number + 1) for number in range(len(heard))]
    daemon.store.close()


@pytest.mark.parametrize("lost", [1, 40, 90, 10_000])
async def test_events_missing_from_the_index_after_a_crash_are_added_at_its_end(
    daemon: InProcessDaemon, lost: int
) -> None:
    async with serving(daemon) as client:
        for _ in range(4):
            await submitted(client, daemon)
        before = await everything(client)
    index = daemon.settings.data_dir / INDEX
    os.truncate(index, max(0, index.stat().st_size - lost))
    anew = await restarted(daemon)
    async with serving(anew) as client:
        await anew.inbox.settled()
        after = await everything(client)
    kept = index.read_bytes().count(b"\n")
    assert kept == len(after)
    assert set(told(after)) == in_journals(anew)
    assert len(set(told(after))) == len(after)
    assert len(after) >= len(before)
    anew.store.close()


async def test_a_torn_line_of_a_journal_is_not_an_event(daemon: InProcessDaemon) -> None:
    async with serving(daemon) as client:
        task = await submitted(client, daemon)
    journal = daemon.store.files.path_of(task) / "journal.jsonl"
    with journal.open("ab") as file:
        file.write(b'{"seq": 3, "task_id": "')
    (daemon.settings.data_dir / INDEX).unlink()
    anew = await restarted(daemon)
    async with serving(anew) as client:
        await anew.inbox.settled()
        assert told(await everything(client)) == told(await everything(client, f"/api/tasks/{task}/stream"))
    anew.store.close()


async def test_ended_tasks_are_part_of_the_replay_and_lost_journals_are_reported(daemon: InProcessDaemon) -> None:
    async with serving(daemon) as client:
        first, second = await submitted(client, daemon), await submitted(client, daemon)
        await client.post(f"/api/tasks/{first}/cancel")
        assert (first, 3) in told(await everything(client))
        (daemon.store.files.path_of(first) / "journal.jsonl").rename(daemon.settings.data_dir / "elsewhere")
        events = await everything(client)
        gaps = [event for event in events if event["event"] == "gap"]
        assert [gap["id"] for gap in gaps] == ["1", "2", "4"]
        assert f"the journal of {first} has lost decision 1" in gaps[0]["data"]["reason"]
        assert {event["data"]["task"] for event in events if event not in gaps} == {second}
    daemon.store.close()


async def test_the_events_of_a_deleted_task_are_one_note_and_no_loss(daemon: InProcessDaemon) -> None:
    async with serving(daemon) as client:
        first, second = await submitted(client, daemon), await submitted(client, daemon)
        await client.post(f"/api/tasks/{first}/cancel")
        await daemon.inbox.settled()
        assert (await client.delete(f"/api/tasks/{first}")).status_code == 204
        events = await everything(client)
        (note,) = [event["data"] for event in events if event["event"] == "gap"]
        assert (note["reason"], note["deleted"]) == (f"{first} was deleted, and its events with it", True)
        assert render_event(GapView.model_validate(note)).plain == note["reason"]
        assert {event["data"]["task"] for event in events if event["event"] != "gap"} == {second}
    daemon.store.close()


async def test_damage_within_a_journal_is_a_gap_and_the_rest_is_reported(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    task = await submitted(client, daemon)
    for _ in range(2):
        await client.post(f"/api/tasks/{task}/pause")
        await client.post(f"/api/tasks/{task}/resume")
    journal = daemon.store.files.path_of(task) / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    lines[2] = b"?" * (len(lines[2]) - 1) + b"\n"
    lines[3] = orjson.dumps({"task_id": task, "seq": 4}).ljust(len(lines[3]) - 1) + b"\n"
    journal.write_bytes(b"".join(lines))
    for path in ("/api/events", f"/api/tasks/{task}/stream"):
        events = await everything(client, path)
        assert [event["id"] for event in events] == [str(number + 1) for number in range(len(lines))]
        assert [event["id"] for event in events if event["event"] == "gap"] == ["3", "4"]


async def test_an_event_that_does_not_exist_yet_is_reported_as_a_gap(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    await submitted(client, daemon)
    (gap,) = await everything(client, last_id=500)
    assert (gap["event"], gap["id"]) == ("gap", "2")
    assert "no event 500 yet" in gap["data"]["reason"]


@pytest.mark.parametrize("path", ["/api/events", "/api/tasks/{task}/stream"])
async def test_a_slow_reader_misses_nothing_and_delays_nobody(
    client: httpx.AsyncClient, daemon: InProcessDaemon, path: str
) -> None:
    task = await submitted(client, daemon)
    path = path.format(task=task)
    async with reading(client, path, **{"from": 0, "whole": True}) as events:
        first = await anext(events)
        for _ in range(100):
            for action in ("pause", "resume"):
                assert (await client.post(f"/api/tasks/{task}/{action}")).status_code == 200
        rest = [await anext(events) for _ in range(201)]
    assert [event["id"] for event in (first, *rest)] == [str(number + 1) for number in range(202)]


async def test_fifty_readers_get_the_same_and_leave_nothing_behind(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    task = await submitted(client, daemon)
    await everything(client)
    idle = descriptors(), len(asyncio.all_tasks())

    async def heard() -> list[Json]:
        async with (
            httpx.AsyncClient(transport=over(daemon), base_url="http://orchestrator", timeout=PATIENCE) as own,
            reading(own, "/api/events", **{"from": 0}) as events,
        ):
            begun.release()
            return [await anext(events) for _ in range(6)]

    begun = asyncio.Semaphore(0)
    readers = [asyncio.create_task(heard()) for _ in range(50)]
    for _ in readers:
        await begun.acquire()
    for action in ("pause", "resume", "pause", "resume"):
        await client.post(f"/api/tasks/{task}/{action}")
    every = await asyncio.gather(*readers)
    assert all(one == every[0] for one in every)
    await settled_at(idle)


async def test_readers_that_disconnect_leave_nothing_behind(
    client: httpx.AsyncClient, daemon: InProcessDaemon, capsys: pytest.CaptureFixture[str]
) -> None:
    await submitted(client, daemon)
    await everything(client)
    idle = descriptors(), len(asyncio.all_tasks())
    writers = []
    for number in range(20):
        reader, writer = await asyncio.open_unix_connection(daemon.settings.socket)
        path = "/api/events" if number % 2 else "/api/events?from=0"
        writer.write(f"GET {path} HTTP/1.1\r\nHost: orchestrator\r\n\r\n".encode())
        assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
        writers.append(writer)
    for writer in writers:
        writer.transport.abort()
    await settled_at(idle)
    assert "request_failed" not in capsys.readouterr().out


async def test_streams_end_with_the_daemon_and_deliver_everything_first(daemon: InProcessDaemon) -> None:
    async with AsyncExitStack() as stack:
        async with serving(daemon) as client:
            task = await submitted(client, daemon)
            own = httpx.AsyncClient(transport=over(daemon), base_url="http://orchestrator", timeout=PATIENCE)
            events = await stack.enter_async_context(reading(await stack.enter_async_context(own), "/api/events"))
            await client.post(f"/api/tasks/{task}/cancel")
        assert told([event async for event in events]) == [(task, 3)]
    daemon.store.close()


async def fill(daemon: InProcessDaemon, task: str, size: int) -> None:
    """Have as many bytes of events decided."""
    until = daemon.store.events.written + size
    while daemon.store.events.written < until:
        daemon.inbox.post(task, ForeignEditFound(at=clock.now(), kept_as="x" * 20_000))
        await daemon.inbox.settled()


async def cut_off(idle: socket.socket, client: httpx.AsyncClient, daemon: InProcessDaemon, task: str) -> list[Json]:
    """Have things happen until a reader that takes nothing is cut off; return what another one received meanwhile."""
    decided = daemon.store.events
    await asyncio.to_thread(is_readable, idle)
    began = decided.written
    async with reading(client, "/api/events", **{"from": 0}) as attentive:
        received = [await anext(attentive)]
        while not is_closed(idle):
            assert decided.written - began < 20 * MOST_UNSENT
            await fill(daemon, task, MOST_UNSENT // 4)
            while int(received[-1]["id"]) < decided.last:
                received.append(await anext(attentive))
    assert decided.written - began > MOST_UNSENT
    return received


async def test_a_reader_that_never_reads_is_cut_off_by_a_mebibyte_of_events_and_misses_nothing_afterwards(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    task = await submitted(client, daemon)
    decided = daemon.store.events
    with socket.socket(socket.AF_UNIX) as idle:
        idle.connect(str(daemon.settings.socket))
        idle.sendall(b"GET /api/events?from=0&whole=true HTTP/1.1\r\nHost: orchestrator\r\n\r\n")
        received = await cut_off(idle, client, daemon, task)
        ids = [int(found) for found in re.findall(rb"(?m)^id: (\d+)$", await asyncio.to_thread(everything_in, idle))]
    assert [int(event["id"]) for event in received] == list(range(1, decided.last + 1))
    *whole, _ = ids[1:]  # the last one may have been cut
    assert whole == list(range(1, len(whole) + 1))
    rest = await everything(client, last_id=whole[-1])
    assert [int(event["id"]) for event in rest] == list(range(whole[-1] + 1, decided.last + 1))


async def test_a_reader_over_tcp_that_never_reads_is_cut_off_too_and_misses_nothing_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("ORCHESTRATOR_LISTEN", "127.0.0.1:0")
    repository(tmp_path / "repo")
    daemon = create_daemon(tmp_path / "data")
    async with serving(daemon) as client:
        task = await submitted(client, daemon)
        token = (await client.post("/api/tokens", json={"name": "idle", "scope": "view"})).json()["token"]
        url = httpx.URL((await client.post("/api/links", json={})).json()["url"])
        with socket.create_connection((url.host, url.port)) as idle:
            head = f"Host: {url.host}:{url.port}\r\nAuthorization: Bearer {token}\r\n\r\n"
            idle.sendall(f"GET /api/events?from=0&whole=true HTTP/1.1\r\n{head}".encode())
            received = await cut_off(idle, client, daemon, task)
            got = await asyncio.to_thread(everything_in, idle)
        ids = [int(found) for found in re.findall(rb"(?m)^id: (\d+)$", got)]
        assert [int(event["id"]) for event in received] == list(range(1, daemon.store.events.last + 1))
        last = ids[-2] if len(ids) > 1 else 0  # the last one may have been cut
        rest = await everything(client, last_id=last)
        assert [int(event["id"]) for event in rest] == list(range(last + 1, daemon.store.events.last + 1))
    daemon.store.close()


async def test_a_stream_of_some_tasks_has_their_events_under_the_same_numbers(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    first, second, third = [await submitted(client, daemon, ticket=f"ABC-{number}") for number in range(3)]
    for task in (first, second, third, second):
        await client.post(f"/api/tasks/{task}/pause")
        await client.post(f"/api/tasks/{task}/resume")
    both = await everything(client, task=["ABC-0", third])
    every = await everything(client)
    assert both == [event for event in every if event["data"]["task"] in {first, third}]
    assert {event["data"]["task"] for event in both} == {first, third}
    rest = await everything(client, task=[third], last_id=both[-2]["id"])
    assert rest == both[-1:] or not rest
    assert (await client.get("/api/events", params={"task": "made-up"})).status_code == 404


def is_readable(connection: socket.socket) -> bool:
    """Wait until something can be read."""
    return bool(select.select([connection], [], [], PATIENCE)[0])


def is_closed(connection: socket.socket) -> bool:
    """Whether the other side has closed a connection, without reading from it."""
    poll = select.poll()
    poll.register(connection, 0)
    return any(event & select.POLLHUP for _, event in poll.poll(0))


def everything_in(connection: socket.socket) -> bytes:
    """Return what is left in a connection that the other side has closed."""
    pieces = list[bytes]()
    with suppress(ConnectionResetError):
        while piece := connection.recv(65536):
            pieces.append(piece)
    return b"".join(pieces)


@pytest.mark.slow
async def test_an_idle_stream_sends_keep_alive_comments(client: httpx.AsyncClient, daemon: InProcessDaemon) -> None:
    own = httpx.AsyncClient(transport=over(daemon), base_url="http://orchestrator", timeout=2 * HEARTBEAT)
    async with own, own.stream("GET", "/api/events") as answer:
        pieces = answer.aiter_bytes()
        assert [await anext(pieces), await anext(pieces)] == [b"id: 0\n\n", b": ping\n\n"]
        task = await submitted(client, daemon)
        assert task.encode() in await anext(pieces)


async def test_no_secret_leaves_with_an_event(client: httpx.AsyncClient, daemon: InProcessDaemon) -> None:
    task = await submitted(client, daemon)
    said = ForeignEditFound(at=clock.now(), kept_as=SECRET)
    daemon.inbox.post(task, said)
    await client.post(f"/api/tasks/{task}/pause")
    for path in ("/api/events", f"/api/tasks/{task}/stream"):
        events = await everything(client, path, whole=True)
        assert SECRET not in json.dumps(events)
        assert events[2]["data"]["text"].endswith("[REDACTED:aws_access_key]")
        assert events[2]["data"]["event"]["keptAs"] == "[REDACTED:aws_access_key]"


@pytest.mark.parametrize("query", ["from=x", "from=99999999999999999999", "since=noon", "since=5", "colour=blue"])
async def test_an_invalid_stream_request_is_refused(client: httpx.AsyncClient, query: str) -> None:
    assert (await client.get(f"/api/events?{query}")).status_code == 400
    assert (await client.get("/api/tasks/nobody/stream")).status_code == 404


async def test_an_index_that_lost_its_start_reports_it(client: httpx.AsyncClient, daemon: InProcessDaemon) -> None:
    for _ in range(3):
        await submitted(client, daemon)
    index = daemon.settings.data_dir / INDEX
    lines = index.read_bytes().splitlines(keepends=True)
    index.write_bytes(b"".join(lines[2:]))
    events = await everything(client)
    assert [(event["event"] == "gap", event["id"]) for event in events] == [(True, "2"), (False, "3"), (False, "4")]


async def test_foreign_folders_are_not_tasks(client: httpx.AsyncClient, daemon: InProcessDaemon) -> None:
    task = await submitted(client, daemon)
    journal = (daemon.store.files.path_of(task) / "journal.jsonl").read_bytes()
    for name in ("copy of it", "copy", os.fsdecode(b"\xff"), "new\nline"):
        (daemon.store.files.root / name).mkdir()
        (daemon.store.files.root / name / "journal.jsonl").write_bytes(journal)
    (daemon.store.files.root / "file").write_text("")
    index = daemon.settings.data_dir / INDEX
    before = index.read_bytes()
    index.unlink()
    assert EventIndex(daemon.settings.data_dir, daemon.store.files.root).last == 2
    assert index.read_bytes() == before


def test_an_index_that_is_not_a_file_is_refused_with_instructions(tmp_path: Path) -> None:
    (tmp_path / "tasks").mkdir()
    (tmp_path / INDEX).mkdir()
    with pytest.raises(UnfitIndex, match="move it away"):
        EventIndex(tmp_path, tmp_path / "tasks")


async def test_the_overview_shows_which_tasks_work_which_wait_and_why(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    first, second = await submitted(client, daemon), await submitted(client, daemon, title=f"use {SECRET}")
    seen = (await client.get("/api/overview")).json()
    assert [task["id"] for task in seen["tasks"]] == [first, second]
    assert (seen["placesTaken"], seen["waiting"], seen["more"]) == (1, 1, 0)
    assert "1 of 1 slots are taken" in seen["tasks"][1]["why"]
    assert SECRET not in seen["tasks"][1]["title"]
    assert (await client.get("/api/overview", params={"limit": 1})).json()["more"] == 1


def over(daemon: InProcessDaemon) -> httpx.AsyncHTTPTransport:
    return httpx.AsyncHTTPTransport(uds=str(daemon.settings.socket))


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names alone


async def settled_at(idle: tuple[int, int]) -> None:
    """Wait until no more descriptors are open and no more tasks run than before."""
    async with asyncio.timeout(PATIENCE):
        while descriptors() > idle[0] or len(asyncio.all_tasks()) > idle[1]:  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.01)
