"""Simulations: the real core and supervisor with simulated agents, users and limits, and many crashes."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, time
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
import structlog

from orchestrator.core.schedule.admission import Capacity
from orchestrator.core.schedule.pressure import Floors
from orchestrator.core.schedule.run_windows import AtEdge, RunWindow
from orchestrator.core.task.budget import Caps
from orchestrator.core.task.task import Task
from orchestrator.pipelines.pipeline_file import parse_pipeline
from orchestrator.settings.settings import Settings
from orchestrator.supervisor.simulation.metrics import SimulationReport
from orchestrator.supervisor.simulation.probabilities import Probabilities
from orchestrator.supervisor.simulation.runner import DaemonConfig, Simulation, SimulationPlan
from tests.fakes.tasks import full_pipeline

ROOT = Path(__file__).resolve().parents[2]
TINY = ("--tasks", "5", "--days", "0.5", "--crashes", "5")
WEEK = SimulationPlan(tasks=60, days=7.0, crashes=120)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Silence the log, which would have a line for each of thousands of decisions."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    yield
    structlog.reset_defaults()


def model_of(task: Task) -> str:
    """Implementers use one family of models, all other roles another."""
    return "claude-opus" if task.stage == "IMPLEMENTATION" else "claude-sonnet"


def config(capacity: Capacity) -> DaemonConfig:
    return DaemonConfig(
        capacity=capacity,
        floors=Floors(free_disk=2**31, available_memory=2**29, load_per_core=2.0),
        policy=Settings.model_construct().policy,
        pipelines={"full": full_pipeline()},
        model_of=model_of,
        stall_after=900.0,
        orphan_after=300.0,
    )


def simulate(plan: SimulationPlan, capacity: Capacity, *folders: Path) -> SimulationReport:
    chosen = config(capacity)
    if folders:
        found = [file for folder in folders for file in sorted(folder.glob("*.toml"))]
        declared = {file.stem: parse_pipeline(file.read_text(), str(file)) for file in found}
        chosen = replace(chosen, pipelines=declared)
    return asyncio.run(Simulation(chosen, plan).run())


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long), pytest.param(2, marks=pytest.mark.long)])
def test_no_invariant_is_violated_in_a_week_of_trouble(seed: int) -> None:
    report = simulate(replace(WEEK, seed=seed), Capacity(places=4))
    assert not report.violations, report.violations[0]
    assert report.crashes >= 80
    assert report.tasks["completed"] >= 30
    assert sum(report.tasks.values()) == 60


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("capacity", "capped", "kind"),
    [
        pytest.param(Capacity(places=2), 0.0, "rate_limit", id="usage limits"),
        pytest.param(Capacity(places=3, day=Caps(usd=25.0), turn_usd=0.5), 0.15, "budget", id="daily budget"),
    ],
)
def test_no_invariant_is_violated_when_agents_keep_reaching_limits(
    capacity: Capacity, capped: float, kind: str
) -> None:
    trouble = Probabilities(agent_hangs=0.15, malformed_block=0.2, question=0.2, outages_per_day=8.0)
    probabilities = replace(trouble, capped=capped)
    report = simulate(replace(WEEK, days=4.0, probabilities=probabilities), capacity)
    assert not report.violations, report.violations[0]
    assert {kind, "service", "question"} <= {waits.kind for waits in report.waits}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (10, 15, 18))])
def test_no_invariant_is_violated_in_a_week_of_all_families_with_parents_and_children(seed: int) -> None:
    plan = replace(WEEK, seed=seed, probabilities=Probabilities(capped=0.6))
    folders = (ROOT / "config/pipelines", ROOT / "tests/data/pipelines_with_children")
    report = simulate(plan, Capacity(places=4, turn_usd=0.5), *folders)
    assert not report.violations, report.violations[0]
    assert "children" in {waits.kind for waits in report.waits}
    assert sum(report.tasks.values()) > 60, "some of them have children"


BERLIN = ZoneInfo("Europe/Berlin")
NIGHT = RunWindow(name="night", days=frozenset(range(5)), opens=time(22), closes=time(6, 30), zone=BERLIN)
WEEKEND = replace(
    NIGHT, name="weekend", days=frozenset({5, 6}), opens=time(1, 30), closes=time(20), at_edge=AtEdge.END_TURN
)
LINES = ("0 22 * * 1-5", "30 2 * * *", "0 12 * * 0", "15 */6 * * *")
SPRING, AUTUMN = datetime(2026, 3, 26, 18, tzinfo=UTC), datetime(2026, 10, 22, 18, tzinfo=UTC)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("start", "days"),
    [
        pytest.param(SPRING, 5.0, id="summer time begins"),
        pytest.param(AUTUMN, 5.0, id="summer time ends"),
        pytest.param(SPRING, 365.0, id="a year", marks=pytest.mark.long),
    ],
)
def test_no_invariant_is_violated_in_nights_with_run_windows_and_schedules(start: datetime, days: float) -> None:
    plan = SimulationPlan(
        tasks=round(4 * days), days=days, crashes=round(3 * days), schedules=LINES, zone=BERLIN, start=start
    )
    report = simulate(plan, Capacity(places=3, windows=(NIGHT, WEEKEND)))
    assert not report.violations, report.violations[0]
    assert "window" in {waits.kind for waits in report.waits}
    assert report.scheduled["submitted"] > days


def test_the_same_seed_gives_the_same_days() -> None:
    plan = SimulationPlan(tasks=10, days=1.0, seed=7, crashes=20)
    first, second = (replace(simulate(plan, Capacity()), seconds=0.0, hours_a_second=0.0) for _ in range(2))
    assert first == second


def environment(home: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"}


def test_ctrl_c_ends_a_simulation_with_what_there_is_and_progress_goes_to_the_terminal(tmp_path: Path) -> None:
    terminal, its_end = os.openpty()
    argv = [sys.executable, "-m", "orchestrator", "simulate", "--tasks", "5000", "--days", "366", "--json"]
    env = {**environment(tmp_path), "TERM": "xterm", "COLUMNS": "80"}
    with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=its_end) as process:
        os.close(its_end)
        told = b""
        while not re.search(rb"day (0\.[1-9]|[1-9])", told):
            told += os.read(terminal, 65536)
        process.send_signal(signal.SIGINT)
        with suppress(OSError):  # how Linux says that the other side is closed
            while more := os.read(terminal, 65536):
                told += more
        out = process.stdout.read() if process.stdout else b""
    os.close(terminal)
    assert process.returncode == 130
    assert 0 < json.loads(out)["days"] < 366
    assert b"stopped: this is what" in told
    assert b"Traceback" not in told


def test_the_command_prints_its_report_as_one_json_document(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "orchestrator", "simulate", *TINY, "--pipeline", "full", "--json"]
    done = subprocess.run(argv, env=environment(tmp_path), capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "\r" not in done.stderr, "no progress in a pipe"
    report = json.loads(done.stdout)
    assert report["violations"] == []
    assert report["seed"] == 0
    assert sum(report["tasks"].values()) <= 5
