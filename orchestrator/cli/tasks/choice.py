"""`start` and `stop`: words that other programs have; what they mean here is done, or asked on a terminal."""

import sys
from typing import Annotated

import typer

from orchestrator.cli.context import TASK_HELP, Json, TaskNames, UsageError, context_of
from orchestrator.cli.tasks.verbs import ask_tasks, print_outcomes, print_task
from orchestrator.daemon.access.verbs import Verb

SomeTasks = Annotated[
    list[str] | None, typer.Argument(metavar="TASK...", help=f"{TASK_HELP} Several may be given.", show_default=False)
]
STOPS = {"p": Verb.PAUSE, "c": Verb.CANCEL}


def start(context: typer.Context, task: SomeTasks = None, json: Json = False) -> int:
    """Have tasks go on: a draft is submitted, a paused task resumed, a blocked one tried again."""
    if not task:
        raise UsageError(
            "`orchestrator serve` starts the daemon, `orchestrator submit TEXT` a task, "
            "and `orchestrator start TASK` one that is a draft, paused or blocked"
        )
    with context_of(context).client() as client:
        if len(task) == 1:
            print_task(client.request(task[0], Verb.EXECUTE), json=json)
            return 0
        return print_outcomes(client.batch(Verb.EXECUTE, task), json=json)


def stop(context: typer.Context, task: SomeTasks = None, json: Json = False) -> int:
    """Pause or cancel tasks: on a terminal you are asked which; elsewhere use those commands."""
    if not task:
        raise UsageError(
            "`orchestrator pause --all` pauses every task, `orchestrator drain` ends all agents before a restart and "
            "keeps their sessions; the daemon is stopped by whoever started it: agents outlive that"
        )
    named = " ".join(task)
    if not sys.stdin.isatty() or json:
        raise UsageError(
            f"stop may mean two things: `orchestrator pause {named}` freezes it until `orchestrator resume`, "
            f"`orchestrator cancel {named}` ends it for good"
        )
    answer = typer.prompt(f"{named}: p pauses until you resume, c cancels for good, else nothing is done", err=True)
    verb = STOPS.get(str(answer).strip().lower()[:1])
    if verb is None:
        raise typer.Abort
    return ask_tasks(context, task, verb, json=json)


def kill(context: typer.Context, task: TaskNames, json: Json = False) -> int:
    """Pause or cancel tasks, as `stop` does."""
    return stop(context, task, json)
