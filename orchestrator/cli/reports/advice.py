"""What would have helped: the settings that a simulation is repeated with, each with more of one thing."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace

from orchestrator.cli.output import console, note, table
from orchestrator.cli.reports.simulating import run_simulation
from orchestrator.core.task.budget import NO_CAPS
from orchestrator.core.task.task import TaskStatus
from orchestrator.core.task.task_policy import TaskPolicy
from orchestrator.supervisor.simulation.metrics import SimulationReport
from orchestrator.supervisor.simulation.runner import DaemonConfig, SimulationPlan

MORE_PLACES = (2, 4)
"""Times as many slots as there are."""
FOR_BUDGET = "budget"
"""The kind of waits for a higher budget."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A simulation of the same days with another value of one setting, as a line of orchestrator.toml says it."""

    setting: str
    never_began: int
    completed: int
    open: int
    usd: float


def measure(setting: str, report: SimulationReport) -> Variant:
    """Return what a simulation with a setting came to."""
    ended = sum(count for status, count in report.tasks.items() if TaskStatus(status).is_final)
    return Variant(
        setting=setting,
        never_began=report.tasks.get(TaskStatus.PENDING, 0),
        completed=report.tasks.get(TaskStatus.COMPLETED, 0),
        open=sum(report.tasks.values()) - ended,
        usd=report.usd,
    )


def alternatives(config: DaemonConfig, report: SimulationReport) -> Iterator[tuple[str, DaemonConfig]]:
    """Yield settings that might have helped tasks that never began or had to wait, with what each is called.

    Nothing is yielded if every task began and none was left waiting for a slot or a budget.
    """
    capacity = config.capacity
    waited = {one.kind for one in report.waits if one.open}
    if not waited & {"pending", "place", FOR_BUDGET}:
        return
    for times in MORE_PLACES:
        places = capacity.places * times
        yield f"max_agents = {places}", replace(config, capacity=replace(capacity, places=places))
    if capacity.day != NO_CAPS:
        yield "[budget.day] without caps", replace(config, capacity=replace(capacity, day=NO_CAPS))
    if capacity.windows:
        yield "no run windows", replace(config, capacity=replace(capacity, windows=()))
    if FOR_BUDGET in waited:
        yield "[budget.task] without caps", replace(config, policy=lambda *given: _uncapped(config.policy(*given)))


def _uncapped(policy: TaskPolicy) -> TaskPolicy:
    return replace(policy, caps=NO_CAPS)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvisedReport(SimulationReport):
    """A report, and what the same days would have come to with more of one thing; the first line is as it is."""

    variants: tuple[Variant, ...] = ()


def advised(report: SimulationReport, variants: tuple[Variant, ...]) -> AdvisedReport:
    """Return a report with what the same days would have come to."""
    return AdvisedReport(**{one.name: getattr(report, one.name) for one in fields(report)}, variants=variants)


def simulate_variants(config: DaemonConfig, plan: SimulationPlan, report: SimulationReport) -> tuple[Variant, ...]:
    """Return the simulation and those with other settings; nothing if none might have helped.

    Raises SimulationStopped.
    """
    found = [*alternatives(config, report)]
    if found:
        note(f"repeating it with {', '.join(setting for setting, _ in found)}; --no-advise leaves that out")
    others = [measure(setting, run_simulation(other, plan, setting)) for setting, other in found]
    return (measure(f"max_agents = {config.capacity.places}", report), *others) if others else ()


def show_advice(variants: Sequence[Variant], tasks: int) -> None:
    """Show what would have helped, the settings as they are first."""
    now, *others = variants
    screen = console()
    screen.print()
    headings = ("THE SAME DAYS WITH", "NEVER BEGAN", "COMPLETED", "OPEN AT THE END", "COST")
    screen.print(table(headings, [_variant_row(one, is_now=one is now) for one in variants]))
    best = min(others, key=lambda one: (one.never_began, -one.completed))
    if (best.never_began, -best.completed) < (now.never_began, -now.completed):
        said = f"{now.never_began} of {tasks} tasks never began; with {best.setting} it would have been"
        screen.print(f"{said} {best.never_began}, and {best.completed} completed instead of {now.completed}")
    else:
        screen.print("none of these would have helped: the tasks waited for people, limits or the model's service")


def _variant_row(one: Variant, *, is_now: bool) -> tuple[str, ...]:
    setting = f"{one.setting}, as it is" if is_now else one.setting
    return setting, str(one.never_began), str(one.completed), str(one.open), f"${one.usd:,.2f}"
