"""`delete` of a task by its name: what exists nowhere else stays, with the reason, unless somebody insists."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from orchestrator.core.task.task import TaskStatus
from tests.fakes.ended_tasks import EndedTasks
from tests.fakes.in_process_daemon import create_daemon, serving
from tests.fakes.repositories import git
from tests.fakes.shell import Shell

PROBLEM = "urn:orchestrator:problem:work-would-be-lost"


@pytest.fixture
def orchestrator(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest_asyncio.fixture
async def client(orchestrator: Shell, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[httpx.AsyncClient]:
    """A daemon with ended tasks: of some, work exists nowhere else."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(orchestrator.home / "config"))
    ended = EndedTasks(orchestrator.data, orchestrator.home / "repo")
    for name in ("merged", "dirty", "result", "saved"):
        ended.add(name, days=1)
    ended.add("unmerged", days=1, delivered=False, status=TaskStatus.FAILED)
    (ended.workspace.worktree("dirty") / "note.txt").write_text("not committed")
    (ended.workspace.worktree("result") / "build").mkdir()
    (ended.workspace.worktree("result") / "build/table.csv").write_text("1;2")
    (ended.workspace.worktree("saved") / "note.txt").write_text("kept")
    ended.save("saved", pinned=True)
    (ended.workspace.worktree("saved") / "note.txt").unlink()
    ended.close()
    daemon = create_daemon(orchestrator.data)
    async with serving(daemon) as http:
        yield http
    daemon.service.disk.background.close()
    daemon.store.close()


@pytest.mark.parametrize(
    ("task", "what"),
    [
        ("dirty", "not committed: note.txt"),
        ("result", "ignored by git, but perhaps not rebuildable: build/table.csv"),
        ("saved", "uncommitted work in pinned checkpoints: 1"),
        ("unmerged", "its commits are in no branch of"),
    ],
)
async def test_a_task_whose_work_exists_nowhere_else_stays_until_somebody_insists(
    client: httpx.AsyncClient, orchestrator: Shell, task: str, what: str
) -> None:
    refused = await client.delete(f"/api/tasks/{task}")
    problem = refused.json()
    assert (refused.status_code, problem["type"]) == (409, PROBLEM)
    assert f"{task}: {what}" in problem["detail"]
    assert "--force" in problem["detail"]
    assert (await client.get(f"/api/tasks/{task}")).status_code == 200
    assert (orchestrator.data / "worktrees" / task).is_dir()
    assert (await client.delete(f"/api/tasks/{task}?force=true")).status_code == 204
    assert (await client.get(f"/api/tasks/{task}")).status_code == 404
    assert not (orchestrator.data / "worktrees" / task).exists()


async def test_the_command_says_what_would_be_lost_and_how_to_keep_it(
    client: httpx.AsyncClient, orchestrator: Shell
) -> None:
    refused = await orchestrator("delete", "dirty", "--yes")
    assert (refused.code, "note.txt" in refused.err, "orchestrator archive dirty" in refused.err) == (5, True, True)
    several = await orchestrator("delete", "merged", "unmerged", "--yes", "--json")
    document = json.loads(several.out)
    assert (several.code, document["done"], document["refused"]) == (5, 1, 1)
    assert document["results"][1]["problem"]["type"] == PROBLEM
    forced = await orchestrator("delete", "unmerged", "dirty", "--yes", "--force")
    assert (forced.code, forced.out) == (0, "unmerged is deleted\ndirty is deleted\n")
    unnamed = await orchestrator("delete", "--all-ended", "--yes", "--force")
    assert (unnamed.code, "names of the tasks" in unnamed.err) == (2, True)
    assert (await client.get("/api/tasks/result")).status_code == 200


async def test_what_was_merged_meanwhile_is_deleted(client: httpx.AsyncClient, orchestrator: Shell) -> None:
    assert (await orchestrator("delete", "unmerged", "--yes")).code == 5
    repo = orchestrator.home / "repo"
    git(repo, "fetch", "-q", str(orchestrator.data / "worktrees/unmerged"), "HEAD:refs/heads/rescued")
    assert (await orchestrator("delete", "unmerged", "--yes")).code == 0
    assert git(repo, "show", "rescued:unmerged.txt") == "unmerged"
    assert (await client.get("/api/tasks/unmerged")).status_code == 404


async def test_a_page_asks_whether_work_goes_that_exists_nowhere_else(client: httpx.AsyncClient) -> None:
    shown = (await client.get("/tasks/dirty")).text
    assert 'name="force"' in shown
    refused = await client.post("/tasks/dirty/delete", data={})
    assert (refused.status_code, "note.txt" in refused.text) == (409, True)
    assert (await client.post("/tasks/dirty/delete", data={"force": "true"})).status_code == 303
    assert (await client.get("/api/tasks/dirty")).status_code == 404


async def test_a_parent_stays_with_all_its_children_when_work_of_one_would_be_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    ended = EndedTasks(tmp_path / "data", tmp_path / "repo")
    ended.add("below-1", days=30, parent="above")
    ended.add("below-2", days=30, parent="above", delivered=False)
    ended.add("above", days=30, children=("below-1", "below-2"))
    ended.close()
    daemon = create_daemon(ended.data)
    async with serving(daemon) as http:
        refused = await http.delete("/api/tasks/above")
        assert (refused.status_code, refused.json()["type"]) == (409, PROBLEM)
        assert "below-2: its commits" in refused.json()["detail"]
        everything = {"kinds": ["tasks"], "tasks": ["above"], "before": daemon.service.disk.clock().isoformat()}
        pruned = await http.post("/api/disk/prune", json=everything)
        assert pruned.json()["removed"] == []
        assert {one["id"] for one in (await http.get("/api/tasks")).json()["tasks"]} == {"above", "below-1", "below-2"}
        assert (await http.delete("/api/tasks/above?force=true")).status_code == 204
        assert (await http.get("/api/tasks")).json()["tasks"] == []
    daemon.service.disk.background.close()
    daemon.store.close()
