"""How questions, reviews and dependencies are shown, and selected by the commands that answer them."""

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
    """Return what of a kind a task waits for. Raises InvalidTransition if there is nothing."""
    found = tuple(request for request in task.waiting if request.kind is kind)
    if not found or action not in task.allowed:
        raise InvalidTransition(action, task.status, task.stage, task.allowed)
    return found


def chosen(requests: Iterable[RequestView], number: int | None) -> RequestView:
    """Return the request of that number, or the only one there is. Raises UsageError."""
    found = [request for request in requests if number in {None, request.number}]
    if len(found) == 1:
        return found[0]
    listed = "; ".join(f"--ask {request.number}: {' '.join(request.text.split())[:60]}" for request in requests)
    raise UsageError(f"{'give the number of one' if found else f'there is no request number {number}'}: {listed}")


def render_request(request: RequestView) -> Iterator[Text]:
    """Render a request with everything that helps to answer it."""
    yield Text(f"{_what(request)} ", "bold magenta") + Text(f"({request.number}, in {plain(request.stage)})", "dim")
    yield Text("\n".join(f"  {line}" for line in plain(request.text).splitlines()))
    for at, option in enumerate(request.options, 1):
        mark = "  (the default)" if option == request.default else ""
        yield Text(f"  {at}. {plain(option)}") + Text(mark, "dim")
    if request.default is not None and request.default not in request.options:
        yield Text(f"  default: {plain(request.default)}", "dim")
    if request.deadline is not None:
        yield Text(f"  without an answer, the default applies at {local(request.deadline)}", "dim")
    if isinstance(request, ReviewView):
        yield from _to_look_at(request)
    yield Text(f"  {how(request)}", "bold")


def how(request: RequestView) -> str:
    """Return the command that answers."""
    return how_to_answer(request.task, request.kind, request.subject, plain(request.name), f" --ask {request.number}")


def _what(request: RequestView) -> str:
    match request.subject:
        case Subject.QUESTION:
            return "A question"
        case Subject.PERMISSION:
            return f"May it use {plain(request.name)}?"
        case Subject.PLAN:
            return "A plan to approve"
        case Subject.DEPENDENCY:
            return f"It needs the {request.type.replace('_', ' ')} {plain(request.name)}"
        case Subject.STAGE:
            return "Work to review"
        case Subject.PUBLISH:
            return "A text to look at before it is published"
        case Subject.MERGE:
            return "A merge to approve"
        case Subject.RELEASE:
            return "A release to approve"
        case _:
            assert_never(request.subject)


def _to_look_at(review: ReviewView) -> Iterator[Text]:
    """Render the files that the stage left, and the command that shows the changes."""
    for file in review.files:
        yield Text(f"  {plain(file)}")
    if review.change is not None and review.worktree and review.head:
        change = review.change
        yield Text(f"  {change.files} files changed, {change.added} lines added, {change.removed} removed")
        yield Text(f"  git -C {plain(review.worktree)} diff {review.base_commit[:12]} {review.head[:12]}")
