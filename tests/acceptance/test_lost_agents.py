"""Agents that die, lie, hang or never come up: each costs a try or nothing, and is told of in words."""

import re
import sys
from pathlib import Path

import pytest

from orchestrator.core.task.task import TaskStatus
from tests.acceptance.harness import DaemonHarness, Json

FOR_EVER = 600_000
KILLED = "ended by signal 9|ended with exit code 137"
"""What is known of an agent that was killed: without a sandbox, or in one, which reports ends as a shell does."""


@pytest.mark.parametrize(
    ("turn", "reason"),
    [
        ({"die_mid_line": True}, KILLED),
        ({"exit": 0}, "ended with exit code 0 without a result"),
        pytest.param({"exit": 3}, "ended with exit code 3 without a result", marks=pytest.mark.long),
        pytest.param({"no_result": True}, "no result within 5 s", marks=pytest.mark.long),
        pytest.param({"silent": True}, "no result within 5 s", marks=pytest.mark.long),
        ({"ignore_term": True, "think_ms": FOR_EVER}, "no result within 5 s"),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, dict) else "",
)
def test_a_lost_turn_is_taken_again_by_the_next_attempt(tmp_path: Path, turn: Json, reason: str) -> None:
    with DaemonHarness(tmp_path, scenario={"PLANNING": [turn]}, turn_timeout=5) as harness:
        task = harness.submit()
        harness.wait_for_end(task)
        (failure,) = harness.state(task)["failure_log"]
        assert re.search(reason, failure["actual_outcome"]["summary"])
        assert failure["resolution"]["action"] == "retry"
        assert len(harness.subjects(task)) == 3
        assert harness.nothing_is_left()


def test_a_service_that_is_overloaded_is_waited_for_and_costs_no_try(tmp_path: Path) -> None:
    overloaded: Json = {"error": {"text": "API Error: 529 overloaded", "status": 529}}
    with DaemonHarness(tmp_path, scenario={"PLANNING": [overloaded]}) as harness:
        task = harness.submit()
        done = harness.wait_for_end(task)
        told = [line["event"] for line in harness.journal(task, "TurnFinished")]
        assert [turn["error_class"] for turn in told].count("overloaded") == 1
        assert harness.state(task)["failure_log"] == []
        assert done.budgets["agent_retries"].used == 0


@pytest.mark.parametrize(
    "turn",
    [
        {"garbage": 100_000},
        {"huge_line": (64 << 20) + 1},
        {"hang_after_result": True},
        {"grandchild": "trap '' TERM HUP; sleep 600"},
        {"run": "exit 7"},
        [{"say": "=== PHASE 1 COMPLETE ===\n<task-result>done</task-result>"}],
    ],
    ids=lambda turn: "+".join(turn) if isinstance(turn, dict) else "say",
)
def test_bad_manners_cost_nothing(tmp_path: Path, turn: object) -> None:
    with DaemonHarness(tmp_path, scenario={"DESIGN": [turn]}) as harness:
        task = harness.submit()
        harness.wait_for_end(task)
        assert harness.state(task)["failure_log"] == []
        assert len(harness.taken_turns()) == 6
        assert harness.nothing_is_left()


def test_an_agent_that_dies_every_time_blocks_the_task_and_keeps_its_last_words(tmp_path: Path) -> None:
    program = [sys.executable, "-c", "import sys; sys.exit('Error: not logged in. Run `agent login` first.')"]
    with DaemonHarness(tmp_path, agent={"driver": "command", "command": program}) as harness:
        task = harness.submit()
        blocked = harness.wait_for_end(task, TaskStatus.BLOCKED)
        assert "not logged in. Run `agent login` first." in (blocked.block_reason or "")
        assert len(harness.client.agents(task).attempts) == 3, "the first and two more"
        assert "not logged in" in " ".join(harness.client.why(task).facts)
        assert harness.nothing_is_left()


def test_a_missing_program_blocks_the_task_and_says_which(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path, agent={"driver": "command", "command": ["/nowhere/agent"]}) as harness:
        task = harness.submit()
        blocked = harness.wait_for_end(task, TaskStatus.BLOCKED)
        assert "/nowhere/agent" in (blocked.block_reason or "")


def test_without_claude_nothing_begins_and_the_task_says_what_to_mend(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path, agent={"driver": "claude", "executable": "/nowhere/claude"}) as harness:
        task = harness.submit()

        def said() -> str:
            told = " ".join(harness.cli("why", task).stdout.split())
            return told if "/nowhere/claude" in told else ""

        assert "there is no such program; correct or remove it" in harness.wait_for("what is missing", said)
        assert harness.state(task)["status"] == "pending"
        assert harness.nothing_is_left()


def test_an_outbox_full_of_links_and_a_giant_is_refused_name_by_name(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("do not take this\n" * 100)
    mischief = (
        f"cd $ORCHESTRATOR_OUTBOX && ln -s {secret} analysis.md && ln {secret} plan.md && mkfifo design-v1.md"
        " && truncate -s 1G related-code.json && ln -s / everything && mkdir -p a/b/c"
    )
    clean = 'find "${ORCHESTRATOR_OUTBOX:?}" -mindepth 1 -delete'
    scenario = {"ANALYSIS": [{"run": mischief, "no_work": True}, {"run": clean}]}
    with DaemonHarness(tmp_path, scenario=scenario, isolation="none") as harness:
        task = harness.submit()
        done = harness.wait_for_end(task)
        refused = "\n".join(harness.journal(task, "GateLooked")[1]["event"]["evidence"]["refused"])
        assert "analysis.md: it is a link" in refused
        assert "related-code.json: it is larger than" in refused
        assert "everything: no file of this name is expected" in refused
        assert "do not take this" not in (harness.folder(task) / "analysis.md").read_text()
        assert done.stages["ANALYSIS"].visits == 1
