"""Several who remove the same task at the same moment: one does it, the others are told, and nothing half is left."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from orchestrator.core.task.task import TaskStatus
from tests.fakes.ended_tasks import EndedTasks
from tests.fakes.in_process_daemon import InProcessDaemon, create_daemon, serving

TASKS = [f"task-{letter}" for letter in "abcde"]


@dataclass(frozen=True)
class Running:
    daemon: InProcessDaemon
    http: httpx.AsyncClient
    ended: EndedTasks

    async def listed(self) -> set[str]:
        found = (await self.http.get("/api/tasks?all=true")).json()
        assert found["unreadable"] == []
        return {one["id"] for one in found["tasks"]}

    def folders(self) -> set[str]:
        return {path.name for kind in ("tasks", "worktrees") for path in (self.ended.data / kind).iterdir()}


@pytest_asyncio.fixture
async def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Running]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    ended = EndedTasks(tmp_path / "data", tmp_path / "repo")
    for name in TASKS:
        ended.add(name, days=20, transcript=2000)
    ended.close()
    daemon = create_daemon(ended.data)
    async with serving(daemon) as http:
        yield Running(daemon, http, ended)
    daemon.service.disk.background.close()
    daemon.store.close()


async def test_the_second_of_two_deletions_finds_no_task(running: Running) -> None:
    http = running.http
    for name in TASKS:
        answers = await asyncio.gather(*(http.delete(f"/api/tasks/{name}") for _ in range(2)))
        assert sorted(answer.status_code for answer in answers) == [204, 404], [answer.text for answer in answers]
    assert (await running.listed(), running.folders()) == (set(), set())


async def test_a_task_that_is_archived_and_deleted_at_once_is_gone_whole(running: Running) -> None:
    http = running.http
    for name in TASKS:
        deleted, archived = await asyncio.gather(
            http.delete(f"/api/tasks/{name}"), http.post(f"/api/tasks/{name}/archive")
        )
        assert (deleted.status_code, archived.status_code) in {(204, 404), (204, 200)}, archived.text
        assert (await http.get(f"/api/tasks/{name}")).status_code == 404
    assert (await running.listed(), running.folders()) == (set(), set())


async def test_retention_and_a_person_remove_the_same_tasks_at_once(running: Running) -> None:
    http = running.http
    pruned, *deleted = await asyncio.gather(
        http.post("/api/disk/prune", json={}), *(http.delete(f"/api/tasks/{name}") for name in TASKS)
    )
    assert pruned.status_code == 200, pruned.text
    assert {answer.status_code for answer in deleted} == {204}
    assert (await running.listed(), running.folders()) == (set(), set())


async def test_a_task_named_twice_is_deleted_once_and_none_of_a_longer_name(tmp_path: Path) -> None:
    ended = EndedTasks(tmp_path / "data", tmp_path / "repo")
    for name in ("above.TASK-1", "above.TASK-10"):
        ended.add(name, days=20)
    ended.close()
    daemon = create_daemon(ended.data)
    async with serving(daemon) as http:
        asked = {"verb": "delete", "tasks": ["above.TASK-1", "above.TASK-1"]}
        done = (await http.post("/api/tasks/batch", json=asked)).json()
        assert (done["done"], done["refused"]) == (1, 1)
        assert [one["id"] for one in (await http.get("/api/tasks")).json()["tasks"]] == ["above.TASK-10"]
    daemon.service.disk.background.close()
    daemon.store.close()


async def test_a_draft_that_is_submitted_and_deleted_at_once_is_either(running: Running) -> None:
    http, repo = running.http, str(running.ended.repo)
    for number in range(8):
        draft = {"text": f"Draft {number}\n\nx", "repo": repo, "draft": True}
        name = (await http.post("/api/tasks", json=draft)).json()["id"]
        submitted, changed, deleted = await asyncio.gather(
            http.post(f"/api/tasks/{name}/submit"),
            http.patch(f"/api/tasks/{name}", json={"title": "Another"}),
            http.delete(f"/api/tasks/{name}"),
        )
        answers = (submitted.status_code, deleted.status_code)
        assert answers in {(200, 409), (404, 204)}, (submitted.text, deleted.text)
        assert changed.status_code in {200, 404, 409}, changed.text
        is_there = submitted.status_code == 200
        assert (name in await running.listed(), name in running.folders()) == (is_there, is_there)
        if is_there:
            assert (await http.get(f"/api/tasks/{name}")).json()["status"] != TaskStatus.DRAFT
