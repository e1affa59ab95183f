"""A simulation with a line of progress on a terminal, which Ctrl-C ends with what there is so far."""

import asyncio

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from orchestrator.supervisor.simulation.metrics import SimulationReport
from orchestrator.supervisor.simulation.runner import DaemonConfig, Simulation, SimulationPlan


class SimulationStopped(Exception):
    """Somebody ended a simulation before its last day; `report` is about the days until then."""

    def __init__(self, report: SimulationReport) -> None:
        self.report = report
        super().__init__(f"stopped after {report.days:g} days")


def run_simulation(config: DaemonConfig, plan: SimulationPlan, description: str) -> SimulationReport:
    """Simulate, and tell how far it is if standard error is a terminal. Raises SimulationStopped at Ctrl-C."""
    screen = Console(stderr=True, highlight=False)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("day {task.completed:.1f} of {task.total:g}"),
        TimeRemainingColumn(),
    )
    simulation = Simulation(config, plan)
    with Progress(
        *columns,
        console=screen,
        transient=True,
        disable=not screen.is_terminal,
        redirect_stdout=False,
        redirect_stderr=False,
    ) as progress:
        line = progress.add_task(description, total=plan.days)
        try:
            return asyncio.run(simulation.run(lambda days: progress.update(line, completed=days)))
        except KeyboardInterrupt:
            raise SimulationStopped(simulation.report(round(simulation.days(), 2))) from None
