"""Schedules by any part of their names, and the same asked of several: each is answered for itself."""

from collections.abc import Callable, Sequence

import typer

from orchestrator.cli.app import EXIT_CODES, FAILED
from orchestrator.cli.context import UnknownName, UsageError, context_of
from orchestrator.cli.output import complain, console, plain, print_json
from orchestrator.server.access.schedules import ScheduleClient
from orchestrator.server.client import RequestRefused
from orchestrator.server.schemas.base import View
from orchestrator.server.schemas.intake.schedules import ScheduleView
from orchestrator.server.schemas.tasks import ProblemView

Ask = Callable[[ScheduleClient, str], ScheduleView]


class ScheduleOutcome(View):
    """What became of one schedule: it is as `schedule` says, or `problem` refused it."""

    name: str
    schedule: ScheduleView | None = None
    problem: ProblemView | None = None


class ScheduleOutcomes(View):
    """What became of each of several schedules, in the order in which they were named."""

    results: tuple[ScheduleOutcome, ...]
    done: int
    refused: int


def find_schedule(client: ScheduleClient, part: str) -> ScheduleView:
    """Return the schedule of this name, or the only one whose name has this part. Raises UnknownName and UsageError."""
    known = {one.name: one for one in client.listed().schedules}
    fitting = [part] if part in known else [name for name in known if part.lower() in name]
    if not part or not fitting:
        raise UnknownName(f"there is no schedule {part!r:.60}; `orchestrator schedule list` lists all")
    if len(fitting) > 1:
        raise UsageError(f"{part} is ambiguous: it may be any of {', '.join(fitting)}; give more of the name")
    return known[fitting[0]]


def ask_schedules(
    context: typer.Context, parts: Sequence[str], ask: Ask, said: Callable[[ScheduleView], str], *, json: bool
) -> int:
    """Ask the same of every schedule, say what became of each, and return the exit code: the highest of them.

    All names are looked up first: nothing is asked of any schedule if one name fits none, or several.
    """
    with context_of(context).client() as client:
        schedules = ScheduleClient(client)
        names = dict.fromkeys(find_schedule(schedules, part).name for part in parts)
        if len(parts) == 1:
            _show(ask(schedules, *names), said, json=json)
            return 0
        outcomes = tuple(_outcome(schedules, name, ask) for name in names)
    refused = [one.problem for one in outcomes if one.problem]
    if json:
        print_json(ScheduleOutcomes(results=outcomes, done=len(outcomes) - len(refused), refused=len(refused)))
    for one in outcomes:
        if one.problem:
            complain(f"{one.name}: {one.problem.detail}")
        elif one.schedule and not json:
            _show(one.schedule, said, json=False)
    return max((EXIT_CODES.get(one.type.rpartition(":")[2], FAILED) for one in refused), default=0)


def _outcome(client: ScheduleClient, name: str, ask: Ask) -> ScheduleOutcome:
    try:
        return ScheduleOutcome(name=name, schedule=ask(client, name))
    except RequestRefused as error:
        return ScheduleOutcome(name=name, problem=error.problem)


def _show(found: ScheduleView, said: Callable[[ScheduleView], str], *, json: bool) -> None:
    if json:
        print_json(found)
    else:
        console().print(plain(said(found)), soft_wrap=True)
