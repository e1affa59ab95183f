"""Drafts: everything about one can be changed until it is submitted, and each change is checked like a submission."""

from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from tests.acceptance.harness import DaemonHarness
from tests.fakes.in_process_daemon import InProcessDaemon

SECRET = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA\n-----END RSA PRIVATE KEY-----\n"


async def drafted(client: httpx.AsyncClient, daemon: InProcessDaemon, **more: object) -> dict[str, Any]:
    body = {"text": "Say hello\n\nTo all.\n", "repo": str(daemon.settings.data_dir.parent / "repo"), "draft": True}
    answer = await client.post("/api/tasks", json={**body, **more})
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


async def changed(client: httpx.AsyncClient, task: dict[str, Any], **changes: object) -> dict[str, Any]:
    answer = await client.patch(f"/api/tasks/{task['id']}", json=changes)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def ticket_of(daemon: InProcessDaemon, task: dict[str, Any]) -> dict[str, Any]:
    return dict(orjson.loads(daemon.store.files.read(task["id"], "ticket.json")))


async def test_every_field_of_a_draft_can_be_changed(client: httpx.AsyncClient, daemon: InProcessDaemon) -> None:
    other = await drafted(client, daemon)
    task = await drafted(client, daemon, usd=3.5, checks={"old": "true"})
    assert "change" in task["allowed"]
    now = await changed(
        client,
        task,
        title="Greet",
        text="Greet everybody.",
        pipeline="review_only",
        priority="high",
        after=[other["id"]],
        at="2999-01-01T00:00:00Z",
        checks={"new": "make test"},
        autonomy="interactive",
        autoMerge=True,
    )
    same = ("id", "status", "createdAt", "caps", "repo", "baseCommit")
    assert {name: now[name] for name in same} == {name: task[name] for name in same}
    assert (now["title"], now["pipeline"], now["priority"], now["after"]) == (
        "Greet", "review_only", "high", [other["id"]],
    )  # fmt: skip
    assert (now["startAt"], now["autonomy"]) == ("2999-01-01T00:00:00Z", "interactive")
    names = {check["name"]: check["command"] for check in now["checks"]}
    assert names.get("new") == "make test"
    assert "old" not in names
    assert set(now["stages"]) == set(daemon.definitions.pipelines["review_only"].stages)
    assert ticket_of(daemon, task)["description"] == "Greet everybody."
    line = (await client.get(f"/api/tasks/{task['id']}/journal")).json()["entries"][-2]
    assert line["trigger"] == "DraftChanged"
    assert "task" not in line["event"]


async def test_what_is_not_named_stays(client: httpx.AsyncClient, daemon: InProcessDaemon) -> None:
    task = await drafted(client, daemon, title="Given", type="bugfix", checks={"t": "true"}, at="2999-01-01T00:00:00Z")
    now = await changed(client, task, autoMerge=True)
    moving = ("updatedAt", "allowed")
    assert {**now, **dict.fromkeys(moving)} == {**task, **dict.fromkeys(moving)}
    assert (await changed(client, task, text="Other words"))["title"] == "Given"


async def test_a_draft_of_a_batch_keeps_its_issues(client: httpx.AsyncClient, daemon: InProcessDaemon) -> None:
    issues = '{"id": "ISS-1", "title": "Say hello"}\n{"id": "ISS-2", "title": "Say goodbye"}\n'
    task = await drafted(client, daemon, pipeline="issue-plan-execute", files={"issues.jsonl": issues})
    before = daemon.store.files.read(task["id"], "issues.jsonl")
    now = await changed(client, task, title="Both")
    assert (now["title"], now["pipeline"]) == ("Both", "issue-plan-execute")
    assert daemon.store.files.read(task["id"], "issues.jsonl") == before
    assert b"ISS-2" in before
    assert (await changed(client, task, pipeline="custom"))["pipeline"] == "custom"


async def test_the_issues_of_a_draft_follow_its_text(client: httpx.AsyncClient, daemon: InProcessDaemon) -> None:
    task = await drafted(client, daemon, pipeline="issue-plan-execute", text="- Say hello\n- Say goodbye\n- Go\n")
    files = daemon.store.files
    assert files.read(task["id"], "issues.jsonl").count(b"\n") == 3
    await changed(client, task, text="- Sing a song\n- Dance\n")
    assert [line["title"] for line in map(orjson.loads, files.read(task["id"], "issues.jsonl").splitlines())] == [
        "Sing a song",
        "Dance",
    ]
    await changed(client, task, pipeline="custom")
    assert not files.has(task["id"], "issues.jsonl")


async def test_a_draft_has_the_whole_of_what_was_given_again_when_its_pipeline_comes_back(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    issues = '{"id": "A", "title": "Say hello"}\n{"id": "B", "title": "Say goodbye", "status": "completed"}\n'
    task = await drafted(client, daemon, pipeline="issue-plan-execute", files={"issues.jsonl": issues})
    before = daemon.store.files.read(task["id"], "issues.jsonl")
    await changed(client, task, pipeline="custom")
    assert not daemon.store.files.has(task["id"], "issues.jsonl")
    await changed(client, task, pipeline="issue-plan-execute")
    assert daemon.store.files.read(task["id"], "issues.jsonl") == before


async def test_a_title_and_a_pipeline_that_were_derived_follow_text_and_type(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    task = await drafted(client, daemon)
    assert (task["title"], task["pipeline"]) == ("Say hello", "full")
    now = await changed(client, task, text="Say goodbye\n\nTo all.\n", type="code_review")
    assert (now["title"], now["pipeline"], now["branch"]) == ("Say goodbye", "review_only", f"review/{task['id']}")
    assert (await changed(client, task, type="feature"))["title"] == "Say goodbye"


@pytest.mark.parametrize(
    ("changes", "status", "says"),
    [
        ({"pipeline": "made-up"}, 422, "there is no pipeline 'made-up'"),
        ({"text": SECRET}, 422, "must not be passed on"),
        ({"at": "2001-01-01T00:00:00Z"}, 422, "is in the past"),
        ({"base": "nowhere"}, 422, "has no branch"),
        ({"after": ["NOPE-1"]}, 404, "NOPE-1"),
        ({"title": ""}, 400, "title"),
        ({"repo": "/tmp"}, 400, "repo"),
        ({}, 400, "give caps, priority, or a field of a draft"),
    ],
)
async def test_a_change_that_no_submission_may_have_is_refused_and_changes_nothing(
    client: httpx.AsyncClient, daemon: InProcessDaemon, changes: dict[str, object], status: int, says: str
) -> None:
    task = await drafted(client, daemon)
    before = ticket_of(daemon, task)
    answer = await client.patch(f"/api/tasks/{task['id']}", json=changes)
    assert (answer.status_code, says in answer.json()["detail"]) == (status, True), answer.text
    assert (await client.get(f"/api/tasks/{task['id']}")).json() == task
    assert ticket_of(daemon, task) == before


async def test_a_submitted_task_is_changed_no_more(client: httpx.AsyncClient, daemon: InProcessDaemon) -> None:
    task = await drafted(client, daemon)
    await client.post(f"/api/tasks/{task['id']}/submit")
    answer = await client.patch(f"/api/tasks/{task['id']}", json={"title": "Too late"})
    assert (answer.status_code, answer.json()["type"]) == (409, "urn:orchestrator:problem:not-allowed")
    assert (await client.patch(f"/api/tasks/{task['id']}", json={"priority": "low"})).status_code == 200


def test_a_changed_draft_survives_a_crash_between_the_decision_and_the_copy_of_its_pipeline(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path) as harness:
        task = harness.submit(draft=True)
        folder = harness.folder(task)
        original = (folder / "pipeline.toml").read_bytes()
        done = harness.cli("submit", "--task", task, "--draft", "--pipeline", "review_only", "Judge textkit")
        assert done.returncode == 0, done.stderr
        harness.kill()
        (folder / "pipeline.toml").write_bytes(original)
        harness.start()
        assert harness.client.task(task).title == "Judge textkit"
        done = harness.cli("submit", "--task", task, "--title", "Judge it", "--wait")
        assert done.returncode == 0, done.stderr
        ended = harness.wait_for_end(task)
        assert (ended.title, ended.pipeline) == ("Judge it", "review_only")
        assert (folder / "review-report.md").exists()
