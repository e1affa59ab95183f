"""The event stream as people and scripts follow it, over the death of the daemon too."""

import json
from pathlib import Path

import pytest

from tests.acceptance.harness import DaemonHarness, Json
from tests.acceptance.test_queue import held_by


def decided(harness: DaemonHarness) -> list[tuple[str, int]]:
    """Every decision on disk."""
    tasks = sorted(folder.name for folder in (harness.data / "tasks").iterdir())
    return [(task, line["seq"]) for task in tasks for line in harness.journal(task)]


def test_a_follower_hears_every_event_once_though_the_daemon_is_killed(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with DaemonHarness(tmp_path, scenario=held_by(gate), max_agents=2) as harness:
        output = tmp_path / "heard"
        with output.open("wb") as heard:
            follower = harness.begin("events", "--follow", "--since", "0", "--json", out=heard)
        tasks = [harness.submit("First"), harness.submit("Second")]
        harness.wait_until_it_works(tasks[0], "ANALYSIS")
        harness.wait_for("the first events", output.read_text)
        harness.kill()
        harness.start()
        gate.touch()
        for task in tasks:
            harness.wait_for_end(task)

        def told() -> list[Json]:
            return [json.loads(line) for line in output.read_text().splitlines(keepends=True) if line.endswith("\n")]

        harness.wait_for("every event", lambda: len(told()) >= len(decided(harness)))
        follower.terminate()
        follower.wait()
        assert sorted((one["task"], one["seq"]) for one in told()) == sorted(decided(harness))
        assert [one["number"] for one in told()] == [number + 1 for number in range(len(told()))]


def test_events_are_told_in_words_from_a_number_or_a_time_on(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path) as harness:
        task = harness.submit("First")
        harness.wait_for_end(task)
        every = harness.cli("events", "--since", "0")
        count = len(decided(harness))
        assert (every.returncode, every.stdout.count("\n")) == (0, count)
        assert f"{task}  submitted by " in every.stdout.splitlines()[0]
        assert any(line.endswith("in_progress → completed") for line in every.stdout.splitlines())
        assert harness.cli("events", task, "--since", "-2").stdout.splitlines() == every.stdout.splitlines()[-2:]
        assert harness.cli("events", "--since", str(count - 1)).stdout == every.stdout.splitlines(keepends=True)[-1]
        assert harness.cli("events", "--since", "2000-01-01").stdout == every.stdout
        assert harness.cli("events", "--since", "2999-01-01").stdout == ""
        assert harness.cli("events").stdout.splitlines() == every.stdout.splitlines()[-50:]
        beyond = harness.cli("events", "--since", "100000").stdout
        assert beyond.startswith("some events are lost: there is no event 100000 yet")


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("--since", "whenever"), 2, "yesterday"),
        (("--since", "9" * 30), 2, "--since"),
        (("NOPE-1",), 4, "NOPE-1"),
    ],
)
def test_events_that_cannot_be_meant_are_refused(
    tmp_path: Path, arguments: tuple[str, ...], code: int, says: str
) -> None:
    with DaemonHarness(tmp_path) as harness:
        done = harness.cli("events", *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert says in done.stderr


def test_without_a_daemon_nobody_waits_for_events(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path) as harness:
        harness.stop()
        assert harness.cli("events", "-f").returncode == 3


def test_the_daemon_stops_at_once_though_somebody_follows(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path) as harness:
        harness.wait_for_end(harness.submit("First"))
        output = tmp_path / "heard"
        with output.open("wb") as heard:
            follower = harness.begin("events", "-f", out=heard)
        harness.wait_for("the last event", lambda: "completed" in output.read_text())
        assert harness.stop() == 0
        complaints = [line["event"] for line in harness.log if line["level"] in {"warning", "error"}]
        assert set(complaints) <= {"runs_not_isolated"}
        follower.terminate()
        follower.wait()
