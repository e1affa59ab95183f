"""`disk`, `prune`, and `archive` and `delete` of many tasks at once, as people type them."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.fakes.ended_tasks import EndedTasks
from tests.fakes.in_process_daemon import InProcessDaemon, create_daemon, serving
from tests.fakes.shell import Shell


@pytest.fixture
def orchestrator(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest_asyncio.fixture
async def daemon(orchestrator: Shell, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[InProcessDaemon]:
    """A daemon with a task that ended lately, one long ago, and one with work that nobody has."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(orchestrator.home / "config"))
    ended = EndedTasks(orchestrator.data, orchestrator.home / "repo")
    ended.add("NEW-1", days=2)
    ended.add("OLD-1", days=40, transcript=200_000)
    ended.add("LOST-1", days=40, delivered=False)
    ended.close()
    daemon = create_daemon(orchestrator.data)
    async with serving(daemon):
        yield daemon
    daemon.service.disk.background.close()
    daemon.store.close()


@pytest.mark.usefixtures("daemon")
async def test_disk_shows_kinds_tasks_and_what_is_due(orchestrator: Shell) -> None:
    shown = await orchestrator("disk")
    assert shown.code == 0, shown.err
    assert "by the files of 3 tasks" in shown.out
    assert "14 days" in shown.out
    assert "OLD-1" in shown.out
    document = json.loads((await orchestrator("disk", "--json", "-n", "1")).out)
    assert [one["task"] for one in document["tasks"]] == ["OLD-1"]
    assert document["dueSize"] > 0


async def test_prune_shows_first_asks_and_keeps_what_is_nowhere_else(
    orchestrator: Shell, daemon: InProcessDaemon
) -> None:
    shown = await orchestrator("prune", "--dry-run", "--kind", "worktrees")
    assert "older than 14 days" in shown.out
    assert "its commits are in no branch of" in shown.out
    assert daemon.workspace.worktree("OLD-1").exists()
    refused = await orchestrator("prune", "--kind", "worktrees")
    assert (refused.code, "--yes" in refused.err) == (2, True)
    done = await orchestrator("prune", "--kind", "worktrees", "--yes")
    assert "1 items removed or compressed" in done.out
    there = [daemon.workspace.worktree(task).exists() for task in ("NEW-1", "OLD-1", "LOST-1")]
    assert there == [True, False, True]
    older = json.loads((await orchestrator("prune", "NEW-1", "--older-than", "1d", "--yes", "--json")).out)
    assert {(row["task"], row["action"]) for row in older["removed"]} == {("NEW-1", "remove")}


async def test_logs_reads_a_compressed_transcript(orchestrator: Shell, daemon: InProcessDaemon) -> None:
    before = await orchestrator("logs", "OLD-1")
    assert before.code == 0, before.err
    assert (await orchestrator("prune", "--yes")).code == 0
    run = daemon.store.files.path_of("OLD-1") / "agents/1"
    assert [path.name for path in run.glob("stdout*")] == ["stdout.jsonl.zst"]
    assert (await orchestrator("logs", "OLD-1")).out == before.out


async def test_many_are_archived_in_one_process_and_no_uncommitted_work_is_lost(
    orchestrator: Shell, daemon: InProcessDaemon
) -> None:
    (daemon.workspace.worktree("LOST-1") / "note.txt").write_text("not committed")
    done = await orchestrator("archive", "--older-than", "30d")
    assert (done.code, done.out.count("archived")) == (0, 2), done.err
    shown = json.loads((await orchestrator("checkpoints", "list", "LOST-1", "--json")).out)
    newest = shown["checkpoints"][0]
    assert newest["pinned"]
    restored = await orchestrator("checkpoints", "restore", "LOST-1", str(newest["number"]))
    assert restored.code == 0, restored.err
    rest = await orchestrator("archive", "--all-ended")
    assert (rest.code, rest.out.count("NEW-1")) == (0, 1)
    assert (await orchestrator("archive", "--all-ended")).code == 0


async def test_many_are_deleted_in_one_process_but_not_those_with_work_that_nobody_has(
    orchestrator: Shell, daemon: InProcessDaemon
) -> None:
    done = await orchestrator("delete", "--older-than", "30d", "--yes")
    assert done.code == 0, done.err
    assert "its commits are in no branch of" in done.out
    assert [task.id for task in await daemon.service.tasks.index.all_tasks()] == ["NEW-1", "LOST-1"]


@pytest.mark.usefixtures("daemon")
async def test_a_selection_that_says_nothing_or_too_much_is_refused(orchestrator: Shell) -> None:
    for arguments in (("archive",), ("delete", "--yes"), ("archive", "NEW-1", "--all-ended")):
        refused = await orchestrator(*arguments)
        assert (refused.code, "--all-ended" in refused.err) == (2, True), arguments
