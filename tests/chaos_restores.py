"""Back up a daemon at random moments of real pipelines, restore to another path, go on there, and count the damage.

    python -m tests.chaos --restores 30 --seed 7
    python -m tests.chaos --restores 30 --seed 7 --children

For each restore a ticket is submitted, and its daemon is backed up after a random time while its agents work. Then that
daemon ends: half of the time at once, as with a lost machine, and half of the time only after it has completed the task
and delivered the branch, so that the world outside is ahead of the backup. The backup is restored to another path, and
a daemon there must complete the task with every step committed once. With children each of them is made once and brings
one commit home, and the family has spent what its turns cost.
"""

import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path

import orjson

from orchestrator.core.task.task import TaskStatus
from tests.acceptance.harness import ENDED, DaemonHarness, Json, whole_lines
from tests.chaos_family import AFTER, CHILDREN, STEPS_OF_CHILD, TURNS_OF_FAMILY, family_harness, lines_of
from tests.fakes.repositories import git

STEPS, STAGES_TURNS = 3, 6
LONGEST_WAIT, LONGEST_WAIT_OF_FAMILY = 4.0, 12.0
"""Seconds from the submission to the backup; a task, or a family, takes about as long."""
GOES_ON = 0.5
"""The probability that the original completes its task after the backup."""
THINKING = {"*": {"think_ms": 80}}


class RestoredHarness(DaemonHarness):
    """A daemon on a folder that is restored from a backup of another harness, with what its agents remembered then."""

    def __init__(self, root: Path, original: DaemonHarness, file: Path) -> None:
        self._original, self._file = original, file
        super().__init__(root, original.scenario)
        self.settings = original.settings
        self.writable = [root, original.root]

    def make_repository(self, name: str, check: str = "") -> Path:  # noqa: ARG002 - it is where it was
        """The repository of the original."""
        return self._original.root / name

    def restore(self) -> None:
        """Restore the backup to this harness's own path."""
        self.root.mkdir(parents=True, exist_ok=True)
        (self.root / "orchestrator.toml").write_text("")
        done = self.cli("restore", str(self._file))
        assert done.returncode == 0, done.stderr
        self._restore_memory()

    def _restore_memory(self) -> None:
        """Give the agents the sessions of the original as they were when their output was copied.

        The scripted agent keeps them outside of the data folder, in files that only grow. Some harnesses have none.
        """
        before, now = self._original.root / "agent", self.root / "agent"
        now.mkdir(exist_ok=True)
        every = set[str]()
        for task in (self.data / "tasks").iterdir():
            if taken := self._taken(task):
                every.update(taken)
                stages = (before / f"{task.name}.turns").read_text().splitlines(keepends=True)
                (now / f"{task.name}.turns").write_text("".join(stages[: len(taken)]))
        for file in before.glob("*.jsonl"):
            lines = file.read_bytes().splitlines(keepends=True)
            if known := [*takewhile(lambda line: orjson.loads(line)["uuid"] in {None, *every}, lines)]:
                (now / file.name).write_bytes(b"".join(known))

    def _taken(self, task: Path) -> list[str]:
        """The turns of a task that its agents had begun when their output was copied, in their order."""
        taken: list[str] = []
        for number in sorted(int(run.name) for run in task.glob("agents/*") if run.name.isdecimal()):
            run = f"agents/{number}"
            sent = whole_lines(self._original.folder(task.name) / run / "stdin.jsonl")
            output = task / run / "stdout.jsonl"
            begun = [line for line in (whole_lines(output) if output.exists() else ()) if line.get("subtype") == "init"]
            new = [line["uuid"] for line in sent if line["type"] == "user" and line["uuid"] not in taken]
            taken += new[: len(begun)]
        return taken


@dataclass(slots=True, kw_only=True)
class Restores:
    """The results of some restores; `damage` counts all that must not be."""

    restores: int = 0
    outside_ahead: int = 0
    turns_repeated: int = 0
    steps_lost: int = 0
    steps_twice: int = 0
    gaps_in_journal: int = 0
    branches_lost: int = 0
    children_wrong: int = 0
    budgets_wrong: int = 0
    survivors: int = 0
    bytes_packed: int = 0
    backup_seconds: float = 0.0
    restore_seconds: float = 0.0
    unsettled: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    moments: Counter[str] = field(default_factory=Counter)

    @property
    def damage(self) -> int:
        """Return how much was lost, happened twice or was left behind, and how many tasks did not complete."""
        failed = self.ends.total() - self.ends[TaskStatus.COMPLETED]
        lost = self.steps_lost + self.branches_lost + self.gaps_in_journal + self.children_wrong + self.budgets_wrong
        return failed + lost + self.steps_twice + self.survivors

    def add(self, other: "Restores") -> None:
        """Add the results of another restore."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


def restores(root: Path, dice: random.Random, count: int, *, children: bool = False) -> Iterator[tuple[Path, Restores]]:
    """Restore as often as asked; yield the folder and the result of each. With `children`, tasks have some."""
    pipeline, longest = ("parts", LONGEST_WAIT_OF_FAMILY) if children else (None, LONGEST_WAIT)
    for number in range(count):
        folder = root / str(number)
        with _original(folder / "original", children=children) as original:
            file, found = folder / "backup.tar.zst", Restores(restores=1)
            task = original.submit(pipeline=pipeline)
            time.sleep(dice.uniform(0, longest))
            _back_up(original, file, found)
            if dice.random() < GOES_ON:
                original.wait_until(task, lambda now: now.status in ENDED and now.run is None)
                found.outside_ahead = 1
            original.stop_all()
            before = _branches(original.repo)
            _go_on(RestoredHarness(folder / "another path", original, file), task, found)
            found.branches_lost = sum(commit not in _commits(original.repo) for commit in before.values())
        yield folder, found


def _original(folder: Path, *, children: bool) -> DaemonHarness:
    return family_harness(folder, AFTER) if children else DaemonHarness(folder, scenario=THINKING)


def _back_up(original: DaemonHarness, file: Path, found: Restores) -> None:
    began = time.monotonic()
    done = original.cli("backup", str(file), "--json")
    found.backup_seconds = time.monotonic() - began
    assert done.returncode == 0, done.stderr
    made = orjson.loads(done.stdout)
    found.bytes_packed, found.unsettled = made["packedBytes"], len(made["unsettled"])


def _go_on(restored: RestoredHarness, task: str, found: Restores) -> None:
    began = time.monotonic()
    restored.restore()
    found.restore_seconds = time.monotonic() - began
    state = restored.journal(task)[-1]["metadata"]
    found.moments[f"{state['stage']}/{state['status']}"] += 1
    with restored:
        ended = restored.wait_until(task, lambda now: now.status in ENDED and now.run is None)
        found.ends[ended.status] += 1
        if ended.status is TaskStatus.COMPLETED:
            count = _count_family if restored.state(task)["children"] else _count
            count(restored, task, found)


def _count(restored: DaemonHarness, task: str, found: Restores) -> None:
    restored.nothing_is_left()
    found.survivors = len(restored.survivors())
    subjects, taken = restored.subjects(task), restored.taken_turns()
    found.steps_lost, found.steps_twice = max(0, STEPS - len(set(subjects))), max(0, len(subjects) - STEPS)
    found.turns_repeated = len(taken) - min(len(taken), STAGES_TURNS)
    seqs = [line["seq"] for line in restored.journal(task)]
    found.gaps_in_journal = int(seqs != list(range(1, len(seqs) + 1)))


def _count_family(restored: DaemonHarness, parent: str, found: Restores) -> None:
    """Count what became of a family: children, their commits in order, their journals and what they spent."""
    restored.nothing_is_left()
    found.survivors = len(restored.survivors())
    made = {folder.name for folder in (restored.data / "tasks").iterdir()}
    wanted = {parent, *(f"{parent}.{key}" for key in CHILDREN)}
    states = {name: restored.state(name) for name in wanted & made}
    found.children_wrong = len(made ^ wanted) + sum(one["status"] != "completed" for one in states.values())
    for key, earlier in AFTER.items():
        begun = states[f"{parent}.{key}"]["started_at"]
        found.children_wrong += sum(states[f"{parent}.{one}"]["completed_at"] > begun for one in earlier)
    branch, subjects = states[parent]["branch"], restored.subjects(parent)
    files = [lines_of(restored.repo, f"{branch}:{name}.txt") for name in sorted(wanted - {parent})]
    found.steps_lost = sum(len({*STEPS_OF_CHILD} - {*lines}) for lines in files)
    found.steps_twice = sum(len(lines) - len({*lines}) for lines in files) + abs(len(subjects) - len(CHILDREN))
    found.turns_repeated = max(0, len(restored.taken_turns()) - TURNS_OF_FAMILY)
    for name in states:
        lines = restored.journal(name)
        found.gaps_in_journal += int([line["seq"] for line in lines] != list(range(1, len(lines) + 1)))
    found.budgets_wrong = int(not _is_budget_right(states, parent))


def _is_budget_right(states: Mapping[str, Json], parent: str) -> bool:
    """Return whether the parent's record of what its children spent is what their own states say."""
    days = [day for name, one in states.items() if name != parent for day in one["spending"]["by_day"].values()]
    recorded = states[parent]["spending"]["by_children"]
    spent = (sum(day["turns"] for day in days), round(sum(day["usd"] for day in days), 4))
    return spent == (recorded["turns"], round(recorded["usd"], 4)) and recorded["turns"] >= TURNS_OF_FAMILY - 1


def _branches(repo: Path) -> dict[str, str]:
    rows = git(repo, "for-each-ref", "--format=%(refname) %(objectname)", "refs/heads/").splitlines()
    return dict(row.split(" ") for row in rows)


def _commits(repo: Path) -> set[str]:
    return set(git(repo, "rev-list", "--branches").split())


def run_restores(count: int, seed: int, *, children: bool = False) -> int:
    """Restore as often as asked, print the results, and return 1 if there is any damage."""
    whole, root = Restores(), Path(tempfile.mkdtemp(prefix="restores-"))
    for folder, found in restores(root, random.Random(seed), count, children=children):
        whole.add(found)
        if found.damage:
            sys.stdout.write(f"damage in {folder}: {found}\n")
        else:
            shutil.rmtree(folder)
    rows = {name: getattr(whole, name) for name in whole.__slots__}
    sys.stdout.write("".join(f"{name:<16} {_shown(value)}\n" for name, value in rows.items()))
    if not whole.damage:
        root.rmdir()
    return int(bool(whole.damage))


def _shown(value: object) -> str:
    if isinstance(value, Counter):
        return ", ".join(f"{count} {name}" for name, count in sorted(value.items()))
    return f"{value:.1f}" if isinstance(value, float) else str(value)
