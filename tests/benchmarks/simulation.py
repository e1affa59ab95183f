"""Simulate a week of 500 tickets and 200 crashes, with all invariants checked after every decision."""

import asyncio

import structlog

from orchestrator.core.schedule.admission import Capacity
from orchestrator.core.schedule.pressure import Floors
from orchestrator.settings.settings import Settings
from orchestrator.supervisor.simulation.runner import DaemonConfig, Simulation, SimulationPlan
from tests.fakes.tasks import full_pipeline

Row = tuple[str, str, str]


def rows() -> list[Row]:
    """Return how long it takes, and its results."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    config = DaemonConfig(
        capacity=Capacity(places=6),
        floors=Floors(free_disk=2**31, available_memory=2**29, load_per_core=2.0),
        policy=Settings.model_construct().policy,
        pipelines={"full": full_pipeline()},
        model_of=lambda _: "",
        stall_after=900.0,
        orphan_after=300.0,
    )
    report = asyncio.run(Simulation(config, SimulationPlan(tasks=500, days=7.0, seed=1)).run())
    return [
        ("a simulated week, 500 tickets", f"{report.seconds:.1f} s", "≤ 120 s"),
        ("simulated hours per second", f"{report.hours_a_second:.1f}", ""),
        ("decisions per second", f"{report.decisions / report.seconds:,.0f}", ""),
        ("invariants violated", f"{len(report.violations)}", "≤ 0"),
    ]
