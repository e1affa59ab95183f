"""Copies of repositories that were named by an address: they go when nobody needs them and all is at the remote."""

import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from orchestrator.core.retention.policy import Kind
from orchestrator.daemon.housekeeping.service import PruneQuery
from orchestrator.daemon.sources.copy import Copy
from tests.fakes.ended_tasks import EndedTasks
from tests.fakes.in_process_daemon import InProcessDaemon, create_daemon, serving
from tests.fakes.repositories import git, repository

NAME = "sources/origin-0123456789ab"
Json = dict[str, Any]


@pytest.fixture
def ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EndedTasks:
    """Tasks that begin from a copy of a repository elsewhere."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    repository(tmp_path / "origin", {"README.md": "# textkit\n", ".gitignore": "build/\n"})
    copy = tmp_path / "data" / NAME
    Copy(address=str(tmp_path / "origin"), folder=copy, login=None).bring_up_to_date()
    return EndedTasks(tmp_path / "data", copy)


def age(folder: Path, days: float) -> None:
    at = time.time() - days * 86_400
    for top, folders, files in os.walk(folder):
        for name in (*folders, *files):
            os.utime(f"{top}/{name}", (at, at), follow_symlinks=False)
    os.utime(folder, (at, at))


@asynccontextmanager
async def running(ended: EndedTasks) -> AsyncIterator[tuple[InProcessDaemon, httpx.AsyncClient]]:
    age(ended.repo, 40)
    ended.close()
    daemon = create_daemon(ended.data)
    async with serving(daemon) as client:
        yield daemon, client
    daemon.service.disk.background.close()
    daemon.store.close()


async def pruned(client: httpx.AsyncClient, **body: object) -> Json:
    answer = await client.post("/api/disk/prune", json={"kinds": ["sources"], **body})
    assert answer.status_code == 200, answer.text
    found: Json = answer.json()
    return found


async def test_a_copy_goes_when_the_remote_has_everything(ended: EndedTasks) -> None:
    ended.add("T-1", days=40)
    async with running(ended) as (_, client):
        (shown,) = [one for one in (await client.get("/api/disk")).json()["kinds"] if one["kind"] == "sources"]
        assert (shown["items"], shown["keepDays"], shown["dueItems"]) == (1, 30, 1)
        kept = await pruned(client)
        assert kept["removed"] == []
        assert kept["kept"][0]["reason"] == f"1 commits that {ended.repo.parents[2] / 'origin'} does not have"
        git(ended.repo, "push", "-q", "origin", "feature/T-1")
        age(ended.repo, 40)
        done = await pruned(client)
        assert [(one["name"], one["rule"]) for one in done["removed"]] == [(NAME, "older than 30 days")]
        assert not ended.repo.exists()


async def test_a_copy_stays_whose_remote_cannot_be_asked(ended: EndedTasks) -> None:
    (ended.repo.parents[2] / "origin").rename(ended.repo.parents[2] / "moved")
    async with running(ended) as (_, client):
        found = await pruned(client)
        assert found["removed"] == []
        assert "it cannot be looked at" in found["kept"][0]["reason"]
        assert ended.repo.is_dir()


async def test_a_copy_stays_that_a_schedule_or_a_live_task_names(ended: EndedTasks) -> None:
    async with running(ended) as (_, client):
        body = {"name": "nightly", "line": "0 22 * * *", "text": "Tidy up", "repo": str(ended.repo)}
        assert (await client.post("/api/schedules", json=body)).status_code == 201
        assert (await pruned(client))["kept"][0]["reason"] == "the schedule nightly names it"
        assert (await client.delete("/api/schedules/nightly")).status_code == 200
        assert len((await pruned(client, dryRun=True))["removed"]) == 1
        draft = {"text": "Say hello", "repo": str(ended.repo), "draft": True}
        assert (await client.post("/api/tasks", json=draft)).status_code == 201
        found = await pruned(client)
        assert (found["removed"], found["kept"]) == ([], []), "a live task uses it now"
        assert ended.repo.is_dir()


async def test_a_copy_stays_that_somebody_fetches_after_it_was_planned(
    ended: EndedTasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(ended) as (daemon, _):
        disk = daemon.service.disk
        looked = type(disk.protection).reason

        def fetched_meanwhile(*args: Any) -> str:
            reason = looked(*args)
            os.utime(ended.repo)
            return reason

        monkeypatch.setattr(type(disk.protection), "reason", fetched_meanwhile)
        found = await disk.prune(PruneQuery(kinds=frozenset({Kind.SOURCES})), "ada")
        assert found.freed == 0
        assert ended.repo.is_dir()
        with disk.sources.using(ended.repo.name), disk.sources.unused(ended.repo.name) as free:
            assert not free


async def test_a_clone_goes_after_its_copy_did(ended: EndedTasks) -> None:
    ended.add("T-1", days=200)
    git(ended.repo, "push", "-q", "origin", "feature/T-1")
    ended.age_clones(190)
    async with running(ended) as (daemon, client):
        assert len((await pruned(client))["removed"]) == 1
        daemon.workspace.remove("T-1")
        done = await pruned(client, kinds=["clones"])
        assert [one["kind"] for one in done["removed"]] == ["clones"], done["kept"]
