"""`simulate`: how a week would go with these settings and pipelines, on a clock that jumps."""

import asyncio
from collections.abc import Mapping
from typing import Annotated

import typer
from pydantic import RootModel

from orchestrator.cli.context import Json, UsageError, context_of
from orchestrator.cli.output import complain, console, duration, facts, print_json, table
from orchestrator.core.schedule.admission import Capacity
from orchestrator.core.schedule.pressure import Floors
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.task import Task
from orchestrator.formats.table import nearest
from orchestrator.log import start_logging
from orchestrator.pipelines.definitions import Definitions, load_definitions
from orchestrator.settings import Settings
from orchestrator.supervisor.simulation.metrics import SimulationReport, Violation, Waits
from orchestrator.supervisor.simulation.runner import SimulatedDaemon, Simulation, SimulationPlan

WAITED_FOR = {
    "pending": "a place to begin",
    "place": "a place to go on",
    "draft": "being sent off",
    "user": "a person who paused it",
    "blocked": "a person's look",
    "question": "an answer",
    "review": "a review",
    "dependency": "what it needs",
    "rate_limit": "a usage limit",
    "service": "the model's service",
    "budget": "more money",
    "pressure": "room",
}
"""What tasks wait for, in words."""


class ReportView(RootModel[SimulationReport]):
    """What came of it, as `--json` prints it."""


def simulate(  # noqa: PLR0913, PLR0917 - one for each option
    context: typer.Context,
    tasks: Annotated[int, typer.Option(min=1, max=100_000, help="How many tickets are handed in.")] = 500,
    days: Annotated[float, typer.Option(min=0.01, max=366.0, help="How many days go by.")] = 7.0,
    seed: Annotated[int, typer.Option(help="The same number gives the same week.")] = 0,
    crashes: Annotated[int, typer.Option(min=0, max=100_000, help="How often the daemon is killed.")] = 200,
    pipeline: Annotated[str | None, typer.Option(help="The only pipeline; default: all there are.")] = None,
    json: Json = False,
) -> int:
    """Live through days of agents, people and an account, all made up, with your settings and pipelines.

    Everything that decides is the real thing. Exits with 1 if the daemon would have done what it must never do.
    """
    settings = context_of(context).settings()
    start_logging("error", settings.log.format)
    definitions = load_definitions(settings.definition_folders())
    house = _house(settings, definitions, _chosen(definitions, pipeline))
    report = asyncio.run(Simulation(house, SimulationPlan(tasks=tasks, days=days, seed=seed, crashes=crashes)).live())
    if json:
        print_json(ReportView(report))
    else:
        _show(report)
    return int(not report.ok)


def _chosen(definitions: Definitions, name: str | None) -> Mapping[str, Pipeline]:
    """The pipelines to use. Raises UsageError."""
    if name is None:
        return definitions.pipelines
    if name not in definitions.pipelines:
        raise UsageError(f"there is no pipeline {name!r}; {nearest(name, definitions.pipelines)}")
    return {name: definitions.pipelines[name]}


def _house(settings: Settings, definitions: Definitions, pipelines: Mapping[str, Pipeline]) -> SimulatedDaemon:
    def model_of(task: Task) -> str:
        role = pipelines[task.pipeline].stage(task.stage).role
        return (definitions.roles[role].model if role else None) or settings.agent.model

    return SimulatedDaemon(
        room=Capacity(
            places=settings.max_agents,
            day=settings.budget.day.caps(),
            turn_usd=settings.budget.turn_usd,
            limit_margin=settings.limits.margin,
        ),
        floors=Floors(
            free_disk=settings.free_space_floor,
            available_memory=settings.free_memory_floor,
            load_per_core=settings.load_ceiling,
        ),
        terms=settings.terms,
        pipelines=pipelines,
        model_of=model_of,
        stall_after=settings.stall_after,
        orphan_after=settings.orphan_after,
    )


def _show(report: SimulationReport) -> None:
    screen = console()
    screen.print(table(("TASKS", "HOW MANY"), ((name, str(count)) for name, count in report.tasks.items())))
    screen.print()
    screen.print(
        table(
            ("WAITED FOR", "TIMES", "MEDIAN", "LONGEST", "STILL"),
            ((WAITED_FOR.get(one.kind, one.kind), *_how_long(one)) for one in report.waits),
        )
    )
    screen.print()
    screen.print(
        facts(
            (
                ("crashes", f"{report.crashes}, {report.restarts} restarts"),
                ("decisions", f"{report.decisions:,}, {report.turns:,} turns of agents"),
                ("people", f"{report.answers} answers taken, {report.refusals} requests refused"),
                ("limits", f"met {report.limits_met} times"),
                ("spent", f"${report.usd:,.2f}, {report.tokens:,} tokens"),
                ("time", f"{report.days:g} days in {report.seconds:.1f} s, {report.hours_a_second:g} hours a second"),
                ("violations", str(len(report.violations))),
                ("seed", str(report.seed)),
            )
        )
    )
    if report.violations:
        complain(*_broken(report.violations[0]))


def _how_long(waits: Waits) -> tuple[str, ...]:
    return str(waits.count), duration(waits.median), duration(waits.longest), str(waits.open)


def _broken(first: Violation) -> tuple[str, ...]:
    """The first law that was broken, and what had happened to its task."""
    where = f" by {first.task}" if first.task else ""
    return (f"{first.law}: broken{where} at {first.at:%Y-%m-%d %H:%M:%S}: {first.text}", *first.history)
