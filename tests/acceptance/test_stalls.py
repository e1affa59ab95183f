"""Agents that show no sign of life are nudged, begun anew and in the end given up; those that only look so are not."""

from pathlib import Path

import pytest

from orchestrator.core.task.task import TaskStatus
from tests.acceptance.claude_harness import ClaudeHarness
from tests.acceptance.claude_roles import Roles
from tests.acceptance.harness import DaemonHarness, Json
from tests.fakes.scripted_model import Drip, Reply, Say, Scene

FOR_EVER = {"think_ms": 600_000}
BURN = "import time\nend = time.monotonic() + {seconds}\nwhile time.monotonic() < end: pass"


def test_an_agent_that_is_silent_for_ever_is_nudged_then_begun_anew_then_given_up(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path, {"PLANNING": [FOR_EVER] * 3}, stall_after=1.5) as harness:
        task = harness.submit()
        blocked = harness.wait_for_end(task, TaskStatus.BLOCKED)
        stalls = [line["event"] for line in harness.journal(task, "StallSeen")]
        assert [(stall["attempt"], stall["turn"]) for stall in stalls] == [(1, 2), (1, 2), (1, 3), (2, 1)]
        for stall in stalls:
            assert " s of processor time, 0 bytes" in stall["evidence"]
            assert "no output, no byte received, no tool at work, and of " in stall["evidence"]
        assert blocked.block_reason
        nudge = (harness.folder(task) / "agents/1/stdin.jsonl").read_text()
        assert "You showed no activity" in nudge
        assert harness.nothing_is_left()


def test_a_nudge_that_helps_is_enough(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path, {"PLANNING": [FOR_EVER, None]}, stall_after=1.5) as harness:
        task = harness.submit()
        harness.wait_for_end(task)
        assert len(harness.journal(task, "StallSeen")) == 2
        assert harness.state(task)["failure_log"] == []


@pytest.mark.claude
def test_an_answer_of_the_real_claude_that_trickles_is_left_alone(tmp_path: Path, claude: Path) -> None:
    """Its pieces come too seldom to keep the process busy, but far more often than a stall takes."""

    def model(scene: Scene) -> Reply:
        reply = Roles()(scene)
        slow = isinstance(reply, Say) and scene.prompt.startswith("# PLANNING")
        return Drip(("The plan ", *("drip " for _ in range(9)), "is there."), every=1.0) if slow else reply

    with ClaudeHarness(claude, tmp_path, model, stall_after=3.0) as harness:
        ended = harness.end_of(harness.submit())
        stalls = [line for line in harness.journal(ended) if line["trigger"] == "StallSeen"]
        harness.assert_done_once(ended)
        assert stalls == []


@pytest.mark.parametrize(
    "turn",
    [
        pytest.param({"run": "sleep 5"}, id="a tool at work", marks=pytest.mark.long),
        pytest.param(
            {"grandchild": f"exec python3 -c '{BURN.format(seconds=6)}'", "think_ms": 5000},
            id="processor time",
        ),
        pytest.param(
            {"grandchild": "i=0; while [ $i -lt 60 ]; do i=$((i+1)); sleep 0.1; done", "think_ms": 5000},
            id="processes come and go",
            marks=pytest.mark.long,
        ),
    ],
)
def test_an_agent_that_only_looks_silent_is_left_alone(tmp_path: Path, turn: Json) -> None:
    with DaemonHarness(tmp_path, {"PLANNING": [turn]}, stall_after=2.0) as harness:
        task = harness.submit()
        harness.wait_for_end(task)
        assert [line["event"]["evidence"] for line in harness.journal(task, "StallSeen")] == []
