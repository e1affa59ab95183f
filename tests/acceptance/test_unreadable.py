"""Tasks whose files cannot be read: blocked with the reason, without processes, and a person can do something about it.

Whatever the damage, the other task goes on.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.core.task.task import TaskStatus
from orchestrator.server.schemas.task_input import TaskFilter
from orchestrator.server.schemas.tasks import TaskView
from tests.acceptance.harness import DaemonHarness, Json, refused

Damage = Callable[[Path], None]


def held(root: Path) -> Json:
    """An agent whose first turn ends only when it is let go."""
    return {"ANALYSIS": [{"wait_for": str(root / "go")}]}


def working(harness: DaemonHarness) -> str:
    """The id of a new task whose agent works."""
    task = harness.submit()
    harness.wait_until(task, lambda now: now.agent.pid and now.agent.turn == 1)
    return task


def of_journal(folder: Path) -> None:
    """Damage the second decision, and what could replace it."""
    lines = (folder / "journal.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "journal.jsonl").write_bytes(b"".join([lines[0], b"nonsense\n", *lines[2:]]))
    (folder / "state.json").unlink()
    for checkpoint in folder.glob("checkpoints/*.json"):
        checkpoint.write_bytes(b"nonsense")


def without_journal(folder: Path) -> None:
    (folder / "journal.jsonl").unlink()


def of_everything(folder: Path) -> None:
    of_journal(folder)
    (folder / "journal.jsonl").write_bytes(b"\0" * 5000)


def of_pipeline(folder: Path) -> None:
    (folder / "pipeline.toml").write_text("this is no pipeline")


EVERY_DAMAGE = [of_journal, without_journal, of_everything, of_pipeline]


def processes_of(harness: DaemonHarness, task: str) -> list[int]:
    """The pids of holders and agents of one task."""
    marker = f"{harness.folder(task)}/".encode()
    return [pid for pid in harness.survivors() if marker in _read(pid)]


def _read(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes() + Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def shown_as_unreadable(harness: DaemonHarness, task: str, reason: str) -> TaskView:
    """The task as every view shows it, without processes."""
    found = harness.wait_until(task, lambda now: now.status is TaskStatus.BLOCKED)
    assert reason in (found.block_reason or "")
    why = harness.client.why(task)
    assert reason in why.facts[0]
    assert f"checkpoints recover {task}" in why.next
    assert reason in harness.client.status().unreadable[task]
    (line,) = (one for one in harness.client.tasks(TaskFilter()).tasks if one.id == task)
    assert line.status is TaskStatus.BLOCKED
    for command in (("status",), ("show", task), ("why", task)):
        assert reason.split(maxsplit=1)[0] in harness.cli(*command).stdout
    harness.wait_for("the end of its processes", lambda: not processes_of(harness, task))
    return found


@pytest.mark.parametrize("damage", EVERY_DAMAGE)
def test_damage_found_at_start_blocks_that_task_alone_and_it_can_be_cancelled_and_archived(
    tmp_path: Path, damage: Damage
) -> None:
    with DaemonHarness(tmp_path, scenario=held(tmp_path), max_agents=2) as harness:
        task, other = working(harness), working(harness)
        harness.kill()
        damage(harness.folder(task))
        harness.start()
        shown_as_unreadable(harness, task, "cannot be read")
        with refused("unreadable"):
            harness.client.request(task, "retry")
        assert harness.client.request(task, "cancel").status is TaskStatus.CANCELLED
        assert harness.client.task(task).status is TaskStatus.CANCELLED
        assert harness.client.status().unreadable == {}
        assert harness.client.request(task, "archive").status is TaskStatus.ARCHIVED
        (tmp_path / "go").touch()
        harness.wait_for_end(other)
        assert harness.stop() == 0
        harness.start()
        assert harness.client.task(task).status is TaskStatus.ARCHIVED


@pytest.mark.parametrize("damage", [of_journal, without_journal, of_pipeline])
def test_a_task_recovered_under_the_daemon_comes_to_its_end(tmp_path: Path, damage: Damage) -> None:
    with DaemonHarness(tmp_path, scenario=held(tmp_path)) as harness:
        task = working(harness)
        harness.kill()
        damage(harness.folder(task))
        harness.start()
        shown_as_unreadable(harness, task, "cannot be read")
        (tmp_path / "go").touch()
        done = harness.cli("checkpoints", "recover", task)
        assert done.returncode == 0, done.stderr
        assert f"{task} is " in done.stdout
        assert "set aside: " in done.stdout or damage is without_journal
        harness.wait_for_end(task)
        assert len(harness.subjects(task)) == 3
        again = harness.cli("checkpoints", "recover", task)
        assert (again.returncode, "can be read as it is" in again.stderr) == (1, True)


def test_a_task_without_any_state_says_where_its_work_is(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path, scenario=held(tmp_path)) as harness:
        task = working(harness)
        harness.kill()
        of_everything(harness.folder(task))
        harness.start()
        shown_as_unreadable(harness, task, "cannot be read")
        done = harness.cli("checkpoints", "recover", task)
        assert done.returncode == 1
        assert "no state of" in done.stderr
        assert "submit the ticket again" in done.stderr


def test_damage_under_the_running_daemon_blocks_that_task_alone(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path, scenario=held(tmp_path), max_agents=2) as harness:
        task, other = working(harness), working(harness)
        without_journal(harness.folder(task))
        with refused("unreadable"):
            harness.client.request(task, "pause")
        shown_as_unreadable(harness, task, "was deleted or moved")
        (tmp_path / "go").touch()
        harness.wait_for_end(other)
        done = harness.cli("checkpoints", "recover", task)
        assert done.returncode == 0, done.stderr
        harness.wait_for_end(task)


def test_a_journal_truncated_under_the_running_daemon_costs_nothing(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path, scenario=held(tmp_path)) as harness:
        task = working(harness)
        os.truncate(harness.folder(task) / "journal.jsonl", 300)
        (tmp_path / "go").touch()
        harness.wait_for_end(task)
        assert len(harness.taken_turns()) == 6
        assert harness.journal(task, "ForeignEditFound")
