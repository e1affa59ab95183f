"""Who goes first, who waits for whom, and how many at once."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from orchestrator.core.task.task import TaskStatus
from tests.acceptance.harness import DaemonHarness, Json


def held_by(gate: Path) -> Json:
    """Agents that begin only when the gate is there."""
    return {"ANALYSIS": [{"wait_for": str(gate)}]}


def test_tasks_start_by_priority_and_then_by_age(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with DaemonHarness(tmp_path, scenario=held_by(gate)) as harness:
        first = harness.submit("First")
        harness.wait_until_it_works(first, "ANALYSIS")
        low = harness.submit("Low", priority="low")
        normal = harness.submit("Normal")
        younger = harness.submit("Younger")
        critical = harness.submit("Critical", priority="critical")
        assert [line.id for line in harness.client.status().queue] == [critical, normal, younger, low]
        assert "1 of 1" in " ".join(harness.client.why(low).facts)
        gate.touch()
        started = [harness.wait_for_end(task).started_at for task in (first, critical, normal, younger, low)]
        assert started == sorted(filter(None, started))


def test_a_task_waits_for_the_one_it_comes_after(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with DaemonHarness(tmp_path, scenario=held_by(gate), max_agents=2) as harness:
        before = harness.submit("Before")
        after = harness.submit("After", after=(before,))
        harness.wait_until_it_works(before, "ANALYSIS")
        assert harness.client.task(after).status is TaskStatus.PENDING
        assert before in " ".join(harness.client.why(after).facts)
        harness.kill()
        harness.start()
        gate.touch()
        done = harness.wait_for_end(before)
        assert done.completed_at is not None
        later = harness.wait_for_end(after)
        assert later.started_at is not None
        assert later.started_at >= done.completed_at


def test_a_task_does_not_start_when_the_one_before_it_was_cancelled(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path, scenario=held_by(tmp_path / "never")) as harness:
        before = harness.submit("Before")
        after = harness.submit("After", after=(before,))
        harness.client.request(before, "cancel")
        assert harness.nothing_is_left()
        harness.wait_until(before, lambda now: now.run is None)
        assert harness.client.task(after).status is TaskStatus.PENDING
        assert before in " ".join(harness.client.why(after).facts)


def test_no_more_agents_run_than_there_are_places(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with DaemonHarness(tmp_path, scenario=held_by(gate), max_agents=2) as harness:
        tasks = [harness.submit(f"Number {number}") for number in range(4)]
        for task in tasks[:2]:
            harness.wait_until_it_works(task, "ANALYSIS")
        status = harness.client.status()
        assert (status.places, status.places_taken, len(status.running), len(status.queue)) == (2, 2, 2, 2)
        gate.touch()
        for task in tasks:
            harness.wait_for_end(task)
            assert harness.client.status().places_taken <= 2
        assert len({harness.client.task(task).branch for task in tasks}) == 4


def test_a_task_starts_at_its_time_and_not_before(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path) as harness:
        at = datetime.now(UTC) + timedelta(seconds=4)
        task = harness.submit(at=at)
        assert harness.client.task(task).status is TaskStatus.PENDING
        started = harness.wait_for_end(task).started_at
        assert started is not None
        assert at <= started < at + timedelta(minutes=1)
