"""A parent with many children: made by a real daemon, listed, and decided about when each of them ends.

Children count from the decision that asks for them until their parent's journal says that all are tasks. Meanwhile the
first of them works in the only slot. The decisions are taken in memory, with a plan of many diamonds; a decision as a
parent takes it is written to a real folder too.
"""

import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from orchestrator.core.decide import machine
from orchestrator.core.decide.work.following import planned
from orchestrator.core.events.child_events import ChildEnded, ChildrenSubmitted
from orchestrator.core.events.events import TaskSubmitted
from orchestrator.core.task.budget import Spending
from orchestrator.core.task.children import ChildPlan
from orchestrator.core.task.guards import Evidence, FileFacts
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.task import NextAction, Task, TaskStatus
from orchestrator.pipelines.pipeline_file import parse_pipeline
from orchestrator.server.schemas.task_input import TaskFilter
from orchestrator.settings.environment import environment
from orchestrator.storage.store import FolderStore
from tests.acceptance.harness import DaemonHarness
from tests.documents import ROOT
from tests.fakes.tasks import submitted

Row = tuple[str, str, str]

MANY, DIAMONDS, FAILING = 1000, 200, 0.1
LISTS = 7
PIPELINES = ROOT / "tests/data/pipelines_with_children"


def rows() -> list[Row]:
    """Return name, measured value and goal of each measurement."""
    with tempfile.TemporaryDirectory() as root:
        found = _of_daemon(Path(root))
    return [*found, *_of_decisions(DIAMONDS), *_of_decisions(MANY), _of_store()]


def _of_daemon(root: Path) -> list[Row]:
    """Return what a daemon takes for many children."""
    children = [
        {"key": f"T{number}", "title": f"Part {number}", "text": f"Do part {number}."} for number in range(MANY)
    ]
    plan = {"file": "$ORCHESTRATOR_OUTBOX/children.json", "text": json.dumps({"children": children})}
    scenario = {"DIVISION": [{"write": plan, "no_work": True}], "PART_PLAN": [{"think_ms": 3_600_000}]}
    with DaemonHarness(root, scenario=scenario, max_agents=1, folders={"pipelines": [str(PIPELINES)]}) as harness:
        parent = harness.submit(pipeline="parts")
        harness.wait_for("children", lambda: harness.journal(parent, "ChildrenSubmitted"), patience=300)
        asked = _at(harness, parent, "AgentExited")
        took = (_at(harness, parent, "ChildrenSubmitted") - asked).total_seconds()
        made = len(list((root / "data/tasks").glob(f"{parent}.*/journal.jsonl")))
        answers = [_seconds(lambda: harness.client.tasks(TaskFilter())) for _ in range(LISTS)]
        listed = _seconds_of(harness, root, "tasks")
        started = _seconds_of(harness, root, "tasks", "--help")
        whole = _seconds_of(harness, root, "tasks", "--all", "--limit", "500")
        shown = _seconds_of(harness, root, "show", parent)
        harness.kill()
        began = time.perf_counter()
        harness.start()
        restart = time.perf_counter() - began
    return [
        (f"family: {made} children, from the decision to all on disk", f"{took:.2f} s", "≤ 5 s"),
        ("family: the daemon's list of tasks afterwards, median", f"{statistics.median(answers):.3f} s", "≤ 0.3 s"),
        (
            "family: what that adds to `orchestrator tasks`",
            f"{listed - started:.3f} s (of {listed:.3f} s)",
            "≤ 0.3 s",
        ),
        ("family: `orchestrator tasks --all --limit 500`, median", f"{whole:.3f} s", ""),
        ("family: `orchestrator show` of the parent, median", f"{shown:.3f} s", ""),
        ("family: restart with them", f"{restart:.2f} s", ""),
    ]


def _at(harness: DaemonHarness, task: str, trigger: str) -> datetime:
    return datetime.fromisoformat(harness.journal(task, trigger)[-1]["timestamp"])


def _seconds(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def _seconds_of(harness: DaemonHarness, root: Path, *command: str) -> float:
    """Return how long a command of a fresh process takes, as the median of a few."""
    options = ["--config", str(root / "orchestrator.toml"), "--data-dir", str(harness.data)]
    taken = []
    for _ in range(LISTS):
        began = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "orchestrator", *options, *command],
            env=environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
        )
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def _of_decisions(count: int) -> list[Row]:
    """Return what a parent's decisions about this many children take, some of which fail."""
    tracemalloc.start()
    worst, mean, parts = _decide_about_all(count)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    worst, mean, parts = _decide_about_all(count)  # once more, without the cost of tracing
    return [
        (
            f"family: a decision with {count} children in diamonds ({parts}), 95 of 100",
            f"{1000 * worst:.2f} ms (mean {1000 * mean:.2f} ms)",
            "≤ 1 ms" if count == DIAMONDS else "",
        ),
        (f"family: memory of all {count} of these decisions, peak", f"{peak / 1e6:.1f} MB", "≤ 50 MB"),
    ]


def _decide_about_all(count: int) -> tuple[float, float, str]:
    pipeline, task = divided(count)
    taken = []
    for event in _ends(task):
        began = time.perf_counter()
        task, _ = machine.decide(pipeline, task, event)
        taken.append(time.perf_counter() - began)
    ends = [child.status.value for child in task.children]
    parts = ", ".join(f"{ends.count(end)} {end}" for end in sorted(set(ends)))
    return statistics.quantiles(taken, n=20)[-1], statistics.mean(taken), parts


def divided(count: int) -> tuple[Pipeline, Task]:
    """Return a pipeline and a parent that waits for this many children, four of which make each diamond."""
    pipeline = parse_pipeline((PIPELINES / "parts.toml").read_text(), "parts.toml")
    base = replace(submitted(), id="P", pipeline="parts", status=TaskStatus.IN_PROGRESS, stage="DIVISION")
    task, _ = machine.begin(pipeline, _submission(base))
    found = Evidence(
        files={"children.json": FileFacts(chars=90, children=tuple(_diamonds(count)))}, fresh=("children.json",)
    )
    task = replace(task, status=TaskStatus.IN_PROGRESS, stage="PARTS", children=planned(pipeline, task, found))
    task = replace(task, next_action=NextAction.CHILDREN)
    made = tuple(child.task for child in task.children)
    task, _ = machine.decide(pipeline, task, ChildrenSubmitted(at=task.updated_at, tasks=made))
    return pipeline, task


def _submission(task: Task) -> TaskSubmitted:
    return TaskSubmitted(at=task.updated_at, task=task)


def _diamonds(count: int) -> Iterator[ChildPlan]:
    """Yield children of which the first of four begins after the last four, two follow it, and the last joins them."""
    for number in range(count):
        first = number - number % 4
        after = {0: range(first - 4, first), 1: [first], 2: [first], 3: [first + 1, first + 2]}[number % 4]
        keys = tuple(f"T{one}" for one in after if one >= 0 and (one % 4 == 3 or number % 4))
        apart = () if number % 20 == 0 else keys  # so that one failure does not skip all the rest
        yield ChildPlan(key=f"T{number}", title=f"Part {number}", after=apart)


def _ends(task: Task) -> Iterator[ChildEnded]:
    dice = random.Random(7)
    for child in task.children:
        failed, at = dice.random() < FAILING, task.updated_at + timedelta(seconds=1)
        yield ChildEnded(
            at=at, task=child.task, completed=not failed, commit="c" * 40, spent=Spending(usd=0.5, turns=4)
        )


def _of_store() -> Row:
    pipeline, task = divided(MANY)
    taken = []
    with tempfile.TemporaryDirectory() as root:
        store = FolderStore(Path(root))
        store.commit(None, replace(task, seq=1), _submission(task))
        task = replace(task, seq=1)
        for event in list(_ends(task))[:100]:
            began = time.perf_counter()
            after, _ = machine.decide(pipeline, task, event)
            store.commit(task, after, event)
            taken.append(time.perf_counter() - began)
            task = after
        store.close()
    return (
        f"family: a decision with {MANY} children, written",
        f"{1000 * statistics.median(taken):.2f} ms",
        "",
    )
