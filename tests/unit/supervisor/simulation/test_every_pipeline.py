"""Every bundled pipeline to its end, with a crash of the daemon before and after every commit and every command."""

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import fields

import pytest
import structlog

from orchestrator.core.schedule.admission import Capacity
from orchestrator.core.schedule.pressure import Floors
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.pipelines.pipeline_file import parse_pipeline
from orchestrator.pipelines.pipeline_rules import descendants
from orchestrator.settings.settings import Settings
from orchestrator.supervisor.simulation.metrics import SimulationReport
from orchestrator.supervisor.simulation.probabilities import Probabilities
from orchestrator.supervisor.simulation.runner import DaemonConfig, Simulation, SimulationPlan
from tests.documents import ROOT

QUIET = Probabilities(**dict.fromkeys((one.name for one in fields(Probabilities)), 0.0))
FILES = sorted((ROOT / "config/pipelines").glob("*.toml"))
BUNDLED: Mapping[str, Pipeline] = {path.stem: parse_pipeline(path.read_text("utf-8"), path.name) for path in FILES}
OF_CHILDREN = {name for one in BUNDLED.values() for stage in one.stages.values() for name in stage.child_pipelines}
SUBMITTED_TO = [name for name in BUNDLED if name not in OF_CHILDREN]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Silence the log, which would have a line for every start of the daemon."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    yield
    structlog.reset_defaults()


def simulated(name: str, crash_at: int | None = None) -> SimulationReport:
    """Return the report of one quiet day with one ticket, and at most one crash."""
    config = DaemonConfig(
        capacity=Capacity(places=2),
        floors=Floors(free_disk=0, available_memory=0, load_per_core=1e9),
        policy=Settings.model_construct().policy,
        pipelines={one: BUNDLED[one] for one in descendants(name, BUNDLED)},
        model_of=lambda _: "",
        stall_after=900.0,
        orphan_after=300.0,
    )
    plan = SimulationPlan(tasks=1, days=2.0, crashes=0, crash_at=crash_at, probabilities=QUIET)
    return asyncio.run(Simulation(config, plan).run())


@pytest.mark.parametrize("name", SUBMITTED_TO)
def test_a_crash_at_any_step_changes_no_outcome(name: str) -> None:
    undisturbed = simulated(name)
    assert (undisturbed.crashes, undisturbed.violations) == (0, ())
    assert set(undisturbed.tasks) == {"review" if name == "release" else "completed"}, (
        "a release waits for its approval"
    )
    assert undisturbed.steps > 20
    for step in range(undisturbed.steps):
        report = simulated(name, crash_at=step)
        assert (report.crashes, report.violations) == (1, ()), step
        assert report.tasks == undisturbed.tasks, step
