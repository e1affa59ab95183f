"""`answer`, `provide`, `approve`, `request-changes`: a person's part."""

import sys
from collections.abc import Sequence
from difflib import get_close_matches
from getpass import getpass
from typing import Annotated

import typer
from rich.console import Console

from orchestrator.cli.context import Json, TaskName, UsageError, context_of
from orchestrator.cli.output import complain, console, line, note, print_json
from orchestrator.cli.request_output import chosen, pending, render_request
from orchestrator.core.task.task import TaskStatus
from orchestrator.core.task.user_requests import IS_SECRET, LONGEST_ANSWER, RequestKind, RequestStatus
from orchestrator.server.client import Client, RequestRefused
from orchestrator.server.schemas.tasks import TaskView
from orchestrator.server.schemas.user_requests import RequestList, RequestView

LARGEST_VALUE = 64 * 1024
"""Bytes: no more of a value is read."""

Number = Annotated[int | None, typer.Option("--ask", metavar="N", help="Which one, if it asks for several.")]


def answer(  # noqa: PLR0913, PLR0917 - one parameter for each option
    context: typer.Context,
    task: TaskName,
    text: Annotated[str | None, typer.Argument(metavar="TEXT", help="The answer, or an option's number.")] = None,
    ask: Number = None,
    skip: Annotated[bool, typer.Option("--skip", help="Leave it to the default, or to the agent.")] = False,
    json: Json = False,
) -> None:
    """Answer what an agent asks. Without TEXT the questions are shown, and answers read: one line for each.

    Where standard input is no terminal and there is one question, all of the input is its answer.
    """
    if skip and text is not None:
        raise UsageError("give an answer or --skip, not both")
    with context_of(context).client() as client:
        asks = pending(client.task(task), RequestKind.QUESTION, "answer")
        if skip:
            done = [client.skip(chosen(asks, ask))]
        elif text is not None:
            one = chosen(asks, ask)
            done = [client.answer(one, _meant(one, text))]
        else:
            done = _answered_in_turn(client, asks if ask is None else [chosen(asks, ask)])
    _say(done, json=json)


def provide(
    context: typer.Context,
    task: TaskName,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the agent calls it.", show_default=False)],
    reject: Annotated[str | None, typer.Option("--reject", metavar="REASON", help="Say that it will not be.")] = None,
    json: Json = False,
) -> None:
    """Provide what an agent needs. A value is read from a hidden prompt or standard input, never from the arguments.

    One line break at the end of the input does not count. A permission or a package has no value.
    """
    with context_of(context).client() as client:
        one = _named(_wanted(client.task(task)), name)
        if reject is not None:
            _say([client.reject(one, reject)], json=json)
            return
        done = client.provide(one, _value(one) if one.type in IS_SECRET else None)
    _say([done], json=json)
    if done.unmasked is not None:
        note(f"{one.name} is not hidden where an agent or a tool prints it: {done.unmasked}")


def approve(context: typer.Context, task: TaskName, ask: Number = None, json: Json = False) -> None:
    """Approve what a task shows for review; it goes on."""
    with context_of(context).client() as client:
        done = client.approve(chosen(pending(client.task(task), RequestKind.REVIEW, "approve"), ask))
    _say([done], json=json)


def request_changes(
    context: typer.Context,
    task: TaskName,
    message: Annotated[str, typer.Option("--message", "-m", help="What has to be different; - reads it.")],
    ask: Number = None,
    json: Json = False,
) -> None:
    """Send back what a task shows for review, with what has to be different."""
    with context_of(context).client() as client:
        one = chosen(pending(client.task(task), RequestKind.REVIEW, "request-changes"), ask)
        done = client.request_changes(one, _input(LONGEST_ANSWER * 4) if message == "-" else message)
    _say([done], json=json)


def _answered_in_turn(client: Client, asks: Sequence[RequestView]) -> list[RequestView]:
    """Show each question and read its answer; on a terminal a refused one is asked for again."""
    screen = Console(stderr=True, highlight=False, markup=False, emoji=False)
    at_terminal, done = sys.stdin.isatty(), list[RequestView]()
    for one in asks:
        for part in render_request(one):
            screen.print(part)
        while True:
            text = _line() if at_terminal or len(asks) > 1 else _input(LONGEST_ANSWER * 4)
            try:
                done.append(_taken(client, one, text))
                break
            except RequestRefused as error:
                if not at_terminal or error.kind != "bad-answer":
                    raise
                complain(str(error))
    return done


def _taken(client: Client, ask: RequestView, text: str) -> RequestView:
    """The ask once it has this answer; an empty one is the default, or skips what need not be answered."""
    if text.strip():
        return client.answer(ask, _meant(ask, text.strip()))
    if ask.default is not None:
        return client.answer(ask, ask.default)
    return client.answer(ask, "") if ask.required else client.skip(ask)


def _meant(ask: RequestView, text: str) -> str:
    """The answer; the number of an option means the option, unless one is called so."""
    by_number = {str(at): option for at, option in enumerate(ask.options, 1)}
    return text if text in ask.options else by_number.get(text, text)


def _wanted(task: TaskView) -> Sequence[RequestView]:
    """What a task needs; if it is blocked, what it was given before and may have lost. Raises InvalidTransition."""
    wanted = (RequestKind.DEPENDENCY, RequestStatus.PROVIDED)
    given = [request for request in task.requests if (request.kind, request.status) == wanted]
    return given if given and task.status is TaskStatus.BLOCKED else pending(task, RequestKind.DEPENDENCY, "provide")


def _named(asks: Sequence[RequestView], name: str) -> RequestView:
    found = next((ask for ask in asks if ask.name == name), None)
    if found is None:
        names = [ask.name for ask in asks]
        near = get_close_matches(name, names, n=1)
        hint = f"did you mean {near[0]}?" if near else f"it needs {', '.join(names)}"
        raise UsageError(f"nothing called {name!r:.60} is needed; {hint}")
    return found


def _value(ask: RequestView) -> str:
    """The value, unseen; one that is larger than may be is read no further."""
    if sys.stdin.isatty():
        return getpass(f"{line(ask.name)} (not shown): ")
    return _input(LARGEST_VALUE)


def _input(most: int) -> str:
    """What stands in standard input, without the line break at its end. Raises UsageError."""
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


def _say(done: Sequence[RequestView], *, json: bool) -> None:
    if json:
        print_json(RequestList(requests=tuple(done)))
        return
    for ask in done:
        given = f": {ask.answer}" if ask.answer else ""
        console().print(ask.id, line(f"{ask.status.replace('_', ' ')}{given}"))
