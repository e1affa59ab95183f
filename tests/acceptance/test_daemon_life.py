"""The daemon's own life: told to stop, started twice, without room, with new definitions, with files taken away."""

import os
import signal
import socket
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from orchestrator.core.task.agent import PauseReason
from orchestrator.core.task.task import TaskStatus
from orchestrator.formats.files import read_file
from orchestrator.pipelines.bundled import Kind, bundled
from orchestrator.server.client import Client
from tests.acceptance.harness import (
    PATIENCE,
    DaemonHarness,
    Json,
    line_count,
    none_is_missing,
    refused,
    state_of,
    ticking_until,
)
from tests.folder_search import try_remove

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
    with DaemonHarness(tmp_path, scenario=held(tmp_path)) as harness:
        task = harness.submit()
        pid = harness.wait_until(task, lambda now: now.agent.pid and harness.taken_turns()).agent.pid
        assert pid is not None
        assert harness.stop() == 0
        assert state_of(pid) in ALIVE
        assert list((harness.folder(task) / "checkpoints").iterdir())
        assert harness.journal(task)[-1]["trigger"] == "CheckpointSaved"
        assert not harness.client.socket.exists()
        assert harness.log[-1]["event"] == "daemon_stopped"
        harness.start()
        assert harness.client.task(task).agent.pid == pid
        let_go(tmp_path)
        harness.wait_for_end(task)
        assert len(harness.taken_turns()) == 6


def test_the_service_manager_hears_how_many_are_at_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(PATIENCE)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        with DaemonHarness(tmp_path, scenario=FOR_EVER) as harness:
            assert manager.recv(100) == b"READY=1"
            harness.submit()
            heard = (manager.recv(100) for _ in range(100))
            assert b"STATUS=1 active, 0 queued, 0 paused" in heard


def test_uncommitted_work_is_in_the_checkpoint_of_a_daemon_that_stops(tmp_path: Path) -> None:
    dirty = {"write": {"file": "half-done.txt", "text": "not lost\n"}, "think_ms": 600_000}
    with DaemonHarness(
        tmp_path, scenario={"IMPLEMENTATION": [[{"write": dirty["write"]}, {"think_ms": 600_000}]]}
    ) as harness:
        task = harness.submit()
        worktree = harness.wait_until(task, lambda now: now.stage == "IMPLEMENTATION" and now.worktree).worktree
        harness.wait_for("work that is not committed", (Path(worktree or "") / "half-done.txt").exists)
        assert harness.stop() == 0
        commit = harness.journal(task, "CheckpointSaved")[-1]["event"]["commit"]
        clone = harness.data / "repos/tasks" / task
        shown = subprocess.run(["git", "-C", clone, "show", f"{commit}:half-done.txt"], check=True, capture_output=True)
        assert shown.stdout == b"not lost\n"


def test_a_summary_that_a_crash_kept_from_the_disk_is_written_after_the_next_start(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path) as harness:
        task = harness.submit()
        done = harness.wait_for_end(task)
        harness.kill()
        summary = harness.folder(task) / "summary.md"
        summary.unlink()
        harness.start()
        harness.wait_for("the summary", summary.exists)
        assert done.branch in summary.read_text()


def test_a_second_daemon_on_the_same_data_folder_refuses_and_names_the_first(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path) as harness:
        assert harness.daemon is not None
        second = harness.cli("serve")
        assert second.returncode == 1
        assert second.stdout == ""
        assert str(harness.daemon.pid) in second.stderr
        assert second.stderr.count("\n") == 1
        assert harness.answers(), "the first one is none the worse for it"


def test_the_socket_of_a_daemon_that_is_no_more_is_replaced(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path) as harness:
        harness.kill()
        assert harness.client.socket.is_socket()
        harness.start()
        assert harness.client.socket.stat().st_mode & 0o777 == 0o600


def test_what_is_no_socket_is_not_replaced(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path) as harness:
        harness.stop()
        harness.client.socket.write_text("precious")
        refusal = harness.cli("serve")
        assert refusal.returncode == 1
        assert str(harness.client.socket) in refusal.stderr
        assert "Traceback" not in refusal.stderr
        assert harness.client.socket.read_text() == "precious"


def test_a_daemon_stops_in_time_though_a_client_says_nothing(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path) as harness, socket.socket(socket.AF_UNIX) as silent:
        silent.connect(str(harness.client.socket))
        silent.sendall(b"GET /api/status HT")
        assert harness.stop() == 0


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
    with DaemonHarness(tmp_path) as harness:
        task = harness.submit()
        harness.wait_for("the slow fetch", (tmp_path / "waits").exists)
        assert harness.stop() == 0
        (tmp_path / "slow").unlink()
        harness.start()
        assert harness.wait_for_end(task).failures.total == 0


def test_new_definitions_are_taken_over_and_bad_ones_refused_with_the_last_good_kept(tmp_path: Path) -> None:
    pipelines = tmp_path / "pipelines"
    pipelines.mkdir()
    with DaemonHarness(tmp_path, folders={"pipelines": [str(pipelines)]}) as harness:
        with refused("refused", "'short'"):
            harness.submit(pipeline="short")
        good = (bundled(Kind.PIPELINES) / "full.toml").read_text().replace('name = "full"', 'name = "short"')
        harness.overwrite(pipelines / "short.toml", good)
        harness.wait_for("the new pipeline", lambda: "short" in str(harness.log))
        task = harness.submit(pipeline="short")
        harness.overwrite(pipelines / "short.toml", good.replace("next = ", "nxt = "))
        harness.wait_for(
            "the refusal", lambda: [line for line in harness.log if line["event"] == "definitions_refused"]
        )
        refusal = next(line for line in harness.log if line["event"] == "definitions_refused")
        assert "short.toml" in str(refusal["problems"])
        assert harness.wait_for_end(task).pipeline == "short"
        harness.wait_for_end(harness.submit(pipeline="short"))


def test_changed_settings_are_taken_over_while_tasks_wait_and_bad_ones_refused(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path, scenario=held(tmp_path), max_agents=1) as harness:
        first, second = harness.submit(), harness.submit()
        harness.wait_for("one at work", lambda: harness.client.task(first).agent.turn == 1)
        assert harness.client.task(second).status is TaskStatus.PENDING
        settings = tmp_path / "orchestrator.toml"
        harness.overwrite(settings, settings.read_text().replace("max_agents = 1", "max_agents = many"))
        harness.wait_for("the refusal", lambda: [line for line in harness.log if line["event"] == "settings_refused"])
        assert harness.client.task(second).status is TaskStatus.PENDING
        harness.overwrite(settings, settings.read_text().replace("max_agents = many", "max_agents = 2"))
        harness.wait_for("both at work", lambda: harness.client.task(second).agent.turn == 1)
        let_go(tmp_path)
        for task in (first, second):
            assert harness.wait_for_end(task).status is TaskStatus.COMPLETED


def test_without_room_on_the_disk_everything_is_held_with_the_reason(tmp_path: Path) -> None:
    tell = ["sh", "-c", f"(cat; echo) >> {tmp_path}/told"]
    with DaemonHarness(tmp_path, free_space_floor="900TiB", people={"notify_command": tell}) as harness:
        task = harness.submit()
        assert "free_space_floor" in " ".join(harness.client.why(task).facts)
        assert harness.client.status().health == "pressure"
        assert harness.client.task(task).status is TaskStatus.PENDING
        harness.wait_for("the notice", lambda: line_count(tmp_path / "told"))
        harness.kill()
        harness.settings["free_space_floor"] = "64MiB"
        harness.start()
        harness.wait_for_end(task)
        harness.wait_for("its end", lambda: '"disk_recovered"' in (tmp_path / "told").read_text())
        assert (tmp_path / "told").read_text().count('"event": "disk_low"') == 1


def test_agents_at_work_are_frozen_when_the_room_goes_and_go_on_when_it_comes_back(tmp_path: Path) -> None:
    ticks = tmp_path / "ticks"
    with DaemonHarness(tmp_path, scenario={"ANALYSIS": [{"run": ticking_until(tmp_path / "go", ticks)}]}) as harness:
        task = harness.submit()
        harness.wait_for("a tick", lambda: line_count(ticks))
        assert harness.stop() == 0
        harness.settings["free_space_floor"] = "900TiB"
        harness.start()
        frozen = harness.wait_until_frozen(task)
        assert frozen.agent.blocked_by is PauseReason.PRESSURE
        assert "free_space_floor" in " ".join(harness.client.why(task).facts)
        assert harness.stop() == 0
        harness.settings["free_space_floor"] = "64MiB"
        let_go(tmp_path)
        harness.start()
        harness.wait_for_end(task)
        assert none_is_missing(ticks)


def test_a_task_whose_folder_is_deleted_ends_and_the_daemon_lives_on(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path, scenario=FOR_EVER) as harness:
        task = harness.submit()
        harness.wait_until(task, lambda now: now.agent.pid and harness.taken_turns())
        harness.wait_for("an empty place", lambda: try_remove(harness.folder(task)))
        assert harness.nothing_is_left()
        assert harness.answers()
        assert harness.stop() == 0
        harness.scenario = {}
        harness.start()
        harness.wait_for_end(harness.submit())


def test_state_json_edited_by_hand_is_set_aside_and_the_truth_restored(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path, scenario=FOR_EVER) as harness:
        task = harness.submit()
        harness.wait_for("the last decision for long", lambda: harness.state(task)["agent"]["session"]["is_known"])
        state = harness.folder(task) / "state.json"

        def edited() -> list[Json]:
            found = harness.journal(task, "ForeignEditFound")
            ours = (read_file(state) or b"").decode()
            if not found and '"in_progress"' in ours:  # again if the daemon wrote its own file over the first edit
                harness.overwrite(state, ours.replace('"in_progress"', '"completed"'))
            return found

        found = harness.wait_for("the edit to be found", edited)[0]["event"]
        harness.wait_for("the truth", lambda: b'"in_progress"' in (read_file(state) or b""))
        assert "/status" in found["changed"]
        assert '"completed"' in (harness.folder(task) / found["kept_as"]).read_text()


@pytest.mark.parametrize("damage", ["", '{"schema_ver', "null"], ids=["empty", "torn", "null"])
def test_a_damaged_state_json_is_had_again_from_the_journal(tmp_path: Path, damage: str) -> None:
    with DaemonHarness(tmp_path, scenario=held(tmp_path)) as harness:
        task = harness.submit()
        harness.wait_until(task, lambda now: now.agent.pid and harness.taken_turns())
        harness.kill()
        (harness.folder(task) / "state.json").write_text(damage)
        harness.start()
        let_go(tmp_path)
        harness.wait_for_end(task)
        assert len(harness.taken_turns()) == 6


def test_a_state_json_edited_while_no_daemon_ran_is_set_aside_too(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path, scenario=held(tmp_path)) as harness:
        task = harness.submit()
        harness.wait_until(task, lambda now: now.agent.pid and harness.taken_turns())
        harness.kill()
        state = harness.folder(task) / "state.json"
        state.write_text(state.read_text().replace('"ANALYSIS"', '"COMPLETION"'))
        harness.start()
        let_go(tmp_path)
        harness.wait_for_end(task)
        (found,) = harness.journal(task, "ForeignEditFound")
        assert (harness.folder(task) / found["event"]["kept_as"]).exists()
        assert len(harness.subjects(task)) == 3


def test_a_task_from_a_later_version_is_blocked_and_its_files_are_left_alone(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path, scenario=held(tmp_path), max_agents=2) as harness:
        later, other = harness.submit(), harness.submit()
        harness.wait_until(later, lambda now: now.agent.pid)
        harness.stop()
        state = harness.folder(later) / "state.json"
        future = state.read_text().replace('"schema_version": 2', '"schema_version": 99')
        state.write_text(future)
        harness.start()
        let_go(tmp_path)
        harness.wait_for_end(other)
        assert [line for line in harness.log if line["event"] == "task_unreadable"]
        assert "99" in (harness.client.task(later).block_reason or "")
        with refused("unreadable", "99"):
            harness.client.request(later, "cancel")
        assert state.read_text() == future


def test_a_daemon_that_hangs_up_with_its_terminal_leaves_its_agents_alive(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path, scenario=held(tmp_path)) as harness:
        assert harness.stop() == 0
        terminal, stdin = os.openpty()
        harness.start(stdin)
        os.close(stdin)
        task = harness.submit()
        pid = harness.wait_until(task, lambda now: now.agent.pid and harness.taken_turns()).agent.pid
        assert pid is not None
        assert harness.daemon is not None
        os.kill(harness.daemon.pid, signal.SIGHUP)
        assert harness.daemon.wait(PATIENCE) == 0
        os.close(terminal)
        assert state_of(pid) in ALIVE
        harness.start()
        let_go(tmp_path)
        harness.wait_for_end(task)


def test_a_data_folder_that_was_moved_after_a_power_cut_goes_on_in_its_new_place(tmp_path: Path) -> None:
    half_done = {"write": {"file": "half-done.txt", "text": "not lost\n"}}
    with DaemonHarness(tmp_path, {"IMPLEMENTATION": [[half_done, {"think_ms": 600_000}], []]}) as harness:
        task = harness.submit()
        worktree = Path(harness.wait_until(task, lambda now: now.stage == "IMPLEMENTATION").worktree or "")
        harness.wait_for("work that is not committed", (worktree / "half-done.txt").exists)
        harness.kill()
        while pids := harness.survivors():
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        moved = tmp_path / "elsewhere/data"
        moved.parent.mkdir()
        harness.data.rename(moved)
        with harness.client:
            harness.data, harness.client = moved, Client(moved / "orchestrator.sock")
        harness.start()
        done = harness.wait_for_end(task)
        assert done.folder == str(moved / "tasks" / task)
        assert (moved / "worktrees" / task / "half-done.txt").read_text() == "not lost\n"
        assert len(harness.subjects(task)) == 3
