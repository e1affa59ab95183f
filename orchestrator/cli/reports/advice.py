"""What would have helped: the settings that a simulation is repeated with, each with more of one thing."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from orchestrator.core.task.budget import NO_CAPS
from orchestrator.core.task.task import TaskStatus
from orchestrator.core.task.task_policy import TaskPolicy
from orchestrator.supervisor.simulation.metrics import SimulationReport
from orchestrator.supervisor.simulation.runner import DaemonConfig

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
