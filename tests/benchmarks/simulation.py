"""A simulated week of five hundred tickets and two hundred crashes, every law asked after every decision."""

import asyncio

import structlog

from orchestrator.core.schedule.admission import Capacity
from orchestrator.core.schedule.pressure import Floors
from orchestrator.settings import Settings
from orchestrator.supervisor.simulation.runner import SimulatedDaemon, Simulation, SimulationPlan
from tests.fakes.tasks import full_pipeline

Row = tuple[str, str, str]


def rows() -> list[Row]:
    """How long it takes, and what it came to."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    house = SimulatedDaemon(
        room=Capacity(places=6),
        floors=Floors(free_disk=2**31, available_memory=2**29, load_per_core=2.0),
        policy=Settings.model_construct().policy,
        pipelines={"full": full_pipeline()},
        model_of=lambda _: "",
        stall_after=900.0,
        orphan_after=300.0,
    )
    report = asyncio.run(Simulation(house, SimulationPlan(tasks=500, days=7.0, seed=1)).live())
    return [
        ("a simulated week, 500 tickets", f"{report.seconds:.1f} s", "≤ 120 s"),
        ("simulated hours a second", f"{report.hours_a_second:.1f}", ""),
        ("decisions a second", f"{report.decisions / report.seconds:,.0f}", ""),
        ("laws broken", f"{len(report.violations)}", "≤ 0"),
    ]
