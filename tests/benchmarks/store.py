"""One commit compared with one bare fsynced append of the same bytes, and the cost of 10,000 ended tasks at a start."""

import gc
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from time import perf_counter

import psutil

from orchestrator.core.events.events import TaskSubmitted, TurnFinished, TurnOutcome
from orchestrator.core.task.agent import Agent, AgentStatus, Session, TurnProgress
from orchestrator.core.task.checks import Check, CheckResult, Evaluation, Verdict
from orchestrator.core.task.failures import Failure, FailureLog
from orchestrator.core.task.progress import Budget, StageRecord, StageStatus, Step, StepStatus
from orchestrator.core.task.task import Source, Task, TaskStatus, Timing
from orchestrator.core.task.ticket import SensitiveCheck, Ticket
from orchestrator.storage.journal import NAME
from orchestrator.storage.records import TaskSummary
from orchestrator.storage.store import FolderStore

Row = tuple[str, str, str]
COMMITS = 300
FINISHED = 10_000
NIGHT = datetime(2026, 11, 21, 22, 0, 0, tzinfo=UTC)
STAGES = ("TICKET_INTAKE", "ANALYSIS", "PLANNING", "DESIGN", "IMPLEMENTATION", "EVALUATION", "COMPLETION")


def rows() -> list[Row]:
    """Return name, measured value and goal of each measurement, all taken in one run."""
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        return [*_commits(Path(folder, "commits")), *_start(Path(folder, "start"))]


def a_worked_on_task(folder: Path, task_id: str) -> Task:
    """Return a task in the middle of a long run: ten steps, twenty failures, three checks."""
    steps = tuple(
        Step(
            step_id=number,
            description=f"Step {number}: teach the parser one more case and prove it",
            status=StepStatus.COMPLETED if number < 8 else StepStatus.PENDING,
            commits=(f"{number:040x}",) if number < 8 else (),
            started_at=NIGHT,
            completed_at=NIGHT if number < 8 else None,
        )
        for number in range(1, 11)
    )
    failures = FailureLog()
    for number in range(20):
        failures = failures.with_failure(_failure(number))
    return Task(
        id=task_id,
        title="Teach the parser the rest of the language",
        folder=str(folder / "tasks" / task_id),
        ticket=Ticket(key="ABC-123", sensitive_check=SensitiveCheck(result="CLEAN", scanned_at=NIGHT)),
        pipeline="full",
        source=Source(
            repo="/home/someone/work/parser",
            base_branch="main",
            base_commit="b" * 40,
            branch="feature/ABC-123",
            worktree=f"/data/worktrees/{task_id}",
            head="7" * 40,
        ),
        timing=Timing(created_at=NIGHT),
        updated_at=NIGHT,
        evaluation=Evaluation(
            checks=tuple(
                Check(name=name, command=f"make {name}", source="repo") for name in ("unit_test", "lint", "types")
            ),
            results={"unit_test": CheckResult(verdict=Verdict.FAIL, reason="exit code 1", exit_code=1, seconds=81.5)},
        ),
        seq=1,
        status=TaskStatus.IN_PROGRESS,
        stage="IMPLEMENTATION",
        stages={
            name: StageRecord(
                status=StageStatus.COMPLETED, started_at=NIGHT, completed_at=NIGHT, artifacts=("analysis.md",), visits=2
            )
            for name in STAGES
        },
        agent=Agent(
            status=AgentStatus.RUNNING,
            role="implementer",
            attempt=7,
            session=Session(id="5" * 36),
            turn=TurnProgress(number=30),
        ),
        steps=steps,
        failures=failures,
        budgets={name: Budget(limit=3, used=1) for name in ("eval_cycles", "gate_retries", "agent_retries")},
    )


def _failure(number: int) -> Failure:
    return Failure(
        id="",
        occurred_at=NIGHT,
        state="EVALUATION",
        agent="evaluator",
        step="unit_test",
        attempted=f"evaluation {number} of 7777777",
        command="pytest -q",
        expected="unit_test passes",
        type="test_failure",
        summary=f"{number} failed: assert parse('{number}') == {number} in tests/test_parser.py:{number}",
        details="E   AssertionError: the parser stops at the third token\n" * 4,
        exit_code=1,
        log_file=f"logs/{number}-unit_test/stdout.jsonl",
        action="retry_cycle",
        transitioned_to="ANALYSIS",
        retry_count=number,
    )


def _next(task: Task) -> tuple[Task, TurnFinished]:
    """Make the most frequent decision: an agent's turn ended."""
    at = task.updated_at + timedelta(seconds=1)
    event = TurnFinished(at=at, attempt=7, outcome=TurnOutcome.OK, offset=1000 * task.seq, tool_uses=9, tokens=task.seq)
    agent = replace(
        task.agent,
        read_offset=event.offset,
        turn=replace(task.agent.turn, tool_uses=9),
        usage=replace(task.agent.usage, tokens=task.seq),
        last_update=at,
    )
    return replace(task, seq=task.seq + 1, updated_at=at, agent=agent), event


def _commits(folder: Path) -> list[Row]:
    store = FolderStore(folder)
    task = a_worked_on_task(folder, "ABC-123_20261121_220000")
    store.commit(None, task, TaskSubmitted(at=NIGHT, task=task))
    journal = store.files.path_of(task.id) / NAME
    bare_file = os.open(folder / "bare", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    bare, durable, settled, size = [], [], [], journal.stat().st_size
    for _ in range(COMMITS):
        after, event = _next(task)
        began = perf_counter()
        store.commit(task, after, event)
        durable.append(perf_counter() - began)
        store.settle()
        settled.append(perf_counter() - began)
        task, line = after, b"x" * (journal.stat().st_size - size)
        size += len(line)
        began = perf_counter()
        os.write(bare_file, line)
        os.fsync(bare_file)
        bare.append(perf_counter() - began)
    os.close(bare_file)
    store.close()
    state = (store.files.path_of(task.id) / "state.json").stat().st_size
    fsync, commit, both = (median(times) * 1e6 for times in (bare, durable, settled))
    return [
        (
            "one commit beside a bare fsynced append, medians",
            f"{commit:.0f} / {fsync:.0f} µs = {commit / fsync:.2f}",
            "≤ 2 times",
        ),
        (f"the same with state.json of {state / 1024:.0f} KiB replaced", f"{both:.0f} µs = {both / fsync:.2f}", ""),
    ]


def _start(folder: Path) -> list[Row]:
    _finish(folder, FINISHED)
    empty = folder.with_name("empty")
    FolderStore(empty).close()
    _, base = _taken_up(empty)
    _taken_up(folder)  # warms the page cache
    seconds, weight = _taken_up(folder)
    return [
        (f"start with {FINISHED:,} finished tasks: time, warm", f"{seconds:.2f} s", "≤ 0.3 s"),
        ("the same: memory beyond an empty start", f"{(weight - base) / 2**20:.1f} MiB", "≤ 20 MiB"),
    ]


def _finish(folder: Path, number: int) -> None:
    """Create ended tasks without waiting for the disk."""
    store = FolderStore(folder)
    for count in range(number):
        task = replace(a_worked_on_task(folder, f"ABC-{count}_20261121_220000"), status=TaskStatus.COMPLETED)
        store.commit(None, task, TaskSubmitted(at=NIGHT, task=task))
        store.release(task.id)
    store.close()


def _taken_up(folder: Path) -> tuple[float, int]:
    """Return seconds and resident bytes of a fresh process that loads a data folder as the daemon does."""
    told = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.store", str(folder)], check=True, capture_output=True, text=True
    )
    seconds, weight = told.stdout.split()
    return float(seconds), int(weight)


def _take_up(folder: Path) -> None:
    store = FolderStore(folder)
    began = perf_counter()
    ended = {found.id: found.status for found in store.summaries() if isinstance(found, TaskSummary)}
    seconds = perf_counter() - began
    gc.collect()
    print(seconds, psutil.Process().memory_info().rss, end="")
    del ended
    store.close()


if __name__ == "__main__":
    _take_up(Path(sys.argv[1]))
