"""`simulate`: simulate days of work with the user's settings and pipelines on a virtual clock."""

from collections.abc import Mapping
from datetime import tzinfo
from typing import Annotated

import typer
from pydantic import RootModel

from orchestrator.cli.app import INTERRUPTED
from orchestrator.cli.context import Json, UsageError, context_of
from orchestrator.cli.output import complain, console, duration, facts, note, print_json, table
from orchestrator.cli.reports.advice import AdvisedReport, Variant, advised, show_advice, simulate_variants
from orchestrator.cli.reports.simulating import SimulationStopped, run_simulation
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.task import Task
from orchestrator.formats.table import nearest
from orchestrator.log import start_logging
from orchestrator.pipelines.definitions import Definitions, load_definitions
from orchestrator.pipelines.pipeline_rules import descendants
from orchestrator.settings.sections.windows import zone_of
from orchestrator.settings.settings import Settings
from orchestrator.supervisor.recurrence import parse_recurrence
from orchestrator.supervisor.simulation.metrics import SimulationReport, Violation
from orchestrator.supervisor.simulation.runner import DaemonConfig, SimulationPlan

WAITED_FOR = {
    "pending": "a slot to begin",
    "place": "a slot to continue",
    "draft": "submission of a draft",
    "user": "a resume by a user",
    "blocked": "a user's decision",
    "question": "an answer",
    "review": "a review",
    "dependency": "a dependency",
    "rate_limit": "a usage limit",
    "service": "the model's service",
    "budget": "a higher budget",
    "window": "its run window",
    "pressure": "free resources",
    "children": "the end of its children",
}
"""Texts for what tasks wait for."""


class ReportView(RootModel[AdvisedReport]):
    """The report, as `--json` prints it."""


def simulate(  # noqa: PLR0913, PLR0917 - one for each option
    context: typer.Context,
    tasks: Annotated[int, typer.Option(min=1, max=100_000, help="How many tickets are submitted.")] = 500,
    days: Annotated[float, typer.Option(min=0.01, max=366.0, help="How many days to simulate.")] = 7.0,
    seed: Annotated[int, typer.Option(help="The same number gives the same days.")] = 0,
    crashes: Annotated[int, typer.Option(min=0, max=100_000, help="How often the daemon is killed.")] = 200,
    pipeline: Annotated[str | None, typer.Option(help="Use only this pipeline; default: all.")] = None,
    schedule: Annotated[
        list[str] | None, typer.Option(metavar="LINE", help="Submit tasks at '0 22 * * 1-5' besides; repeatable.")
    ] = None,
    advise: Annotated[
        bool, typer.Option("--advise/--no-advise", help="Repeat it with more slots and budget, and say what helps.")
    ] = True,
    zone: Annotated[str, typer.Option(help="The time zone of --schedule; default: yours.")] = "",
    json: Json = False,
) -> int:
    """Simulate days of work with your settings and pipelines; agents, users and the account are made up.

    Every decision is made by the real code. Exits with 1 if the daemon violated one of its invariants. Ctrl-C ends it
    with what there is so far.
    """
    settings = context_of(context).settings()
    start_logging("error", settings.log.format)
    definitions = load_definitions(settings.definition_folders())
    config = _config(settings, definitions, _chosen(definitions, pipeline))
    plan = SimulationPlan(
        tasks=tasks, days=days, seed=seed, crashes=crashes, schedules=tuple(schedule or ()), zone=_zone(zone)
    )
    for line in plan.schedules:
        _require_line(line, plan.zone)
    try:
        report = run_simulation(config, plan, "simulating")
    except SimulationStopped as stopped:
        print_json(ReportView(advised(stopped.report, ()))) if json else _show(stopped.report)
        note(f"stopped: this is what {stopped.report.days:g} of {days:g} days came to")
        return INTERRUPTED
    if not json:
        _show(report)
    variants, code = _advice(config, plan, report) if advise and report.ok else ((), int(not report.ok))
    if json:
        print_json(ReportView(advised(report, variants)))
    elif variants:
        show_advice(variants, sum(report.tasks.values()))
    return code


def _advice(config: DaemonConfig, plan: SimulationPlan, report: SimulationReport) -> tuple[tuple[Variant, ...], int]:
    """Return what the same days would have come to with other settings, and the exit code."""
    try:
        return simulate_variants(config, plan, report), 0
    except SimulationStopped:
        note("stopped: what other settings would have come to is left out; the report is whole")
        return (), INTERRUPTED


def _zone(name: str) -> tzinfo:
    try:
        return zone_of(name)
    except ValueError as error:
        raise UsageError(f"--zone: {error}") from None


def _require_line(line: str, zone: tzinfo) -> None:
    try:
        parse_recurrence(line, zone)
    except ValueError as error:
        raise UsageError(f"--schedule: {error}") from None


def _chosen(definitions: Definitions, name: str | None) -> Mapping[str, Pipeline]:
    """Return the pipelines to use. Raises UsageError."""
    if name is None:
        return definitions.pipelines
    if name not in definitions.pipelines:
        raise UsageError(f"there is no pipeline {name!r}; {nearest(name, definitions.pipelines)}")
    return {one: definitions.pipelines[one] for one in descendants(name, definitions.pipelines)}


def _config(settings: Settings, definitions: Definitions, pipelines: Mapping[str, Pipeline]) -> DaemonConfig:
    def model_of(task: Task) -> str:
        role = pipelines[task.pipeline].stage(task.stage).role
        return (definitions.roles[role].model if role else None) or settings.agent.model

    return DaemonConfig(
        capacity=settings.capacity(),
        floors=settings.floors(),
        policy=settings.policy,
        pipelines=pipelines,
        model_of=model_of,
        stall_after=settings.stall_after,
        orphan_after=settings.orphan_after,
    )


def _show(report: SimulationReport) -> None:
    screen = console()
    screen.print(table(("TASKS", "COUNT"), ((name, str(count)) for name, count in report.tasks.items())))
    screen.print()
    screen.print(
        table(
            ("WAITED FOR", "TIMES", "MEDIAN", "LONGEST", "OPEN"),
            (
                (
                    WAITED_FOR.get(one.kind, one.kind),
                    *(str(one.count), duration(one.median), duration(one.longest), str(one.open)),
                )
                for one in report.waits
            ),
        )
    )
    screen.print()
    screen.print(
        facts(
            (
                ("crashes", f"{report.crashes}, {report.restarts} restarts"),
                ("decisions", f"{report.decisions:,}, {report.turns:,} agent turns"),
                ("people", f"{report.answers} answers accepted, {report.refusals} requests refused"),
                ("scheduled", ", ".join(f"{count} {result}" for result, count in report.scheduled.items())),
                ("limits", f"met {report.limits_met} times"),
                ("spent", f"${report.usd:,.2f}, {report.tokens:,} tokens"),
                ("time", f"{report.days:g} days in {report.seconds:.1f} s, {report.hours_a_second:g} hours per second"),
                ("violations", str(len(report.violations))),
                ("seed", str(report.seed)),
            )
        )
    )
    if report.violations:
        complain(*_violation_lines(report.violations[0]))


def _violation_lines(first: Violation) -> tuple[str, ...]:
    """Return the lines that show the first violation and the history of its task."""
    task = f" by {first.task}" if first.task else ""
    return (f"{first.invariant}: violated{task} at {first.at:%Y-%m-%d %H:%M:%S}: {first.text}", *first.history)
