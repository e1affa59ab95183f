"""Finding tasks among many: by words, pipeline, stage, ticket and parent, live ones and ended ones alike."""

import httpx

from orchestrator.daemon.services.tasks import TaskQuery
from tests.fakes.in_process_daemon import InProcessDaemon, create_daemon, serving


async def submitted(client: httpx.AsyncClient, daemon: InProcessDaemon, text: str, **more: object) -> str:
    body = {"text": text, "repo": str(daemon.settings.data_dir.parent / "repo"), "draft": True, **more}
    answer = await client.post("/api/tasks", json=body)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


async def found(client: httpx.AsyncClient, **wanted: str | list[str]) -> list[str]:
    answer = await client.get("/api/tasks", params=wanted)
    assert answer.status_code == 200, answer.text
    return [task["title"] for task in answer.json()["tasks"]]


async def test_every_word_of_a_search_occurs_in_the_title_the_ticket_or_the_id(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    task = await submitted(client, daemon, "Repair the Login page", ticket="ABC-7")
    await submitted(client, daemon, "Straße fegen", ticket="ABC-71")
    for words in ("login", "PAGE login", "abc-7 page", task, "  repair "):
        assert await found(client, text=words) == ["Repair the Login page"], words
    assert await found(client, text="abc-7") == ["Straße fegen", "Repair the Login page"]
    assert await found(client, text="STRASSE") == ["Straße fegen"]
    assert await found(client, text="login fegen") == []


async def test_filters_are_combined(client: httpx.AsyncClient, daemon: InProcessDaemon) -> None:
    await submitted(client, daemon, "One", ticket="ABC-1", pipeline="review_only")
    await submitted(client, daemon, "Two", ticket="ABC-2", pipeline="custom")
    gone = await submitted(client, daemon, "Three", ticket="ABC-3", pipeline="custom")
    await client.post(f"/api/tasks/{gone}/cancel")
    assert await found(client, pipeline="custom") == ["Three", "Two"]
    assert await found(client, pipeline="custom", status="cancelled") == ["Three"]
    assert await found(client, status=["cancelled", "draft"]) == ["Three", "Two", "One"]
    assert await found(client, ticket="ABC-1") == ["One"]
    assert await found(client, ticket="ABC") == []
    assert await found(client, parent="ABC-1") == []
    stage = (await client.get(f"/api/tasks/{gone}")).json()["stage"]
    assert await found(client, stage=stage, pipeline="custom") == ["Three", "Two"]
    repo = str(daemon.settings.data_dir.parent / "repo")
    assert await found(client, repo=repo, text="t") == ["Three", "Two"]


async def test_tasks_that_ended_before_the_daemon_started_are_found_likewise(
    daemon: InProcessDaemon,
) -> None:
    async with serving(daemon) as client:
        ended = await submitted(client, daemon, "Long ago", ticket="ABC-9", pipeline="review_only")
        await client.post(f"/api/tasks/{ended}/cancel")
    daemon.store.close()
    later = create_daemon(daemon.settings.data_dir)
    try:
        for query in (
            TaskQuery(text="ago abc-9"),
            TaskQuery(pipeline="review_only"),
            TaskQuery(ticket="ABC-9"),
            TaskQuery(repo=daemon.settings.data_dir.parent / "repo"),
        ):
            (line,) = (await later.service.tasks.list(query)).tasks
            assert (line.id, line.pipeline, line.parent) == (ended, "review_only", None)
        assert (await later.service.tasks.list(TaskQuery(pipeline="custom"))).tasks == ()
    finally:
        later.store.close()


async def test_a_search_that_is_too_long_is_refused(client: httpx.AsyncClient) -> None:
    answer = await client.get("/api/tasks", params={"text": "x" * 201})
    assert answer.status_code == 400
    assert answer.json()["detail"].startswith("text: ")
