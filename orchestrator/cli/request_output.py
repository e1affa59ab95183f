"""How what a person is asked for is shown, and found again by those who answer."""

from collections.abc import Iterable, Iterator
from typing import assert_never

from rich.text import Text

from orchestrator.cli.context import UsageError
from orchestrator.cli.output import local, plain
from orchestrator.core.task.user_requests import RequestKind, Subject, how_to_answer
from orchestrator.errors import InvalidTransition
from orchestrator.server.schemas.tasks import TaskView
from orchestrator.server.schemas.user_requests import RequestView, ReviewView


def pending(task: TaskView, kind: RequestKind, action: str) -> tuple[RequestView, ...]:
    """What of a kind a task waits for. Raises InvalidTransition where that is nothing."""
    found = tuple(request for request in task.waiting if request.kind is kind)
    if not found or action not in task.allowed:
        raise InvalidTransition(action, task.status, task.stage, task.allowed)
    return found


def chosen(requests: Iterable[RequestView], number: int | None) -> RequestView:
    """The ask of that number; without one the only one there is. Raises UsageError."""
    found = [request for request in requests if number in {None, request.number}]
    if len(found) == 1:
        return found[0]
    listed = "; ".join(f"--ask {request.number}: {' '.join(request.text.split())[:60]}" for request in requests)
    raise UsageError(f"{'say which one' if found else f'nothing is asked under {number}'}: {listed}")


def render_request(request: RequestView) -> Iterator[Text]:
    """What is asked, with everything that helps to answer."""
    yield Text(f"{_what(request)} ", "bold magenta") + Text(f"({request.number}, in {plain(request.stage)})", "dim")
    yield Text("\n".join(f"  {line}" for line in plain(request.text).splitlines()))
    for at, option in enumerate(request.options, 1):
        mark = "  (if nothing is said)" if option == request.default else ""
        yield Text(f"  {at}. {plain(option)}") + Text(mark, "dim")
    if request.default is not None and request.default not in request.options:
        yield Text(f"  if nothing is said: {plain(request.default)}", "dim")
    if request.deadline is not None:
        yield Text(f"  without an answer it goes on at {local(request.deadline)}", "dim")
    if isinstance(request, ReviewView):
        yield from _to_look_at(request)
    yield Text(f"  {how(request)}", "bold")


def how(request: RequestView) -> str:
    """The command that answers."""
    return how_to_answer(request.task, request.kind, request.subject, plain(request.name), f" --ask {request.number}")


def _what(request: RequestView) -> str:
    match request.subject:
        case Subject.QUESTION:
            return "A question"
        case Subject.PERMISSION:
            return f"May it use {plain(request.name)}?"
        case Subject.PLAN:
            return "A plan to be approved"
        case Subject.DEPENDENCY:
            return f"It needs the {request.type.replace('_', ' ')} {plain(request.name)}"
        case Subject.STAGE:
            return "Work to be reviewed"
        case Subject.MERGE:
            return "A merge to be approved"
        case Subject.RELEASE:
            return "A release to be approved"
        case _:
            assert_never(request.subject)


def _to_look_at(review: ReviewView) -> Iterator[Text]:
    """The files that the stage left, and how to see what has changed in the repository."""
    for file in review.files:
        yield Text(f"  {plain(file)}")
    if review.change is not None and review.worktree and review.head:
        change = review.change
        yield Text(f"  {change.files} files changed, {change.added} lines added, {change.removed} removed")
        yield Text(f"  git -C {plain(review.worktree)} diff {review.base_commit[:12]} {review.head[:12]}")
