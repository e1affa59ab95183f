"""Several tasks at once, one that goes on whatever keeps it, and the merge of one, over the API."""

from typing import Any

import httpx
import pytest

from orchestrator.core.task.user_requests import RequestDraft, Subject
from orchestrator.daemon.access.verbs import MOST_NAMES
from tests.fakes.in_process_daemon import InProcessDaemon

Json = dict[str, Any]


async def submitted(client: httpx.AsyncClient, daemon: InProcessDaemon, ticket: str, **more: object) -> str:
    repo = str(daemon.settings.data_dir.parent / "repo")
    answer = await client.post("/api/tasks", json={"text": "Say hello", "repo": repo, "ticket": ticket, **more})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


async def batch(client: httpx.AsyncClient, verb: str, *tasks: str, **more: object) -> Json:
    answer = await client.post("/api/tasks/batch", json={"verb": verb, "tasks": tasks, **more})
    assert answer.status_code == 200, answer.text
    found: Json = answer.json()
    return found


async def test_each_task_of_a_batch_is_answered_for_itself_in_the_order_of_the_names(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    ids = [await submitted(client, daemon, f"ABC-{number}") for number in range(3)]
    await client.post("/api/tasks/ABC-1/cancel")
    found = await batch(client, "pause", "ABC-2", "made-up", "ABC-1", ids[0])
    statuses = [(one["name"], one["status"]) for one in found["results"]]
    assert statuses == [("ABC-2", 200), ("made-up", 404), ("ABC-1", 409), (ids[0], 200)]
    assert (found["done"], found["refused"]) == (2, 2)
    assert [one["task"]["paused"] for one in found["results"] if one["task"]] == [True, True]
    kinds = [one["problem"]["type"].rpartition(":")[2] for one in found["results"] if one["problem"]]
    assert kinds == ["no-such-task", "not-allowed"]
    assert found["results"][2]["problem"]["allowed"] == ["archive", "delete"]
    resumed = await batch(client, "resume", *ids)
    assert [one["status"] for one in resumed["results"]] == [200, 409, 200]


async def test_two_names_of_one_task_are_taken_one_after_the_other(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    task = await submitted(client, daemon, "ABC-1")
    await client.post(f"/api/tasks/{task}/cancel")
    found = await batch(client, "archive", "ABC-1", task)
    assert [one["status"] for one in found["results"]] == [200, 409]
    deleted = await batch(client, "delete", task, task)
    assert [(one["status"], one["task"]) for one in deleted["results"]] == [(204, None), (404, None)]


async def test_a_batch_approves_and_changes(client: httpx.AsyncClient, daemon: InProcessDaemon) -> None:
    task = await submitted(client, daemon, "ABC-1", autonomy="interactive")
    other = await submitted(client, daemon, "ABC-2")
    await daemon.let_ask(task, RequestDraft(subject=Subject.STAGE, text="DESIGN is done", name="DESIGN"))
    found = await batch(client, "approve", task, other)
    assert [one["status"] for one in found["results"]] == [200, 409], found
    (review,) = (await client.get("/api/reviews", params={"status": "all"})).json()["requests"]
    assert review["status"] == "approved"
    changed = await batch(client, "change", task, other, priority="critical")
    assert [one["task"]["priority"] for one in changed["results"]] == ["critical", "critical"]


async def test_a_batch_sets_caps_and_leaves_those_that_it_does_not_name(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    tasks = [await submitted(client, daemon, f"ABC-{number}", usd=3.0) for number in range(2)]
    found = await batch(client, "change", *tasks, caps={"turns": 7})
    assert [one["status"] for one in found["results"]] == [200, 200]
    caps = [(await client.get(f"/api/tasks/{task}")).json()["caps"] for task in tasks]
    assert [(one["usd"], one["turns"], one["tokens"]) for one in caps] == [(3.0, 7, None)] * 2


async def test_a_batch_under_one_key_is_done_once(client: httpx.AsyncClient, daemon: InProcessDaemon) -> None:
    await submitted(client, daemon, "ABC-1")
    body = {"verb": "cancel", "tasks": ["ABC-1"]}
    first, second = [
        await client.post("/api/tasks/batch", json=body, headers={"Idempotency-Key": "night"}) for _ in range(2)
    ]
    assert (first.status_code, first.json()) == (200, second.json())


@pytest.mark.parametrize(
    "body",
    [
        {"verb": "pause", "tasks": []},
        {"verb": "explode", "tasks": ["ABC-1"]},
        {"verb": "pause", "tasks": ["ABC-1"] * (MOST_NAMES + 1)},
        {"verb": "pause"},
    ],
)
async def test_a_batch_that_says_nothing_possible_is_malformed(client: httpx.AsyncClient, body: Json) -> None:
    answer = await client.post("/api/tasks/batch", json=body)
    assert (answer.status_code, answer.json()["type"]) == (400, "urn:orchestrator:problem:malformed")


async def test_execute_has_a_task_go_on_whatever_keeps_it(client: httpx.AsyncClient, daemon: InProcessDaemon) -> None:
    first = await submitted(client, daemon, "ABC-1")
    await client.post(f"/api/tasks/{first}/pause")
    going_on = (await client.post(f"/api/tasks/{first}/execute")).json()
    assert (going_on["status"], going_on["agent"]["blockedBy"]) == ("in_progress", None)
    await daemon.inbox.settled()
    assert not daemon.supervisor.tasks[first].is_paused
    draft = await submitted(client, daemon, "ABC-2", draft=True)
    assert (await client.post(f"/api/tasks/{draft}/execute")).json()["status"] == "pending"
    assert (await client.post(f"/api/tasks/{draft}/execute")).json()["status"] == "pending"
    await client.post(f"/api/tasks/{first}/cancel")
    ended = await client.post(f"/api/tasks/{first}/execute")
    assert (ended.status_code, ended.json()["allowed"]) == (409, ["archive", "delete"])


async def test_merge_approves_the_merge_that_a_task_waits_for_and_nothing_else(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    task = await submitted(client, daemon, "ABC-1", autonomy="interactive")
    await daemon.let_ask(task, RequestDraft(subject=Subject.STAGE, text="DESIGN is done", name="DESIGN"))
    refused = await client.post(f"/api/tasks/{task}/merge")
    assert (refused.status_code, refused.json()["type"]) == (409, "urn:orchestrator:problem:not-allowed")
    await daemon.let_ask(task, RequestDraft(subject=Subject.MERGE, text="Merge it?", name="MERGE"))
    assert (await client.post(f"/api/tasks/{task}/merge")).status_code == 200
    reviews = (await client.get("/api/reviews", params={"status": "all"})).json()["requests"]
    assert [(one["subject"], one["status"]) for one in reviews] == [("stage", "pending"), ("merge", "approved")]
