"""Kill the daemon with SIGKILL at random moments of whole pipelines with the real claude CLI, and count the damage.

    python -m tests.chaos_claude --runs 10 --seed 7

In every run a ticket is submitted, the daemon is killed, stays down for a while, and is started again; then everything
is counted. Moments are spread over a task's decisions and not over its seconds, so that a busy machine does not move
them to the start. The agents are not killed: they continue while nothing reads them, or get their next turn late.
"""

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from orchestrator.agents.installation import find_claude
from orchestrator.core.task.task import TaskStatus
from tests.acceptance.claude_harness import ClaudeHarness
from tests.acceptance.claude_roles import Roles

DECISIONS = 24
"""The decisions of an undisturbed pipeline, before its last two: the check and the delivery."""
LATEST_KILL, LONGEST_ABSENCE = 0.2, 1.0
"""Seconds: after the decision, and before the next start."""
TURNS, STEPS, AGENTS = 6, 3, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The results of one run; `moments` states when each kill hit, in which state, after which event."""

    moments: tuple[str, ...]
    end: TaskStatus
    turns: int
    moves_twice: int
    commits: int
    agents: int
    checks: int
    deliveries: int
    survivors: int
    seconds: float

    @property
    def good(self) -> bool:
        """Whether the whole job was done once, and nothing of it still runs."""
        once = (self.turns, self.commits, self.agents, self.checks, self.deliveries) == (TURNS, STEPS, AGENTS, 1, 1)
        return once and self.end is TaskStatus.COMPLETED and not self.moves_twice and not self.survivors


def run(harness: ClaudeHarness, dice: random.Random, kills: int) -> Outcome:
    """Run one pipeline, and kill its daemon this many times."""
    name, began, moments = harness.submit(), time.monotonic(), list[str]()
    for decision in sorted(dice.sample(range(1, DECISIONS), kills)):
        harness.until(partial(_has_made, harness, name, decision), f"decision {decision} is made")
        time.sleep(dice.uniform(0, LATEST_KILL))
        harness.kill()
        last = _decisions(harness, name)[-1]
        moments.append(f"{time.monotonic() - began:.2f} s {last['to']} after {last['trigger']}")
        time.sleep(dice.uniform(0, LONGEST_ABSENCE))
        harness.start()
    task = harness.end_of(name)
    triggers = [str(line["trigger"]) for line in harness.journal(task)]
    return Outcome(
        moments=tuple(moments),
        end=task.status,
        turns=len(harness.prompts()),
        moves_twice=len(harness.played_twice()),
        commits=len(harness.steps(task)),
        agents=len(harness.sessions(task)),
        checks=triggers.count("CheckFinished"),
        deliveries=triggers.count("BranchDelivered"),
        survivors=len(harness.survivors()),
        seconds=time.monotonic() - began,
    )


def outcomes(root: Path, dice: random.Random, runs: int, most: int) -> Iterator[Outcome]:
    """Run this many pipelines, each with one kill to `most`."""
    claude = find_claude("", os.environ.get("PATH"))
    for number in range(1, runs + 1):
        folder = root / str(number)
        folder.mkdir()
        with ClaudeHarness(claude, folder, Roles()) as harness:
            yield run(harness, dice, dice.randint(1, most))


def main() -> int:
    """Run and print a line for each; return 1 if anything was lost, happened twice or was left behind."""
    parser = argparse.ArgumentParser(description="kill -9 the daemon at random moments, with the real claude CLI")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--kills", type=int, default=1, help="kills per run at most")
    given = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="chaos-claude-"))
    heads = ("run", "end", "turns", "moves twice", "commits", "agents", "checks", "left", "seconds", "killed at")
    sys.stdout.write(_line(heads))
    good = True
    for number, outcome in enumerate(outcomes(root, random.Random(given.seed), given.runs, given.kills), 1):
        sys.stdout.write(_line(_cells(number, outcome)))
        sys.stdout.flush()
        good &= outcome.good
    sys.stdout.write(f"{'all of it once, nothing left' if good else 'DAMAGE'}; everything is in {root}\n")
    return int(not good)


def _has_made(harness: ClaudeHarness, task: str, decision: int) -> bool:
    return len(_decisions(harness, task)) >= decision


def _decisions(harness: ClaudeHarness, task: str) -> list[dict[str, object]]:
    """Return the task's journal without an incomplete last line."""
    *lines, _ = (harness.data / "tasks" / task / "journal.jsonl").read_bytes().split(b"\n")
    return [json.loads(line) for line in lines]


def _cells(number: int, outcome: Outcome) -> tuple[object, ...]:
    return (
        number, outcome.end, outcome.turns, outcome.moves_twice, outcome.commits, outcome.agents, outcome.checks,
        outcome.survivors, f"{outcome.seconds:.1f}", ", ".join(outcome.moments),
    )  # fmt: skip


def _line(cells: tuple[object, ...]) -> str:
    return f"{cells[0]!s:>3}  {cells[1]!s:<10}" + "".join(f"{cell!s:>12}" for cell in cells[2:-1]) + f"  {cells[-1]}\n"


if __name__ == "__main__":
    sys.exit(main())
