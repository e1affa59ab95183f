"""What a simulation is repeated with: only what is set, and only if tasks waited for it."""

from dataclasses import replace

import pytest

from orchestrator.cli.reports.advice import alternatives, measure
from orchestrator.core.schedule.admission import Capacity
from orchestrator.core.schedule.pressure import Floors
from orchestrator.core.task.budget import NO_CAPS, Caps
from orchestrator.core.task.task_policy import Autonomy
from orchestrator.settings.settings import Settings
from orchestrator.supervisor.simulation.metrics import SimulationReport, WaitStatistics
from orchestrator.supervisor.simulation.runner import DaemonConfig

CONFIG = DaemonConfig(
    capacity=Capacity(places=2),
    floors=Floors(free_disk=2**31, available_memory=2**29, load_per_core=2.0),
    policy=Settings.model_construct().policy,
    pipelines={},
    model_of=lambda _: "claude-sonnet",
    stall_after=900.0,
    orphan_after=300.0,
)


def report(**open_waits: int) -> SimulationReport:
    waits = tuple(
        WaitStatistics(kind=kind, count=9, median=1.0, longest=2.0, open=count) for kind, count in open_waits.items()
    )
    return SimulationReport(
        seed=0,
        days=1.0,
        tasks={"pending": 7, "completed": 2, "review": 1, "cancelled": 1},
        waits=waits,
        usd=3.5,
        seconds=1.0,
        hours_a_second=24.0,
        violations=(),
        steps=0,
        crashes=0,
        restarts=0,
        decisions=0,
        turns=0,
        answers=0,
        refusals=0,
        limits_met=0,
        scheduled={},
        tokens=0,
    )


@pytest.mark.parametrize("waits", [{}, {"pending": 0}, {"review": 3, "rate_limit": 2}])
def test_nothing_is_tried_if_no_task_waits_for_a_slot_or_a_budget(waits: dict[str, int]) -> None:
    assert [*alternatives(CONFIG, report(**waits))] == []


def test_more_slots_are_tried_and_what_else_is_set() -> None:
    tried = dict(alternatives(CONFIG, report(pending=7)))
    assert {name: config.capacity.places for name, config in tried.items()} == {
        "max_agents = 4": 4,
        "max_agents = 8": 8,
    }
    capped = replace(CONFIG, capacity=replace(CONFIG.capacity, day=Caps(usd=5.0)))
    tried = dict(alternatives(capped, report(place=1)))
    assert [*tried] == ["max_agents = 4", "max_agents = 8", "[budget.day] without caps"]
    assert tried["[budget.day] without caps"].capacity.day == NO_CAPS


def test_the_caps_of_tasks_are_lifted_if_some_wait_for_more() -> None:
    capped = replace(CONFIG, policy=lambda autonomy, _: CONFIG.policy(autonomy, 1.0))
    tried = dict(alternatives(capped, report(budget=2)))
    assert tried["[budget.task] without caps"].policy(Autonomy.AUTO, None).caps == NO_CAPS


def test_a_report_is_measured_by_what_began_ended_and_cost() -> None:
    found = measure("max_agents = 1", report())
    assert (found.never_began, found.completed, found.open, found.usd) == (7, 2, 8, 3.5)
