"""Simulated weeks: the real core and supervisor among made-up agents, people and limits, killed again and again."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import structlog

from orchestrator.core.schedule.admission import Capacity
from orchestrator.core.schedule.pressure import Floors
from orchestrator.core.task.budget import Caps
from orchestrator.core.task.task import Task
from orchestrator.settings import Settings
from orchestrator.supervisor.simulation.metrics import SimulationReport
from orchestrator.supervisor.simulation.probabilities import Probabilities
from orchestrator.supervisor.simulation.runner import SimulatedDaemon, Simulation, SimulationPlan
from tests.fakes.tasks import full_pipeline

ROOT = Path(__file__).resolve().parents[2]
TINY = ("--tasks", "5", "--days", "0.5", "--crashes", "5")
WEEK = SimulationPlan(tasks=60, days=7.0, crashes=120)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Thousands of decisions are not worth a line each."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    yield
    structlog.reset_defaults()


def model_of(task: Task) -> str:
    """Implementers use one family of models, everybody else another."""
    return "claude-opus" if task.stage == "IMPLEMENTATION" else "claude-sonnet"


def house(room: Capacity) -> SimulatedDaemon:
    return SimulatedDaemon(
        room=room,
        floors=Floors(free_disk=2**31, available_memory=2**29, load_per_core=2.0),
        terms=Settings.model_construct().terms,
        pipelines={"full": full_pipeline()},
        model_of=model_of,
        stall_after=900.0,
        orphan_after=300.0,
    )


def lived(order: SimulationPlan, room: Capacity) -> SimulationReport:
    return asyncio.run(Simulation(house(room), order).live())


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long), pytest.param(2, marks=pytest.mark.long)])
def test_no_law_is_broken_in_a_week_of_trouble(seed: int) -> None:
    report = lived(replace(WEEK, seed=seed), Capacity(places=4))
    assert not report.violations, report.violations[0]
    assert report.crashes >= 80
    assert report.tasks["completed"] >= 30
    assert sum(report.tasks.values()) == 60


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("room", "kind"),
    [
        pytest.param(Capacity(places=2), "rate_limit", id="usage limits"),
        pytest.param(Capacity(places=3, day=Caps(usd=25.0), turn_usd=0.5), "budget", id="the day's money"),
    ],
)
def test_no_law_is_broken_where_agents_hit_a_wall_all_the_time(room: Capacity, kind: str) -> None:
    odds = Probabilities(hangs=0.15, garbles=0.2, asks=0.2, walls_a_day=8.0)
    report = lived(replace(WEEK, days=4.0, odds=odds), room)
    assert not report.violations, report.violations[0]
    assert {kind, "service", "question"} <= {waits.kind for waits in report.waits}


def test_the_same_seed_gives_the_same_days() -> None:
    order = SimulationPlan(tasks=10, days=1.0, seed=7, crashes=20)
    first, second = (replace(lived(order, Capacity()), seconds=0.0, hours_a_second=0.0) for _ in range(2))
    assert first == second


def test_the_command_tells_what_came_of_it_as_one_document(tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"}
    argv = [sys.executable, "-m", "orchestrator", "simulate", *TINY, "--json"]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["violations"] == []
    assert told["seed"] == 0
    assert sum(told["tasks"].values()) <= 5
