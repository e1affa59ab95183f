"""Windows of transcripts over a real socket: forward, backward, by kind, by text, with edits and results."""

import time
import tracemalloc
from pathlib import Path
from typing import Any

import httpx
import orjson

from orchestrator.daemon.history.transcript_lines import PIECE, lines_after, lines_before
from orchestrator.daemon.history.transcript_windows import WindowQuery
from orchestrator.processes.output import RunOutput, end_of
from tests.fakes.in_process_daemon import InProcessDaemon
from tests.fakes.seeded_texts import FIRST_ERROR, NEEDLE, Words, transcript

SECRET = "AKIA" + "ABCDEFGHIJKLMNOP"
MB = 1024 * 1024


def said(text: str) -> bytes:
    content = [{"type": "text", "text": text}]
    return orjson.dumps({"type": "assistant", "message": {"content": content}}) + b"\n"


def called(name: str, given: object) -> bytes:
    content = [{"type": "tool_use", "id": "t1", "name": name, "input": given}]
    return orjson.dumps({"type": "assistant", "message": {"content": content}}) + b"\n"


def returned(content: object, *, failed: bool = False) -> bytes:
    block = {"type": "tool_result", "tool_use_id": "t1", "content": content, "is_error": failed}
    return orjson.dumps({"type": "user", "message": {"content": [block]}}) + b"\n"


async def written(client: httpx.AsyncClient, daemon: InProcessDaemon, *parts: bytes) -> str:
    """Submit a task whose first agent wrote this; return the address of its entries."""
    repo = str(daemon.settings.data_dir.parent / "repo")
    task_id = (await client.post("/api/tasks", json={"text": "Do it", "repo": repo})).json()["id"]
    folder = daemon.store.files.path_of(task_id) / "agents/1"
    folder.mkdir(parents=True)
    with (folder / "stdout.jsonl").open("wb") as output:
        output.writelines(parts)
    return f"/api/tasks/{task_id}/agents/1/entries"


async def window(client: httpx.AsyncClient, url: str, **params: object) -> dict[str, Any]:
    answer = await client.get(url, params=params)  # type: ignore[arg-type]  # plain values
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def texts(found: dict[str, Any]) -> list[str]:
    return [entry["text"] for entry in found["entries"]]


async def test_reading_forward_and_backward_meets_every_entry_once(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    everything = [str(number) for number in range(25)]
    url = await written(client, daemon, *map(said, everything))
    forward: list[str] = []
    at, more = 0, True
    while more:
        found = await window(client, url, at=at, limit=10)
        forward += texts(found)
        at, more = found["end"], found["more"]
    assert forward == everything
    backward: list[str] = []
    found = await window(client, url, backward=True, limit=10)
    while True:
        backward = texts(found) + backward
        if not found["more"]:
            break
        found = await window(client, url, backward=True, limit=10, at=found["begin"])
    assert backward == everything


async def test_an_offset_amid_a_line_means_the_next_line(client: httpx.AsyncClient, daemon: InProcessDaemon) -> None:
    url = await written(client, daemon, said("first"), said("second"), b'{"half')
    assert texts(await window(client, url, at=3)) == ["second"]
    assert texts(await window(client, url, at=len(said("first")))) == ["second"]
    assert texts(await window(client, url, at=10**9)) == []
    assert texts(await window(client, url, backward=True)) == ["first", "second"]


async def test_calls_come_with_their_edits_and_inputs_and_results_whole(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    edit = {"file_path": "/w/a.py", "old_string": "old", "new_string": f"new {SECRET}"}
    several = {
        "file_path": "/w/b.py",
        "edits": [{"old_string": "1", "new_string": "2"}, {"old_string": "3", "new_string": ""}],
    }
    url = await written(
        client,
        daemon,
        called("Edit", edit),
        returned([{"type": "text", "text": "line\n" * 100}, {"type": "image"}]),
        called("MultiEdit", several),
        called("Write", {"file_path": "/w/c.py", "content": "whole"}),
        called("Bash", {"command": "ls\npwd", "description": "look"}),
        called("Odd", {"file_path": ["x"], "deep": {"a": 1}}),
        returned("no\n", failed=True),
        returned(None),
    )
    entries = (await window(client, url))["entries"]
    assert entries[0]["call"]["edits"] == [
        {"path": "/w/a.py", "old": "old", "new": "new [REDACTED:aws_access_key]", "cut": False}
    ]
    assert entries[1]["result"] == {"text": "line\n" * 100 + "\n[image]", "ok": True, "cut": False}
    assert [(one["old"], one["new"]) for one in entries[2]["call"]["edits"]] == [("1", "2"), ("3", "")]
    assert entries[3]["call"]["edits"][0]["new"] == "whole"
    assert entries[4]["call"]["input"] == "ls\npwd"
    assert '"deep"' in entries[5]["call"]["input"]
    assert [entry["kind"] for entry in entries] == ["tool", "result", "tool", "tool", "tool", "tool", "error", "result"]


async def test_a_search_finds_what_is_shown_and_nothing_that_is_masked(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    url = await written(
        client, daemon, said(f"The Key is {SECRET}"), said("other"), returned("the KEY failed", failed=True)
    )
    assert texts(await window(client, url, text="key")) == ["The Key is [REDACTED:aws_access_key]", "the KEY failed"]
    assert texts(await window(client, url, text="key", kind="error")) == ["the KEY failed"]
    assert texts(await window(client, url, text=SECRET[:8])) == []
    assert len(texts(await window(client, url, text="[redacted"))) == 1
    assert (await client.get(url, params={"limit": 501})).status_code == 400


async def test_lines_longer_than_a_piece_are_passed_over_and_told(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    url = await written(client, daemon, said("a"), said("x" * (3 * PIECE)), said("b"))
    for params in ({}, {"backward": True}):
        found = texts(await window(client, url, **params))
        assert (found[0], found[-1], len(found)) == ("a", "b", 3)
        assert "longer than" in found[1]


def test_lines_are_the_same_backward_as_forward_across_rotated_files(tmp_path: Path) -> None:
    rows = [(b"%d " % number) * (number % 400) + b"\n" for number in range(1, 5000)]
    whole = b"".join(rows)
    split = len(b"".join(rows[:2000]))
    (tmp_path / "stdout.0.jsonl").write_bytes(whole[:split])
    (tmp_path / "stdout.jsonl").write_bytes(whole[split:])
    output = RunOutput(tmp_path)
    assert end_of(tmp_path) == len(whole)
    forward = list(lines_after(output, 0))
    assert [(line.body or b"") + b"\n" for line in forward] == [row for row in rows if row != b"\n"]
    backward = list(lines_before(output, len(whole), len(whole)))
    assert backward[::-1] == forward


async def test_a_window_of_fifty_megabytes_is_quick_and_small_in_memory(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    url = await written(client, daemon, *transcript(50 * MB, Words()))
    task_id = url.split("/")[3]
    service = daemon.service.history.windows
    tracemalloc.start()
    try:
        for query in (
            WindowQuery(backward=True, limit=500),
            WindowQuery(at=25 * MB, limit=500),
            WindowQuery(at=0, text="nowhere to be found"),
        ):
            await service.window(task_id, 1, query)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 60 * MB
    found, at, requests, begun = None, 0, 0, time.monotonic()
    while not found:
        page = await window(client, url, at=at, text=NEEDLE)
        found, at, requests = page["entries"], page["end"], requests + 1
    assert (requests <= 5, time.monotonic() - begun < 30) == (True, True)
    error = await window(client, url, at=0, kind="error", limit=1)
    assert FIRST_ERROR in error["entries"][0]["result"]["text"]
