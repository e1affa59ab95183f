"""The same asked of one task, or of several at once: each is answered for itself, on a line of its own."""

from collections.abc import Sequence

import typer

from orchestrator.cli.app import EXIT_CODES, FAILED
from orchestrator.cli.context import context_of
from orchestrator.cli.output import complain, console, note, print_json, status_text
from orchestrator.daemon.access.verbs import Verb
from orchestrator.server.client import Client
from orchestrator.server.schemas.tasks import BatchView, OutcomeView, ProblemView, TaskLine, TaskView


def ask_tasks(context: typer.Context, names: Sequence[str], verb: Verb, *, json: bool) -> int:
    """Ask the same of every task, print what became of each, and return the exit code: the highest of them."""
    with context_of(context).client() as client:
        if len(names) == 1:
            print_task(client.request(names[0], verb), json=json)
            return 0
        return print_outcomes(client.batch(verb, names), json=json)


def print_task(task: TaskView, *, json: bool) -> None:
    """Print how a task is now, on one line or as a document."""
    if json:
        print_json(task)
    elif task.paused and task.agent.blocked_by is None:
        console().print(task.id, "continues as soon as a slot is free")
    else:
        console().print(task.id, status_text(task.status, paused=task.paused, blocked_by=task.agent.blocked_by))
    if not json and task.retry_of is not None and task.started_at is None:
        note(f"it is a new task with the ticket and the options of {task.retry_of}, which stays as it is")


def print_outcomes(found: BatchView, *, json: bool) -> int:
    """Print what became of each task of a batch, and return the exit code: the highest of them."""
    if json:
        print_json(found)
    else:
        for one in found.results:
            _print_outcome(one)
    return max((exit_code(one.problem) for one in found.results if one.problem), default=0)


def exit_code(problem: ProblemView) -> int:
    """Return the exit code for a problem."""
    return EXIT_CODES.get(problem.type.rpartition(":")[2], FAILED)


def _print_outcome(one: OutcomeView) -> None:
    if one.problem is not None:
        complain(f"{one.name}: {one.problem.detail}")
    elif one.task is None:
        console().print(one.name, "is deleted")
    else:
        console().print(one.task.id, _status(one.task))


def _status(task: TaskLine) -> object:
    if task.paused and task.blocked_by is None:
        return "continues as soon as a slot is free"
    return status_text(task.status, paused=task.paused, blocked_by=task.blocked_by)


def tasks_of(client: Client, names: Sequence[str]) -> list[TaskView]:
    """Return the tasks that names mean, each once, in their order. Raises RequestRefused for a name that means none."""
    found = {task.id: task for task in map(client.task, names)}
    return [*found.values()]
