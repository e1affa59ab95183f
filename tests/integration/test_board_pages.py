"""The board and the list as pages: what they show, how they are narrowed, paged, and followed."""

import re
from html import unescape

import httpx

from tests.fakes.in_process_daemon import InProcessDaemon


async def drafted(client: httpx.AsyncClient, daemon: InProcessDaemon, text: str, **more: object) -> str:
    body = {"text": text, "repo": str(daemon.settings.data_dir.parent / "repo"), "draft": True, **more}
    answer = await client.post("/api/tasks", json=body)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


async def page(client: httpx.AsyncClient, path: str, **wanted: str) -> str:
    answer = await client.get(path, params=wanted or None)
    assert answer.status_code == 200, answer.text
    return answer.text


def items(text: str) -> list[str]:
    return [unescape(one) for one in re.findall(r'data-item="([^"]*)"', text)]


def columns(text: str) -> dict[str, int]:
    found = re.findall(r'data-column="([^"]*)".*?data-count>(\d+)<', text, re.DOTALL)
    return {name: int(count) for name, count in found}


async def test_the_board_has_a_column_for_each_status_and_its_parts_are_the_same(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    ids = [await drafted(client, daemon, f"<b>{n}</b>", ticket=f"ABC-{n}") for n in range(3)]
    await client.post(f"/api/tasks/{ids[1]}/cancel")
    text = await page(client, "/board")
    assert {name: count for name, count in columns(text).items() if count} == {"draft": 2, "cancelled": 1}
    assert items(text) == [ids[0], ids[2], ids[1]]
    assert "&lt;b&gt;0&lt;/b&gt;" in text
    assert "<b>0</b>" not in text
    part = await page(client, "/board/columns")
    assert part.strip() in text
    assert 'hx-get="/board/columns?"' in part


async def test_the_board_by_stage_shows_the_stages_of_one_pipeline(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    await drafted(client, daemon, "one", pipeline="review_only")
    text = await page(client, "/board", by="stage")
    assert list(columns(text)) == [*daemon.definitions.pipelines["review_only"].stages, "ended"]
    assert "<option selected>review_only</option>" in text
    assert list(columns(await page(client, "/board", by="stage", pipeline="custom"))) == [
        *daemon.definitions.pipelines["custom"].stages,
        "ended",
    ]


async def test_a_column_says_how_many_more_there_are_and_leads_to_them(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    for number in range(23):
        await drafted(client, daemon, f"many {number}")
    text = await page(client, "/board", text="many")
    assert len(items(text)) == 20
    (more,) = re.findall(r'<a href="([^"]*)">3 more</a>', text)
    assert len(items(await page(client, unescape(more)))) == 23


async def test_the_list_is_narrowed_by_its_form_which_keeps_what_was_chosen(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    one = await drafted(client, daemon, "Repair the login", pipeline="custom")
    two = await drafted(client, daemon, "Say hello", pipeline="review_only")
    nothing = {"text": "", "status": "", "pipeline": "", "repo": ""}  # what the form sends
    assert items(await page(client, "/tasks", **nothing)) == [two, one]
    text = await page(client, "/tasks", **{**nothing, "text": "LOGIN", "pipeline": "custom", "status": "draft"})
    assert items(text) == [one]
    assert 'value="LOGIN"' in text
    assert '<option value="draft" selected>' in text
    assert items(await page(client, "/tasks", **{**nothing, "status": "failed"})) == []
    assert "No task fits" in await page(client, "/tasks", text='"><script>')
    assert (await client.get("/tasks", params={"status": "made-up"})).status_code == 400


async def test_archived_tasks_are_shown_when_asked_for(client: httpx.AsyncClient, daemon: InProcessDaemon) -> None:
    task = await drafted(client, daemon, "one")
    for verb in ("cancel", "archive"):
        assert (await client.post(f"/api/tasks/{task}/{verb}")).status_code == 200
    for path in ("/tasks", "/board"):
        assert items(await page(client, path)) == []
        text = await page(client, path, all="true", text="")
        assert items(text) == [task]
        assert 'name="all" value="true" checked' in text


async def test_the_list_leads_to_older_tasks_and_back(client: httpx.AsyncClient, daemon: InProcessDaemon) -> None:
    ids = [await drafted(client, daemon, f"number {n}") for n in range(101)][::-1]
    first = await page(client, "/tasks", text="number")
    assert items(first) == ids[:100]
    (older,) = re.findall(r'rel="next" href="([^"]*)"', first)
    second = await page(client, unescape(older))
    assert items(second) == ids[100:]
    assert 'rel="next"' not in second
    assert "/tasks?text=number" in second


async def test_a_picked_task_is_sent_with_the_form_below_the_list(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    task = await drafted(client, daemon, "one")
    for path in ("/tasks", "/board"):
        text = await page(client, path)
        assert re.search(rf'<input type="checkbox" form="batch" name="task" value="{task}"', text)
        assert '<form id="batch"' in text


async def test_what_is_done_with_picked_tasks_is_answered_for_each(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    ids = [await drafted(client, daemon, f"number {n}") for n in range(3)]
    await client.post(f"/api/tasks/{ids[2]}/cancel")
    picked = {"task": [*ids[1:], "LOCAL-20010101_000000"], "verb": "submit"}
    part = (await client.post("/tasks/batch", data=picked, headers={"HX-Request": "true"})).text
    assert re.findall(r'data-done="(\d+)"', part) == ["1"]
    assert re.findall(r'data-refused="([^"]*)"', part) == picked["task"][1:]
    assert "<html" not in part
    statuses = [(await client.get(f"/api/tasks/{one}")).json()["status"] for one in ids]
    assert (statuses[0], statuses[2], statuses[1] in {"pending", "in_progress"}) == ("draft", "cancelled", True)
    whole = await client.post("/tasks/batch", data={"task": ids[0], "verb": "cancel", "next": "/board"})
    assert (whole.status_code, 'data-done="1"' in whole.text, 'href="/board"' in whole.text) == (200, True, True)
    assert (await client.get(f"/api/tasks/{ids[0]}")).json()["status"] == "cancelled"


async def test_a_batch_needs_a_known_verb_and_a_task(client: httpx.AsyncClient) -> None:
    for verb, status in (("explode", 400), ("delete", 404)):
        assert (await client.post("/tasks/batch", data={"verb": verb, "task": "x"})).status_code == status
    answer = await client.post("/tasks/batch", data={"verb": "pause"})
    assert (answer.status_code, "no task is picked" in answer.text) == (422, True)


async def test_a_part_that_several_readers_share_is_the_same_for_each_whether_compressed_or_not(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    for number in range(5):
        await drafted(client, daemon, f"number {number}")
    answers = [
        await client.get("/board/columns", headers={"HX-Request": "true", "Accept-Encoding": encoding})
        for encoding in ("gzip", "gzip", "identity", "gzip")
    ]
    assert len({answer.text for answer in answers}) == 1
    assert [answer.headers.get("content-encoding") for answer in answers] == ["gzip", "gzip", None, "gzip"]


async def test_before_the_first_task_both_say_so(client: httpx.AsyncClient) -> None:
    assert "There are no tasks yet" in await page(client, "/tasks")
    assert set(columns(await page(client, "/board")).values()) == {0}
