"""`answer`, `provide`, `approve`, `request-changes`: people's answers to agents."""

import sys
from collections.abc import Sequence
from difflib import get_close_matches
from getpass import getpass
from typing import Annotated

import typer
from rich.console import Console

from orchestrator.cli.context import Json, TaskName, TaskNames, UsageError, context_of
from orchestrator.cli.output import complain, console, line, note, print_json
from orchestrator.cli.parsing.standard_input import is_piped
from orchestrator.cli.request_output import chosen, pending, render_request
from orchestrator.cli.tasks.verbs import print_outcomes
from orchestrator.core.task.task import TaskStatus
from orchestrator.core.task.user_requests import IS_SECRET, LONGEST_ANSWER, RequestKind, RequestStatus
from orchestrator.daemon.access.verbs import Verb
from orchestrator.server.client import Client, RequestRefused
from orchestrator.server.schemas.tasks import TaskView
from orchestrator.server.schemas.user_requests import RequestList, RequestView

LARGEST_VALUE = 64 * 1024
"""Bytes that are read of a value."""

Number = Annotated[
    int | None, typer.Option("--ask", metavar="N", help="The number of the request, if there are several.")
]


def answer(  # noqa: PLR0913, PLR0917 - one parameter for each option
    context: typer.Context,
    task: TaskName,
    text: Annotated[str | None, typer.Argument(metavar="TEXT", help="The answer, or the number of an option.")] = None,
    number: Number = None,
    skip: Annotated[bool, typer.Option("--skip", help="Use the default, or let the agent decide.")] = False,
    json: Json = False,
) -> None:
    """Answer an agent's question. Without TEXT, questions are shown and one line is read for each.

    If standard input is no terminal and there is one question, the whole input is its answer.
    """
    if skip and text is not None:
        raise UsageError("give an answer or --skip, not both")
    with context_of(context).client() as client:
        requests = pending(client.task(task), RequestKind.QUESTION, "answer")
        if skip:
            done = [client.skip(chosen(requests, number))]
        elif text is not None:
            one = chosen(requests, number)
            done = [client.answer(one, _meant(one, text))]
        else:
            done = _answer_in_turn(client, requests if number is None else [chosen(requests, number)])
    _print(done, json=json)


def provide(
    context: typer.Context,
    task: TaskName,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name the agent gave it.", show_default=False)],
    reject: Annotated[
        str | None, typer.Option("--reject", metavar="REASON", help="Refuse to provide it, for this reason.")
    ] = None,
    json: Json = False,
) -> None:
    """Provide what an agent needs. A value is read from a hidden prompt or from standard input, never from arguments.

    A line break at the end of the input is removed. Permissions and packages have no value.
    """
    with context_of(context).client() as client:
        one = _named(_wanted(client.task(task)), name)
        if reject is not None:
            _print([client.reject(one, reject)], json=json)
            return
        done = client.provide(one, _value(one) if one.type in IS_SECRET else None)
    _print([done], json=json)
    if done.unmasked is not None:
        note(f"{one.name} is not masked in the output of agents and tools: {done.unmasked}")


def approve(context: typer.Context, task: TaskNames, number: Number = None, json: Json = False) -> int:
    """Approve work under review; the tasks continue. Of several tasks, everything that waits for approval is meant."""
    if len(task) > 1 and number is not None:
        raise UsageError("--ask N is for one TASK; without it, everything that these tasks ask is approved")
    with context_of(context).client() as client:
        if len(task) > 1:
            return print_outcomes(client.batch(Verb.APPROVE, task), json=json)
        done = client.approve(chosen(pending(client.task(task[0]), RequestKind.REVIEW, "approve"), number))
    _print([done], json=json)
    return 0


def request_changes(
    context: typer.Context,
    task: TaskName,
    message: Annotated[
        str | None, typer.Option("--message", "-m", help="What has to change; default, or -: standard input.")
    ] = None,
    number: Number = None,
    json: Json = False,
) -> None:
    """Send work under review back, with what has to change."""
    piped = message == "-" or (message is None and is_piped())
    text = _input(LONGEST_ANSWER * 4) if piped else message
    if not text:
        raise UsageError("say what has to change: -m TEXT, or text on standard input")
    with context_of(context).client() as client:
        one = chosen(pending(client.task(task), RequestKind.REVIEW, "request-changes"), number)
        done = client.request_changes(one, text)
    _print([done], json=json)


def _answer_in_turn(client: Client, requests: Sequence[RequestView]) -> list[RequestView]:
    """Show each question and read its answer; on a terminal, a refused answer is asked for again."""
    screen = Console(stderr=True, highlight=False, markup=False, emoji=False)
    at_terminal, done = sys.stdin.isatty(), list[RequestView]()
    for one in requests:
        for part in render_request(one):
            screen.print(part)
        while True:
            text = _line() if at_terminal or len(requests) > 1 else _input(LONGEST_ANSWER * 4)
            try:
                done.append(_send(client, one, text))
                break
            except RequestRefused as error:
                if not at_terminal or error.kind != "bad-answer":
                    raise
                complain(str(error))
    return done


def _send(client: Client, request: RequestView, text: str) -> RequestView:
    """Send an answer; an empty one means the default, or skips an optional question."""
    if text.strip():
        return client.answer(request, _meant(request, text.strip()))
    if request.default is not None:
        return client.answer(request, request.default)
    return client.answer(request, "") if request.required else client.skip(request)


def _meant(request: RequestView, text: str) -> str:
    """Return the answer; a number means the option with that number, unless an option has that text."""
    by_number = {str(at): option for at, option in enumerate(request.options, 1)}
    return text if text in request.options else by_number.get(text, text)


def _wanted(task: TaskView) -> Sequence[RequestView]:
    """Return dependencies that wait; for a blocked task, those that it was given before. Raises InvalidTransition."""
    given = [
        request
        for request in task.requests
        if request.kind is RequestKind.DEPENDENCY and request.status is RequestStatus.PROVIDED
    ]
    return given if given and task.status is TaskStatus.BLOCKED else pending(task, RequestKind.DEPENDENCY, "provide")


def _named(requests: Sequence[RequestView], name: str) -> RequestView:
    found = next((request for request in requests if request.name == name), None)
    if found is None:
        names = [request.name for request in requests]
        near = get_close_matches(name, names, n=1)
        hint = f"did you mean {near[0]}?" if near else f"it needs {', '.join(names)}"
        raise UsageError(f"nothing called {name!r:.60} is needed; {hint}")
    return found


def _value(request: RequestView) -> str:
    """Read the value without showing it, up to the size limit."""
    if sys.stdin.isatty():
        return getpass(f"{line(request.name)} (not shown): ")
    return _input(LARGEST_VALUE)


def _input(most: int) -> str:
    """Return standard input without the line break at its end. Raises UsageError."""
    content = sys.stdin.buffer.read(most + 3)
    try:
        text = content.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise UsageError("standard input is not text in UTF-8; encode it, for example with base64") from None
    if len(text.encode()) > most:
        raise UsageError(f"standard input is longer than {most} bytes")
    return text


def _line() -> str:
    typer.echo("> ", nl=False, err=True)
    text = sys.stdin.readline()
    if not text:
        raise UsageError("the input ended before everything was answered")
    return text


def _print(done: Sequence[RequestView], *, json: bool) -> None:
    if json:
        print_json(RequestList(requests=tuple(done)))
        return
    for request in done:
        given = f": {request.answer}" if request.answer else ""
        console().print(request.id, line(f"{request.status.replace('_', ' ')}{given}"))
