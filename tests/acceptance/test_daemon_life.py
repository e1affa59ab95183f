"""The daemon's own life: told to stop, started twice, without room, with new definitions, with files taken away."""

import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from orchestrator.core.task.agent import PauseReason
from orchestrator.core.task.task import TaskStatus
from orchestrator.pipelines.bundled import Kind, bundled
from orchestrator.server.client import Client
from tests.acceptance.house import PATIENCE, House, Json, line_count, none_is_missing, refused, state_of, ticking_until
from tests.looking import taken_away

FOR_EVER = {"ANALYSIS": [{"think_ms": 600_000}]}
ALIVE = "SRD"
"""The letters of processes that run, or wait for something."""


def held(root: Path) -> Json:
    """An agent whose first turn ends only when it is let go."""
    return {"ANALYSIS": [{"wait_for": str(root / "go")}]}


def let_go(root: Path) -> None:
    """Let the agent end its turn."""
    (root / "go").touch()


def test_a_daemon_told_to_stop_saves_its_tasks_and_lets_their_agents_go_on(tmp_path: Path) -> None:
    with House(tmp_path, scenario=held(tmp_path)) as house:
        task = house.submit()
        pid = house.wait_until(task, lambda now: now.agent.pid and house.taken_turns()).agent.pid
        assert pid is not None
        assert house.stop() == 0
        assert state_of(pid) in ALIVE
        assert list((house.folder(task) / "checkpoints").iterdir())
        assert house.journal(task)[-1]["trigger"] == "CheckpointSaved"
        assert not house.client.socket.exists()
        assert house.log[-1]["event"] == "daemon_stopped"
        house.start()
        assert house.client.task(task).agent.pid == pid
        let_go(tmp_path)
        house.wait_for_end(task)
        assert len(house.taken_turns()) == 6


def test_the_service_manager_hears_how_many_are_at_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(PATIENCE)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        with House(tmp_path, scenario=FOR_EVER) as house:
            assert manager.recv(100) == b"READY=1"
            house.submit()
            heard = (manager.recv(100) for _ in range(100))
            assert b"STATUS=1 active, 0 queued, 0 paused" in heard


def test_uncommitted_work_is_in_the_checkpoint_of_a_daemon_that_stops(tmp_path: Path) -> None:
    dirty = {"write": {"file": "half-done.txt", "text": "not lost\n"}, "think_ms": 600_000}
    with House(tmp_path, scenario={"IMPLEMENTATION": [[{"write": dirty["write"]}, {"think_ms": 600_000}]]}) as house:
        task = house.submit()
        worktree = house.wait_until(task, lambda now: now.stage == "IMPLEMENTATION" and now.worktree).worktree
        house.wait_for("work that is not committed", (Path(worktree or "") / "half-done.txt").exists)
        assert house.stop() == 0
        commit = house.journal(task, "CheckpointSaved")[-1]["event"]["commit"]
        clone = (house.data / "repos/tasks" / task).readlink()
        shown = subprocess.run(["git", "-C", clone, "show", f"{commit}:half-done.txt"], check=True, capture_output=True)
        assert shown.stdout == b"not lost\n"


def test_a_summary_that_a_crash_kept_from_the_disk_is_written_after_the_next_start(tmp_path: Path) -> None:
    with House(tmp_path) as house:
        task = house.submit()
        done = house.wait_for_end(task)
        house.kill()
        summary = house.folder(task) / "summary.md"
        summary.unlink()
        house.start()
        house.wait_for("the summary", summary.exists)
        assert done.branch in summary.read_text()


def test_a_second_daemon_on_the_same_data_folder_refuses_and_names_the_first(tmp_path: Path) -> None:
    with House(tmp_path) as house:
        assert house.daemon is not None
        second = house.cli("serve")
        assert second.returncode == 1
        assert second.stdout == ""
        assert str(house.daemon.pid) in second.stderr
        assert second.stderr.count("\n") == 1
        assert house.answers(), "the first one is none the worse for it"


def test_the_socket_of_a_daemon_that_is_no_more_is_replaced(tmp_path: Path) -> None:
    with House(tmp_path) as house:
        house.kill()
        assert house.client.socket.is_socket()
        house.start()
        assert house.client.socket.stat().st_mode & 0o777 == 0o600


def test_what_is_no_socket_is_not_replaced(tmp_path: Path) -> None:
    with House(tmp_path) as house:
        house.stop()
        house.client.socket.write_text("precious")
        refusal = house.cli("serve")
        assert refusal.returncode == 1
        assert str(house.client.socket) in refusal.stderr
        assert "Traceback" not in refusal.stderr
        assert house.client.socket.read_text() == "precious"


def test_a_daemon_stops_in_time_though_a_client_says_nothing(tmp_path: Path) -> None:
    with House(tmp_path) as house, socket.socket(socket.AF_UNIX) as silent:
        silent.connect(str(house.client.socket))
        silent.sendall(b"GET /api/status HT")
        assert house.stop() == 0


def test_a_daemon_told_to_stop_does_not_wait_for_a_git_that_takes_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git = tmp_path / "bin/git"
    git.parent.mkdir()
    slow = f'case " $* " in *" fetch "*) if [ -e {tmp_path}/slow ]; then touch {tmp_path}/waits; sleep 600; fi;; esac'
    git.write_text(f'#!/bin/sh\n{slow}\nPATH=${{PATH#*:}} exec git "$@"\n')
    git.chmod(0o755)
    monkeypatch.setenv("PATH", f"{git.parent}:{os.environ['PATH']}")
    (tmp_path / "slow").touch()
    with House(tmp_path) as house:
        task = house.submit()
        house.wait_for("the slow fetch", (tmp_path / "waits").exists)
        assert house.stop() == 0
        (tmp_path / "slow").unlink()
        house.start()
        assert house.wait_for_end(task).failures.total == 0


def test_new_definitions_are_taken_over_and_bad_ones_refused_with_the_last_good_kept(tmp_path: Path) -> None:
    pipelines = tmp_path / "pipelines"
    pipelines.mkdir()
    with House(tmp_path, folders={"pipelines": [str(pipelines)]}) as house:
        with refused("refused", "'short'"):
            house.submit(pipeline="short")
        good = (bundled(Kind.PIPELINES) / "full.toml").read_text().replace('name = "full"', 'name = "short"')
        house.overwrite(pipelines / "short.toml", good)
        house.wait_for("the new pipeline", lambda: "short" in str(house.log))
        task = house.submit(pipeline="short")
        house.overwrite(pipelines / "short.toml", good.replace("next = ", "nxt = "))
        house.wait_for("the refusal", lambda: [line for line in house.log if line["event"] == "definitions_refused"])
        refusal = next(line for line in house.log if line["event"] == "definitions_refused")
        assert "short.toml" in str(refusal["problems"])
        assert house.wait_for_end(task).pipeline == "short"
        house.wait_for_end(house.submit(pipeline="short"))


def test_changed_settings_are_taken_over_while_tasks_wait_and_bad_ones_refused(tmp_path: Path) -> None:
    with House(tmp_path, scenario=held(tmp_path), max_agents=1) as house:
        first, second = house.submit(), house.submit()
        house.wait_for("one at work", lambda: house.client.task(first).agent.turn == 1)
        assert house.client.task(second).status is TaskStatus.PENDING
        settings = tmp_path / "orchestrator.toml"
        house.overwrite(settings, settings.read_text().replace("max_agents = 1", "max_agents = many"))
        house.wait_for("the refusal", lambda: [line for line in house.log if line["event"] == "settings_refused"])
        assert house.client.task(second).status is TaskStatus.PENDING
        house.overwrite(settings, settings.read_text().replace("max_agents = many", "max_agents = 2"))
        house.wait_for("both at work", lambda: house.client.task(second).agent.turn == 1)
        let_go(tmp_path)
        for task in (first, second):
            assert house.wait_for_end(task).status is TaskStatus.COMPLETED


def test_without_room_on_the_disk_everything_is_held_with_the_reason(tmp_path: Path) -> None:
    with House(tmp_path, free_space_floor="900TiB") as house:
        task = house.submit()
        assert "free_space_floor" in " ".join(house.client.why(task).facts)
        assert house.client.status().health == "pressure"
        assert house.client.task(task).status is TaskStatus.PENDING
        assert house.stop() == 0
        house.settings["free_space_floor"] = "1MiB"
        house.start()
        house.wait_for_end(task)


def test_agents_at_work_are_frozen_when_the_room_goes_and_go_on_when_it_comes_back(tmp_path: Path) -> None:
    ticks = tmp_path / "ticks"
    with House(tmp_path, scenario={"ANALYSIS": [{"run": ticking_until(tmp_path / "go", ticks)}]}) as house:
        task = house.submit()
        house.wait_for("a tick", lambda: line_count(ticks))
        assert house.stop() == 0
        house.settings["free_space_floor"] = "900TiB"
        house.start()
        frozen = house.wait_until_frozen(task)
        assert frozen.agent.blocked_by is PauseReason.PRESSURE
        assert "free_space_floor" in " ".join(house.client.why(task).facts)
        assert house.stop() == 0
        house.settings["free_space_floor"] = "1MiB"
        let_go(tmp_path)
        house.start()
        house.wait_for_end(task)
        assert none_is_missing(ticks)


def test_a_task_whose_folder_is_deleted_ends_and_the_daemon_lives_on(tmp_path: Path) -> None:
    with House(tmp_path, scenario=FOR_EVER) as house:
        task = house.submit()
        house.wait_until(task, lambda now: now.agent.pid and house.taken_turns())
        house.wait_for("an empty place", lambda: taken_away(house.folder(task)))
        assert house.nothing_is_left()
        assert house.answers()
        assert house.stop() == 0
        house.scenario = {}
        house.start()
        house.wait_for_end(house.submit())


def test_state_json_edited_by_hand_is_set_aside_and_the_truth_restored(tmp_path: Path) -> None:
    with House(tmp_path, scenario=FOR_EVER) as house:
        task = house.submit()
        house.wait_for("the last decision for long", lambda: house.state(task)["agent"]["session"]["is_known"])
        state = house.folder(task) / "state.json"
        house.overwrite(state, state.read_text().replace('"in_progress"', '"completed"'))
        house.wait_for("the truth", lambda: house.journal(task, "ForeignEditFound"))
        found = house.journal(task, "ForeignEditFound")[-1]["event"]
        assert "/status" in found["changed"]
        assert '"completed"' in (house.folder(task) / found["kept_as"]).read_text()
        assert house.state(task)["status"] == "in_progress"


@pytest.mark.parametrize("damage", ["", '{"schema_ver', "null"], ids=["empty", "torn", "null"])
def test_a_damaged_state_json_is_had_again_from_the_journal(tmp_path: Path, damage: str) -> None:
    with House(tmp_path, scenario=held(tmp_path)) as house:
        task = house.submit()
        house.wait_until(task, lambda now: now.agent.pid and house.taken_turns())
        house.kill()
        (house.folder(task) / "state.json").write_text(damage)
        house.start()
        let_go(tmp_path)
        house.wait_for_end(task)
        assert len(house.taken_turns()) == 6


def test_a_state_json_edited_while_no_daemon_ran_is_set_aside_too(tmp_path: Path) -> None:
    with House(tmp_path, scenario=held(tmp_path)) as house:
        task = house.submit()
        house.wait_until(task, lambda now: now.agent.pid and house.taken_turns())
        house.kill()
        state = house.folder(task) / "state.json"
        state.write_text(state.read_text().replace('"ANALYSIS"', '"COMPLETION"'))
        house.start()
        let_go(tmp_path)
        house.wait_for_end(task)
        (found,) = house.journal(task, "ForeignEditFound")
        assert (house.folder(task) / found["event"]["kept_as"]).exists()
        assert len(house.subjects(task)) == 3


def test_a_task_from_a_later_version_is_left_alone_and_the_others_go_on(tmp_path: Path) -> None:
    with House(tmp_path, scenario=held(tmp_path), max_agents=2) as house:
        later, other = house.submit(), house.submit()
        house.wait_until(later, lambda now: now.agent.pid)
        house.stop()
        state = house.folder(later) / "state.json"
        future = state.read_text().replace('"schema_version": 2', '"schema_version": 99')
        state.write_text(future)
        house.start()
        let_go(tmp_path)
        house.wait_for_end(other)
        assert [line for line in house.log if line["event"] == "task_not_loaded"]
        assert state.read_text() == future
        with refused("unreadable", "99"):
            house.client.task(later)


def test_a_daemon_that_hangs_up_with_its_terminal_leaves_its_agents_alive(tmp_path: Path) -> None:
    with House(tmp_path, scenario=held(tmp_path)) as house:
        task = house.submit()
        pid = house.wait_until(task, lambda now: now.agent.pid and house.taken_turns()).agent.pid
        assert pid is not None
        assert house.daemon is not None
        os.kill(house.daemon.pid, signal.SIGHUP)
        house.daemon.wait(PATIENCE)
        assert state_of(pid) in ALIVE
        house.start()
        let_go(tmp_path)
        house.wait_for_end(task)


def test_a_data_folder_that_was_moved_after_a_power_cut_goes_on_in_its_new_place(tmp_path: Path) -> None:
    half_done = {"write": {"file": "half-done.txt", "text": "not lost\n"}}
    with House(tmp_path, {"IMPLEMENTATION": [[half_done, {"think_ms": 600_000}], []]}) as house:
        task = house.submit()
        worktree = Path(house.wait_until(task, lambda now: now.stage == "IMPLEMENTATION").worktree or "")
        house.wait_for("work that is not committed", (worktree / "half-done.txt").exists)
        house.kill()
        for pid in house.survivors():
            os.kill(pid, signal.SIGKILL)
        moved = tmp_path / "elsewhere/data"
        moved.parent.mkdir()
        house.data.rename(moved)
        with house.client:
            house.data, house.client = moved, Client(moved / "orchestrator.sock")
        house.start()
        done = house.wait_for_end(task)
        assert done.folder == str(moved / "tasks" / task)
        assert (moved / "worktrees" / task / "half-done.txt").read_text() == "not lost\n"
        assert len(house.subjects(task)) == 3
