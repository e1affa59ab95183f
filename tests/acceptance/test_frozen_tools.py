"""A command that ran out of time only because its agent stood still is no mistake of the agent's."""

import time
from pathlib import Path

import pytest

from tests.acceptance.claude_harness import ClaudeHarness
from tests.acceptance.claude_roles import Roles
from tests.acceptance.harness import DaemonHarness, line_count, ticking_until
from tests.fakes.scripted_model import Use

TIMEOUT = 3.0
"""Seconds that the command may take; it takes as long as it is let."""
UNFAIR = "ran out of time only because you had been stopped meanwhile; run it again"


def ticking(ticks: Path) -> str:
    """A command that ticks until the file `go` is beside its ticks."""
    return f"{ticking_until(ticks.with_name('go'), ticks)}; echo done >> {ticks}"


def let_go(ticks: Path) -> None:
    """Let the command come to its end."""
    ticks.with_name("go").touch()


def test_a_turn_whose_command_was_frozen_beyond_its_time_is_taken_once_more(tmp_path: Path) -> None:
    ticks = tmp_path / "ticks"
    late = {"tool_times_out": {"command": ticking(ticks), "seconds": TIMEOUT}}
    with DaemonHarness(tmp_path, {"PLANNING": [late, late]}) as harness:
        task = harness.submit()
        harness.wait_for("a tick", lambda: line_count(ticks))
        harness.client.request(task, "pause")
        harness.wait_until_frozen(task)
        over = time.monotonic() + TIMEOUT
        harness.wait_for("the end of the command's time", lambda: time.monotonic() > over)
        harness.client.request(task, "resume")
        harness.wait_for("the same turn", lambda: UNFAIR in "".join(harness.turn_texts(task, 1)))
        let_go(ticks)
        ended = harness.wait_for_end(task)
        assert [UNFAIR in text for text in harness.turn_texts(task, 1)].count(True) == 1
        assert ticks.read_text().split().count("done") == 1
        assert ended.failures.total == 0
        assert ended.agent.attempt == 2


def test_a_command_that_runs_out_of_time_by_itself_is_left_to_its_agent(tmp_path: Path) -> None:
    late = {"tool_times_out": {"command": "exec sleep 60", "seconds": 0.2}}
    with DaemonHarness(tmp_path, {"PLANNING": [late]}) as harness:
        task = harness.submit()
        harness.wait_for_end(task)
        assert UNFAIR not in "".join(harness.turn_texts(task, 1))


@pytest.mark.long
@pytest.mark.claude
def test_the_real_claude_takes_a_turn_again_whose_command_was_frozen_beyond_its_time(
    tmp_path: Path, claude: Path
) -> None:
    ticks = tmp_path / "ticks"
    command = Use("Bash", {"command": ticking(ticks), "description": "work", "timeout": round(1000 * TIMEOUT)})
    with ClaudeHarness(claude, tmp_path, Roles(before={"PLANNING": command})) as harness:
        task = harness.submit()
        harness.until(lambda: line_count(ticks), "the command ticks")
        harness.client.request(task, "pause")
        harness.wait_for(task, lambda now: now.run and now.run.process.value == "frozen")
        over = time.monotonic() + TIMEOUT
        harness.until(lambda: time.monotonic() > over, "the command's time is over")
        harness.client.request(task, "resume")
        harness.until(lambda: UNFAIR in "".join(harness.prompts()), "the same turn begins")
        let_go(ticks)
        ended = harness.end_of(task)
        harness.assert_done_once(ended)
        assert [UNFAIR in prompt for prompt in harness.prompts()].count(True) == 1
        heard = [result.text for scene in harness.api.scenes for result in scene.results]
        assert any("Command timed out" in text for text in heard)
        assert ticks.read_text().split().count("done") == 1
        assert ended.failures.total == 0
