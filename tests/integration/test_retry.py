"""`retry` of a failed task: a new task with the same ticket and options, over the real API."""

import json
from typing import Any

import httpx
import pytest

from orchestrator import clock
from orchestrator.core.events.agent_messages import AgentError, Recovery
from orchestrator.core.events.events import AgentSaid
from orchestrator.core.task.task import TaskStatus
from tests.fakes.in_process_daemon import InProcessDaemon
from tests.unit.pipelines.families.issues.test_batches_solution import solution

TICKET = (
    "---\nkey: ABC-7\npriority: high\nlabels: [slow]\n---\n# Say hello\n\n## Type: bugfix\n\nSay hello to everybody.\n"
)
OPTIONS = ("pipeline", "priority", "repo", "baseBranch", "autonomy", "caps", "title")


async def failed(client: httpx.AsyncClient, daemon: InProcessDaemon, **more: object) -> dict[str, Any]:
    """Return a task that its agent gave up, as the API shows it."""
    body = {"text": TICKET, "repo": str(daemon.settings.data_dir.parent / "repo"), **more}
    answer = await client.post("/api/tasks", json=body)
    assert answer.status_code == 201, answer.text
    task_id = answer.json()["id"]
    await client.patch(f"/api/tasks/{task_id}", json={"caps": {"turns": 40}})
    await daemon.inbox.settled()
    trouble = AgentError(
        fatal=True, recovery=Recovery.CHECKPOINT_AND_FAIL, message="the disk is made of cheese", details=""
    )
    agent = daemon.supervisor.tasks[task_id].agent
    daemon.inbox.post(task_id, AgentSaid(at=clock.now(), attempt=agent.attempt, offset=1, trouble=trouble))
    await daemon.inbox.settled()
    shown: dict[str, Any] = (await client.get(f"/api/tasks/{task_id}")).json()
    assert shown["status"] == TaskStatus.FAILED
    return shown


async def test_a_retry_of_a_failed_task_makes_a_new_one_with_the_same_ticket_and_options(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    options = {"checks": {"tests": "true"}, "autonomy": "interactive", "auto_merge": True, "usd": 3.5, "base": "main"}
    before = await failed(client, daemon, **options)
    assert "retry" in before["allowed"]
    answer = await client.post(f"/api/tasks/{before['id']}/retry")
    assert answer.status_code == 200, answer.text
    after = answer.json()
    assert after["id"] != before["id"]
    assert (after["retryOf"], after["status"] in {"pending", "in_progress"}) == (before["id"], True)
    assert {name: after[name] for name in OPTIONS} == {name: before[name] for name in OPTIONS}
    assert (after["ticket"]["key"], after["ticket"]["type"]) == ("ABC-7", "bugfix")
    assert [(one["name"], one["command"]) for one in after["checks"]] == [
        (one["name"], one["command"]) for one in before["checks"]
    ]
    tasks = daemon.supervisor.tasks
    kept, made = (daemon.store.files.read_text(one["id"], "ticket-parsed.json") for one in (before, after))
    assert kept == made
    assert (tasks[after["id"]].policy.auto_merge, tasks[after["id"]].policy.caps.turns) == (True, 40)
    assert (await client.get(f"/api/tasks/{before['id']}")).json()["status"] == TaskStatus.FAILED


async def test_a_failed_task_is_not_retried_twice_at_once(client: httpx.AsyncClient, daemon: InProcessDaemon) -> None:
    before = await failed(client, daemon, text="Say hello")
    after = (await client.post(f"/api/tasks/{before['id']}/retry")).json()
    second = await client.post(f"/api/tasks/{before['id']}/retry")
    assert second.status_code == 409
    assert after["id"] in second.json()["detail"]
    await client.post(f"/api/tasks/{after['id']}/cancel")
    third = await client.post(f"/api/tasks/{before['id']}/retry")
    assert third.json()["retryOf"] == before["id"]


@pytest.mark.parametrize(
    ("pipeline", "name"),
    [("work", "Requirement.md"), ("work", "PLAN.md"), ("issue", "solution.json"), ("issue-plan", "solution.json")],
)
async def test_a_retry_does_not_begin_with_what_the_failed_agents_left(
    client: httpx.AsyncClient, daemon: InProcessDaemon, pipeline: str, name: str
) -> None:
    before = await failed(client, daemon, text="Say hello", pipeline=pipeline)
    daemon.store.files.write(before["id"], name, b"{}")
    after = await client.post(f"/api/tasks/{before['id']}/retry")
    assert after.status_code == 200, after.text
    assert not daemon.store.files.has(after.json()["id"], name)


async def test_a_retry_begins_with_what_the_submission_brought(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    given = {"solution.json": json.dumps(solution(id="SOL-A-1", issue_id="A"))}
    before = await failed(client, daemon, text="Say hello", pipeline="issue-execute", files=given)
    daemon.store.files.write(before["id"], "solution.json", b"an agent's own")
    for _ in range(2):
        after = await client.post(f"/api/tasks/{before['id']}/retry")
        assert after.status_code == 200, after.text
        kept = daemon.store.files.read_text(after.json()["id"], "solution.json")
        assert json.loads(kept) == json.loads(given["solution.json"])
        await client.post(f"/api/tasks/{after.json()['id']}/cancel")


async def test_a_retry_without_the_ticket_of_the_failed_task_says_so(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    before = await failed(client, daemon)
    daemon.store.files.path_of(before["id"], "ticket.json").unlink()
    answer = await client.post(f"/api/tasks/{before['id']}/retry")
    assert (answer.status_code, "submit it again" in answer.json()["detail"]) == (422, True)


async def test_why_of_a_failed_task_names_its_reason_and_the_way_on(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    before = await failed(client, daemon)
    found = (await client.get(f"/api/tasks/{before['id']}/why")).json()
    assert "the disk is made of cheese" in " ".join(found["facts"])
    assert f"orchestrator retry {before['id']}" in found["next"]
