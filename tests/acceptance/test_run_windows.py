"""Run windows with a real daemon and real processes: agents freeze when they close, and go on when they open."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from orchestrator.core.task.agent import PauseReason
from orchestrator.core.task.task import TaskStatus
from tests.acceptance.harness import DaemonHarness, Json, line_count, none_is_missing, ticking_until

ALWAYS = {"opens": "00:00", "closes": "24:00", "zone": "UTC"}


def later() -> Json:
    """A window that opens in hours."""
    opens = datetime.now(UTC) + timedelta(hours=5)
    return {"opens": f"{opens:%H:%M}", "closes": f"{opens + timedelta(hours=1):%H:%M}", "zone": "UTC"}


def put_in_force(harness: DaemonHarness, window: Json) -> None:
    """Change the window in the settings of the running daemon."""
    file = harness.root / "orchestrator.toml"
    before, heading, _ = file.read_text().partition('["windows"."night"]')
    lines = "".join(f'{key} = "{value}"\n' for key, value in window.items())
    file.write_text(f"{before}{heading}\n{lines}")


def test_agents_freeze_when_their_window_closes_and_go_on_when_it_opens(tmp_path: Path) -> None:
    go, ticks = tmp_path / "go", tmp_path / "ticks"
    scenario: Json = {"ANALYSIS": [{"run": ticking_until(go, ticks)}]}
    with DaemonHarness(tmp_path, scenario=scenario, windows={"night": ALWAYS}) as harness:
        task = harness.submit()
        harness.wait_for("a tick", lambda: line_count(ticks))
        put_in_force(harness, later())
        harness.wait_until_frozen(task)
        found, ticked = harness.client.task(task), line_count(ticks)
        assert found.agent.blocked_by is PauseReason.WINDOW
        why = harness.client.why(task)
        assert why.facts[0].startswith("its run window night opens at ")
        assert "its processes are frozen" in why.facts
        waiting = harness.submit("Another")
        assert harness.client.why(waiting).facts == (why.facts[0],)
        harness.kill()
        harness.settings["windows"] = {"night": later()}
        harness.start()
        harness.wait_until_frozen(task)
        assert line_count(ticks) == ticked
        put_in_force(harness, ALWAYS)
        harness.wait_for("the next tick", lambda: line_count(ticks) > ticked)
        go.touch()
        done = harness.wait_for_end(task)
        assert none_is_missing(ticks)
        assert (done.status, done.failures.total) == (TaskStatus.COMPLETED, 0)
        assert harness.wait_for_end(waiting).status is TaskStatus.COMPLETED


def test_a_person_lets_one_task_run_outside_its_hours(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path, windows={"night": later()}) as harness:
        task, other = harness.submit(), harness.submit("Another", at=datetime.now(UTC) + timedelta(days=1))
        assert harness.client.task(task).status is TaskStatus.PENDING
        said = harness.cli("resume", task, "--now")
        assert said.returncode == 0, said.stderr
        assert harness.wait_for_end(task).status is TaskStatus.COMPLETED
        assert harness.client.task(other).status is TaskStatus.PENDING
        assert harness.client.why(other).facts[0].startswith("it starts at ")
        (window,) = harness.client.limits().run_windows
        assert (window.name, window.is_open) == ("night", False)
