"""What goes and what stays of ended tasks, with real files and real git, over the API."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from orchestrator.core.task.task import TaskStatus
from orchestrator.daemon.housekeeping.housekeeper import Housekeeper
from orchestrator.daemon.housekeeping.service import PruneQuery
from orchestrator.workspaces.removal.unmerged import clone_paths, tasks_of_clones
from tests.fakes.ended_tasks import EndedTasks
from tests.fakes.in_process_daemon import InProcessDaemon, create_daemon, serving
from tests.fakes.repositories import commit, git

Json = dict[str, Any]


@pytest.fixture
def ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EndedTasks:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return EndedTasks(tmp_path / "data", tmp_path / "repo")


class Running:
    """A daemon on a folder with ended tasks, and a client of it."""

    def __init__(self, daemon: InProcessDaemon, client: httpx.AsyncClient) -> None:
        self.daemon, self.client, self.data = daemon, client, daemon.settings.data_dir

    async def prune(self, **body: object) -> Json:
        answer = await self.client.post("/api/disk/prune", json=body)
        assert answer.status_code == 200, answer.text
        found: Json = answer.json()
        return found

    async def disk(self) -> Json:
        answer = await self.client.get("/api/disk")
        assert answer.status_code == 200, answer.text
        found: Json = answer.json()
        return found

    def worktrees(self) -> list[str]:
        return sorted(path.name for path in (self.data / "worktrees").iterdir())


@pytest_asyncio.fixture
async def running(ended: EndedTasks) -> AsyncIterator["Starter"]:
    starter = Starter(ended)
    yield starter
    if starter.daemon:
        starter.daemon.service.disk.background.close()


class Starter:
    """Starts a daemon once everything is seeded."""

    def __init__(self, ended: EndedTasks) -> None:
        self.ended = ended
        self.daemon: InProcessDaemon | None = None

    def start(self) -> InProcessDaemon:
        self.ended.close()
        self.daemon = made = create_daemon(self.ended.data)
        return made


def kinds(rows: Sequence[Json]) -> list[tuple[str, str, str]]:
    return sorted((row["task"], row.get("action", "kept"), row["kind"]) for row in rows)


def reasons(found: Json, kind: str) -> dict[str, str]:
    return {row["task"]: row["reason"] for row in found["kept"] if row["kind"] == kind}


async def test_a_worktree_goes_after_its_time_and_what_is_unmerged_stays_with_the_reason(running: Starter) -> None:
    ended = running.ended
    for name in ("merged", "young", "dirty", "branched", "unmerged", "child"):
        days = 3 if name == "young" else 20
        parent = "live" if name == "child" else None
        status = TaskStatus.FAILED if name == "unmerged" else TaskStatus.COMPLETED
        ended.add(name, days=days, status=status, delivered=name != "unmerged", parent=parent)
    (ended.workspace.worktree("dirty") / "note.txt").write_text("not committed")
    commit(ended.workspace.worktree("branched"), {"aside.txt": "aside"}, "Aside")
    git(ended.workspace.worktree("branched"), "branch", "aside")
    git(ended.workspace.worktree("branched"), "reset", "-q", "--hard", "HEAD~1")
    for name in ("dirty", "branched"):
        ended.age(name, 20)
    daemon = running.start()
    async with serving(daemon) as client:
        here = Running(daemon, client)
        planned = await here.prune(dryRun=True, kinds=["worktrees"])
        assert kinds(planned["removed"]) == [("child", "remove", "worktrees"), ("merged", "remove", "worktrees")]
        assert reasons(planned, "worktrees") == {
            "dirty": "not committed: note.txt",
            "branched": "commits that only its worktree has: refs/heads/aside",
            "unmerged": f"its commits are in no branch of {ended.repo}",
        }
        assert here.worktrees() == ["branched", "child", "dirty", "merged", "unmerged", "young"]
        done = await here.prune(kinds=["worktrees"])
        assert (kinds(done["removed"]), done["kept"]) == (kinds(planned["removed"]), planned["kept"])
        assert here.worktrees() == ["branched", "dirty", "unmerged", "young"]
        assert (ended.workspace.worktree("dirty") / "note.txt").read_text() == "not committed"
        again = await here.prune(kinds=["worktrees"])
        assert again["removed"] == []
        logged = daemon.service.disk.trash.removals.since("")
        assert {(line["task"], line["rule"], line["kind"]) for line in logged} == {
            ("child", "older than 14 days", "worktrees"),
            ("merged", "older than 14 days", "worktrees"),
        }
        assert all(isinstance(line["bytes"], int) and line["bytes"] > 0 for line in logged)


async def test_a_worktree_with_ignored_work_or_a_repository_inside_stays(running: Starter) -> None:
    ended = running.ended
    for name in ("rebuildable", "result", "repository", "hidden"):
        ended.add(name, days=20)
    for place in ("rebuildable/build/node_modules/x.js", "rebuildable/build/a.pyc", "result/build/result.csv"):
        path = ended.data / "worktrees" / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    for place in ("repository/build/inner", "hidden/build/node_modules/inner"):
        path = ended.data / "worktrees" / place
        path.mkdir(parents=True)
        git(path, "init", "-q")
        commit(path, {"a.txt": "precious"}, "Inner work")
    for name in ("rebuildable", "result", "repository", "hidden"):
        ended.age(name, 20)
    daemon = running.start()
    async with serving(daemon) as client:
        here = Running(daemon, client)
        await daemon.service.disk.prune(PruneQuery(), "retention")
        assert here.worktrees() == ["hidden", "repository", "result"]
        kept = reasons(await here.prune(kinds=["worktrees"]), "worktrees")
        assert {name: reason.rpartition(": ")[2] for name, reason in kept.items()} == {
            "result": "build/result.csv",
            "repository": "build/inner/",
            "hidden": "build/node_modules/inner/",
        }
        assert (ended.data / "worktrees/result/build/result.csv").exists()


async def test_archive_refuses_to_remove_what_no_checkpoint_keeps(running: Starter) -> None:
    ended = running.ended
    for name in ("large", "repository", "ignored", "branched"):
        ended.add(name, days=2)
    worktrees = ended.data / "worktrees"
    with (worktrees / "large/model.bin").open("wb") as file:
        file.truncate(64 * 1024 * 1024 + 1)
    (worktrees / "repository/inner").mkdir()
    git(worktrees / "repository/inner", "init", "-q")
    commit(worktrees / "repository/inner", {"a.txt": "precious"}, "Inner work")
    (worktrees / "ignored/build").mkdir()
    (worktrees / "ignored/build/result.csv").write_text("1")
    commit(worktrees / "branched", {"aside.txt": "aside"}, "Aside")
    git(worktrees / "branched", "branch", "aside")
    git(worktrees / "branched", "reset", "-q", "--hard", "HEAD~1")
    lost = {"large": "model.bin", "repository": "inner/", "ignored": "build/result.csv", "branched": "refs/heads/aside"}
    daemon = running.start()
    async with serving(daemon) as client:
        here = Running(daemon, client)
        for name, what in lost.items():
            answer = await client.post(f"/api/tasks/{name}/archive")
            assert answer.status_code == 422, answer.text
            assert what in answer.text
            assert "commit, move or delete" in answer.text
        batch = await client.post("/api/tasks/batch", json={"verb": "archive", "tasks": list(lost)})
        assert (batch.json()["done"], batch.json()["refused"]) == (0, 4)
        assert here.worktrees() == sorted(lost)
        for name in lost:
            assert (await client.get(f"/api/tasks/{name}")).json()["status"] == "completed"
        (worktrees / "large/model.bin").unlink()
        assert (await client.post("/api/tasks/large/archive")).json()["status"] == "archived"


async def test_an_archived_task_lost_no_uncommitted_work_to_retention(running: Starter) -> None:
    ended = running.ended
    ended.add("T-1", days=100)
    ended.add("T-2", days=100, delivered=False)
    (ended.workspace.worktree("T-2") / "note.txt").write_text("not committed")
    ended.age("T-2", 100)
    daemon = running.start()
    async with serving(daemon) as client:
        await daemon.service.disk.prune(PruneQuery(), "retention")
        assert (await client.get("/api/tasks/T-1")).json()["status"] == "archived"
        assert (await client.get("/api/tasks/T-2")).json()["status"] == "completed"
        assert (ended.workspace.worktree("T-2") / "note.txt").exists()
        assert git(ended.repo, "show", "feature/T-1:T-1.txt") == "T-1"


async def test_a_compressed_transcript_reads_the_same_in_every_way(running: Starter) -> None:
    running.ended.add("T-1", days=5, transcript=3_000_000)
    daemon = running.start()
    async with serving(daemon) as client:
        here = Running(daemon, client)
        run = here.data / "tasks/T-1/agents/1"
        ways = (
            "transcript?raw=true", "transcript?offset=1500000", "entries?limit=50", "entries?backward=true&limit=50",
            "entries?at=2500000&backward=true&limit=20", "entries?at=1048570&limit=20", "entries?text=needle",
        )  # fmt: skip
        paths = ["/api/tasks/T-1/agents", *(f"/api/tasks/T-1/agents/1/{way}" for way in ways)]
        before = [await client.get(path) for path in paths]
        assert {answer.status_code for answer in before} == {200}
        done = await here.prune()
        assert ("T-1", "compress", "transcripts") in kinds(done["removed"])
        assert sorted(path.name for path in run.glob("stdout*")) == ["stdout.jsonl.zst"]
        assert [(await client.get(path)).text for path in paths] == [answer.text for answer in before]
        assert len(before[1].text) > 900_000
        assert (await here.disk())["uncompressed"] == 0


async def test_everything_by_its_age_goes_and_the_journal_stays(running: Starter) -> None:
    running.ended.add("T-1", days=95)
    daemon = running.start()
    async with serving(daemon) as client:
        here = Running(daemon, client)
        done = await here.prune()
        assert kinds(done["removed"]) == [
            ("T-1", "archive", "tasks"),
            *(("T-1", "remove", kind) for kind in ("foreign-edits", "logs", "sessions", "transcripts", "worktrees")),
        ]
        folder = here.data / "tasks/T-1"
        assert {"journal.jsonl", "state.json", "pipeline.toml", "ticket.json"} <= {
            path.name for path in folder.iterdir()
        }
        assert not list(folder.glob("agents/1/std*"))
        assert not (folder / "claude").exists()
        assert (await client.get("/api/tasks/T-1/journal")).status_code == 200
        gone = await client.get("/api/tasks/T-1/agents/1/transcript")
        assert (gone.status_code, "was removed" in gone.text) == (404, True)


async def test_what_housekeeping_itself_writes_makes_no_task_younger(running: Starter) -> None:
    running.ended.add("T-1", days=95)
    daemon = running.start()
    async with serving(daemon) as client:
        here = Running(daemon, client)
        await here.prune(kinds=["transcripts", "logs"])
        folder = here.data / "tasks/T-1"
        assert (folder / "agents/1/transcript-removed.json").exists()
        for name in ("summary.md", "state.json"):
            (folder / name).touch()
        planned = await here.prune(dryRun=True)
        assert ("T-1", "archive", "tasks") in kinds(planned["removed"])
        (folder / "notes.md").write_text("read this again")
        planned = await here.prune(dryRun=True)
        assert ("T-1", "archive", "tasks") not in kinds(planned["removed"])


async def test_a_clone_goes_when_its_repository_has_everything(running: Starter) -> None:
    ended = running.ended
    ended.add("T-1", days=200)
    ended.add("T-2", days=200, delivered=False)
    ended.age_clones(190)
    daemon = running.start()
    async with serving(daemon) as client:
        here = Running(daemon, client)
        (name,) = tasks_of_clones(here.data)
        borrowed = await here.prune(kinds=["clones"], dryRun=True)
        assert "borrows from it" in borrowed["kept"][0]["reason"]
        for task in ("T-1", "T-2"):
            daemon.workspace.remove(task)
        kept = await here.prune(kinds=["clones"])
        assert kept["kept"][0]["reason"] == f"1 commits that {ended.repo} does not have"
        head = daemon.workspace.clone_of("T-2").ref("refs/orchestrator/T-2/head")
        git(ended.repo, "fetch", "-q", str(here.data / "repos" / name), f"{head}:refs/heads/rescued")
        done = await here.prune(kinds=["clones"])
        assert [row["name"] for row in done["removed"]] == [f"repos/{name}"]
        assert not any(path.exists() or path.is_symlink() for path in clone_paths(here.data, name, ["T-1", "T-2"]))


async def test_checkpoints_with_work_that_is_nowhere_else_stay(running: Starter) -> None:
    ended = running.ended
    for name in ("empty", "pinned", "failed", "intermediate"):
        ended.add(name, days=100, status=TaskStatus.FAILED if name == "failed" else TaskStatus.COMPLETED)
        if name != "empty":
            (ended.workspace.worktree(name) / "note.txt").write_text(name)
        ended.save(name, pinned=name == "pinned")
        (ended.workspace.worktree(name) / "note.txt").unlink(missing_ok=True)
        ended.age(name, 100)
    daemon = running.start()
    async with serving(daemon) as client:
        here = Running(daemon, client)
        done = await here.prune(kinds=["checkpoints"])
        assert [row["task"] for row in done["removed"]] == ["empty", "intermediate"]
        assert reasons(done, "checkpoints") == {
            "pinned": "uncommitted work in pinned checkpoints: 1",
            "failed": "uncommitted work of a task that was not completed, in 1 checkpoints",
        }


async def test_whole_tasks_and_refused_texts_go_only_if_they_are_named(running: Starter) -> None:
    ended = running.ended
    ended.add("T-1", days=20)
    ended.add("T-2", days=20, delivered=False)
    quarantine = ended.data / "quarantine"
    quarantine.mkdir()
    for suffix in (".txt", ".json"):
        (quarantine / f"abc{suffix}").write_text("{}")
    daemon = running.start()
    async with serving(daemon) as client:
        here = Running(daemon, client)
        before = daemon.service.disk.clock().isoformat()
        everything = await here.prune(before=before, dryRun=True)
        assert not {"tasks", "quarantine"} & {row["kind"] for row in everything["removed"]}
        done = await here.prune(before=before, kinds=["tasks", "quarantine"])
        assert sorted((row["kind"], row["task"]) for row in done["removed"]) == [("quarantine", ""), ("tasks", "T-1")]
        assert reasons(done, "tasks") == {"T-2": f"its commits are in no branch of {ended.repo}"}
        assert not list(quarantine.iterdir())
        assert [task["id"] for task in (await client.get("/api/tasks?all=true")).json()["tasks"]] == ["T-2"]


async def test_live_tasks_and_their_children_keep_everything(running: Starter) -> None:
    running.ended.add("child", days=100, parent="LIVE-1")
    daemon = running.start()
    async with serving(daemon) as client:
        here = Running(daemon, client)
        body = {"text": "Say hello", "repo": str(running.ended.repo), "ticket": "LIVE-1"}
        live = (await client.post("/api/tasks", json=body)).json()["id"]
        (here.data / "tasks/child").rename(here.data / "tasks/kept")
        (here.data / "tasks/kept").rename(here.data / "tasks/child")
        done = await here.prune(before=daemon.service.disk.clock().isoformat(), tasks=[live])
        assert (done["removed"], done["kept"]) == ([], [])


async def test_the_largest_tasks_come_first_and_everything_is_counted(running: Starter) -> None:
    ended = running.ended
    for number, size in enumerate((10_000, 900_000, 200_000)):
        ended.without_git(f"T-{number}", days=1, transcript=size, worktree=size)
    daemon = running.start()
    async with serving(daemon) as client:
        found = await Running(daemon, client).disk()
        assert [one["task"] for one in found["tasks"]] == ["T-1", "T-2", "T-0"]
        assert found["used"] == sum(one["size"] for one in found["kinds"]) + sum(one["size"] for one in found["others"])
        sizes = {one["kind"]: one for one in found["kinds"]}
        assert sizes["worktrees"]["size"] > 1_100_000
        assert sizes["worktrees"]["keepDays"] == 14
        assert sizes["worktrees"]["nextAt"] is not None
        assert (sizes["tasks"]["keepDays"], sizes["tasks"]["dueItems"]) == (None, 0)


async def test_housekeeping_follows_the_policy_by_itself_and_empties_the_trash(running: Starter) -> None:
    running.ended.add("T-1", days=20)
    daemon = running.start()
    async with serving(daemon):
        keeper = Housekeeper(daemon.service.disk, first_after=0.0)
        await keeper.look()
        assert not daemon.workspace.worktree("T-1").exists()
        assert not list((daemon.settings.data_dir / "trash").iterdir())
        assert {line["by"] for line in daemon.service.disk.trash.removals.since("")} == {"retention"}
