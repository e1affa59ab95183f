"""Kill the daemon with SIGKILL at random moments of real pipelines, and count the damage.

    python -m tests.chaos --kills 200 --seed 7

For each pipeline a ticket is submitted, and the daemon is killed again and again, sometimes before it is even up, until
the ticket's task has ended. Sometimes a user pauses the task just before, and resumes it later. Then everything is
counted: what was lost, what happened twice, what still runs. The last column shows when the kills hit.
"""

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.core.task.task import TaskStatus
from orchestrator.server.client import DaemonUnreachable, RequestRefused
from tests.acceptance.harness import ENDED, DaemonHarness, line_count
from tests.chaos_family import CHILDREN, STEPS_OF_CHILD, TURNS_OF_FAMILY, family_harness, lines_of
from tests.chaos_restores import run_restores
from tests.fakes.repositories import git

STAGES_TURNS = 6
"""A turn for each of analysis, plan and design, and one for each of three steps."""
STEPS = 3
LONGEST_START, LONGEST_LIFE = 1.2, 0.5
"""Seconds: a daemon is killed during its start, or during its life after its first answer."""
EARLY, PAUSED = 0.25, 0.15
"""The probability of a kill before the first answer, and of a pause before the kill."""
THINKING = {"*": {"think_ms": 80}}


@dataclass(slots=True, kw_only=True)
class Toll:
    """The results of some kills; all counters but kills, seconds, ends and moments must be zero."""

    kills: int = 0
    seconds: float = 0.0
    turns_twice: int = 0
    turns_lost: int = 0
    commits_twice: int = 0
    commits_lost: int = 0
    checks_twice: int = 0
    deliveries_twice: int = 0
    gaps_in_journal: int = 0
    survivors: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    moments: Counter[str] = field(default_factory=Counter)

    @property
    def damage(self) -> int:
        """Return how much was lost, happened twice or was left behind, and how many tasks did not complete."""
        failed = self.ends.total() - self.ends[TaskStatus.COMPLETED]
        twice = self.turns_twice + self.commits_twice + self.checks_twice + self.deliveries_twice
        return failed + twice + self.turns_lost + self.commits_lost + self.gaps_in_journal + self.survivors

    def add(self, other: "Toll") -> None:
        """Add the results of another pipeline."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


def nights(
    root: Path, dice: random.Random, kills: int, each: int, *, children: bool = False
) -> Iterator[tuple[Path, Toll]]:
    """Run as many pipelines as the kills need, at most `each` in one; yield the folder and the results of each.

    With `children`, each divides its work among six of them, three of which work side by side.
    """
    number = 0
    while kills > 0:
        number += 1
        folder = root / str(number)
        with family_harness(folder) if children else DaemonHarness(folder, scenario=THINKING) as harness:
            toll = storm(harness, dice, min(each, kills), "parts" if children else None)
        kills -= toll.kills
        yield folder, toll


def storm(harness: DaemonHarness, dice: random.Random, kills: int, pipeline: str | None = None) -> Toll:
    """Run one pipeline, and kill its daemon this many times or until the task has ended."""
    toll, began = Toll(), time.monotonic()
    task = harness.submit(pipeline=pipeline)
    while toll.kills < kills:
        _let_live(harness, dice)
        if TaskStatus(harness.state(task)["status"]) in ENDED:
            break
        if dice.random() < PAUSED:
            _ask(harness, task, "pause")
        harness.kill()
        state = harness.state(task)
        toll.kills += 1
        toll.moments[f"{state['stage']}/{state['next_action']}"] += 1
        harness.launch()
    harness.wait_for("an answer of the daemon", harness.answers)
    _ask(harness, task, "resume")
    ended = harness.wait_until(task, lambda now: now.status in ENDED and now.run is None)
    toll.ends[ended.status] += 1
    if ended.status is TaskStatus.COMPLETED:
        count = _count if pipeline is None else _count_family
        count(harness, task, toll)
    toll.seconds = time.monotonic() - began
    return toll


def _let_live(harness: DaemonHarness, dice: random.Random) -> None:
    if dice.random() < EARLY:
        time.sleep(dice.uniform(0, LONGEST_START))
        return
    harness.wait_for("an answer of the daemon", harness.answers)
    for task in harness.data.joinpath("tasks").iterdir():
        _ask(harness, task.name, "resume")
    time.sleep(dice.uniform(0, LONGEST_LIFE))


def _ask(harness: DaemonHarness, task: str, action: str) -> None:
    """Send a request, if the daemon is up and the request is valid now."""
    with suppress(DaemonUnreachable, RequestRefused):
        harness.client.request(task, action)


def _count(harness: DaemonHarness, task: str, toll: Toll) -> None:
    with suppress(AssertionError):
        harness.nothing_is_left()
    toll.survivors = len(harness.survivors())
    taken, subjects = harness.taken_turns(), harness.subjects(task)
    toll.turns_twice = len(taken) - len(set(taken)) + max(0, len(set(taken)) - STAGES_TURNS)
    toll.turns_lost = max(0, STAGES_TURNS - len(set(taken)))
    toll.commits_twice = max(0, len(subjects) - STEPS)
    toll.commits_lost = max(0, STEPS - len(set(subjects)))
    toll.checks_twice = abs(line_count(harness.checks_run) - 1)
    reflog = git(harness.repo, "reflog", "show", "--format=%H", harness.state(task)["branch"]).splitlines()
    toll.deliveries_twice = abs(len(harness.journal(task, "BranchDelivered")) - 1) + abs(len(reflog) - 1)
    seqs = [line["seq"] for line in harness.journal(task)]
    toll.gaps_in_journal = int(seqs != list(range(1, len(seqs) + 1)))


def _count_family(harness: DaemonHarness, parent: str, toll: Toll) -> None:
    """Count what became of a parent and its children: each is made once, and one commit of each comes home."""
    with suppress(AssertionError):
        harness.nothing_is_left()
    toll.survivors = len(harness.survivors())
    made = {folder.name for folder in (harness.data / "tasks").iterdir()}
    wanted = {parent, *(f"{parent}.{key}" for key in CHILDREN)}
    taken = harness.taken_turns()
    toll.turns_twice = len(taken) - len(set(taken)) + max(0, len(set(taken)) - TURNS_OF_FAMILY)
    toll.turns_lost = max(0, TURNS_OF_FAMILY - len(set(taken)))
    subjects, branch = harness.subjects(parent), harness.state(parent)["branch"]
    files = {name: lines_of(harness.repo, f"{branch}:{name}.txt") for name in wanted - {parent}}
    toll.commits_twice = max(0, len(subjects) - len(CHILDREN)) + len(made - wanted)
    toll.commits_lost = sum(lines != [*STEPS_OF_CHILD] for lines in files.values()) + len(wanted - made)
    for name in wanted & made:
        seqs = [line["seq"] for line in harness.journal(name)]
        toll.gaps_in_journal += int(seqs != list(range(1, len(seqs) + 1)))
        toll.deliveries_twice += abs(len(harness.journal(name, "BranchDelivered")) - 1)


def main() -> int:
    """Run as many pipelines as the kills need; return 1 if anything was lost, happened twice or was left behind."""
    parser = argparse.ArgumentParser(description="kill -9 the daemon at random moments of real pipelines")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--each", type=int, default=25, help="kills per pipeline at most")
    parser.add_argument("--children", action="store_true", help="of tasks that have children side by side")
    parser.add_argument("--restores", type=int, default=0, help="back up and restore so often instead of killing")
    given = parser.parse_args()
    if given.restores:
        return run_restores(given.restores, given.seed, children=given.children)
    whole, count, root = Toll(), 0, Path(tempfile.mkdtemp(prefix="chaos-"))
    dice = random.Random(given.seed)
    for folder, toll in nights(root, dice, given.kills, given.each, children=given.children):
        count += 1
        whole.add(toll)
        if toll.damage:
            sys.stdout.write(f"damage in {folder}: {_row(toll)}\n")
        else:
            shutil.rmtree(folder)
    if not whole.damage:
        root.rmdir()
    sys.stdout.write(_table(whole, count))
    return int(bool(whole.damage))


def _row(toll: Toll) -> str:
    return "  ".join(f"{name} {getattr(toll, name)}" for name in toll.__slots__ if name not in {"moments", "seconds"})


def _table(toll: Toll, pipelines: int) -> str:
    rows = {
        "pipelines": pipelines,
        "kills -9": toll.kills,
        "ends": ", ".join(f"{count} {status}" for status, count in toll.ends.items()),
        "turns done twice / lost": f"{toll.turns_twice} / {toll.turns_lost}",
        "commits made twice / lost": f"{toll.commits_twice} / {toll.commits_lost}",
        "checks run twice": toll.checks_twice,
        "deliveries made twice": toll.deliveries_twice,
        "journals with a gap": toll.gaps_in_journal,
        "processes left": toll.survivors,
        "seconds": f"{toll.seconds:.1f}",
        "kills hit": ", ".join(f"{where} {count}" for where, count in sorted(toll.moments.items())),
    }
    return "".join(f"{name:<28}{value}\n" for name, value in rows.items())


if __name__ == "__main__":
    sys.exit(main())
