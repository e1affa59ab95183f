"""A command that ran out of time only because its agent stood still is no mistake of the agent's."""

import time
from pathlib import Path

import pytest

from tests.acceptance.claude_house import ClaudeHouse
from tests.acceptance.claude_roles import Roles
from tests.acceptance.house import House, line_count, ticking_until
from tests.fakes.playwright import Use

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
    with House(tmp_path, {"PLANNING": [late, late]}) as house:
        task = house.submit()
        house.wait_for("a tick", lambda: line_count(ticks))
        house.client.request(task, "pause")
        house.wait_until_frozen(task)
        over = time.monotonic() + TIMEOUT
        house.wait_for("the end of the command's time", lambda: time.monotonic() > over)
        house.client.request(task, "resume")
        house.wait_for("the same turn", lambda: UNFAIR in "".join(house.turn_texts(task, 1)))
        let_go(ticks)
        ended = house.wait_for_end(task)
        assert [UNFAIR in text for text in house.turn_texts(task, 1)].count(True) == 1
        assert ticks.read_text().split().count("done") == 1
        assert ended.failures.total == 0
        assert ended.agent.attempt == 2


def test_a_command_that_runs_out_of_time_by_itself_is_left_to_its_agent(tmp_path: Path) -> None:
    late = {"tool_times_out": {"command": "exec sleep 60", "seconds": 0.2}}
    with House(tmp_path, {"PLANNING": [late]}) as house:
        task = house.submit()
        house.wait_for_end(task)
        assert UNFAIR not in "".join(house.turn_texts(task, 1))


@pytest.mark.long
@pytest.mark.claude
def test_the_real_claude_takes_a_turn_again_whose_command_was_frozen_beyond_its_time(
    tmp_path: Path, claude: Path
) -> None:
    ticks = tmp_path / "ticks"
    command = Use("Bash", {"command": ticking(ticks), "description": "work", "timeout": round(1000 * TIMEOUT)})
    with ClaudeHouse(claude, tmp_path, Roles(before={"PLANNING": command})) as house:
        task = house.submit()
        house.until(lambda: line_count(ticks), "the command ticks")
        house.client.request(task, "pause")
        house.wait_for(task, lambda now: now.run and now.run.process.value == "frozen")
        over = time.monotonic() + TIMEOUT
        house.until(lambda: time.monotonic() > over, "the command's time is over")
        house.client.request(task, "resume")
        house.until(lambda: UNFAIR in "".join(house.prompts()), "the same turn begins")
        let_go(ticks)
        ended = house.end_of(task)
        house.assert_done_once(ended)
        assert [UNFAIR in prompt for prompt in house.prompts()].count(True) == 1
        heard = [result.text for scene in house.api.scenes for result in scene.results]
        assert any("Command timed out" in text for text in heard)
        assert ticks.read_text().split().count("done") == 1
        assert ended.failures.total == 0
