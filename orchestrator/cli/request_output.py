"""How questions, reviews and dependencies are shown, and selected by the commands that answer them."""

from collections.abc import Iterable, Iterator
from typing import assert_never

from rich.text import Text

from orchestrator.cli.context import UsageError
from orchestrator.cli.output import local, plain
from orchestrator.core.task.user_requests import RequestKind, Subject, how_to_answer
from orchestrator.errors import InvalidTransition
from orchestrator.server.schemas.user_requests import ReviewView
from orchestrator.server.schemas.views import AskView, TaskView


def pending(task: TaskView, kind: RequestKind, action: str) -> tuple[AskView, ...]:
    """Return what of a kind a task waits for. Raises InvalidTransition if there is nothing."""
    found = tuple(ask for ask in task.waiting if ask.kind is kind)
    if not found or action not in task.allowed:
        raise InvalidTransition(action, task.status, task.stage, task.allowed)
    return found


def chosen(asks: Iterable[AskView], number: int | None) -> AskView:
    """Return the request of that number, or the only one there is. Raises UsageError."""
    found = [ask for ask in asks if number in {None, ask.number}]
    if len(found) == 1:
        return found[0]
    listed = "; ".join(f"--ask {ask.number}: {' '.join(ask.text.split())[:60]}" for ask in asks)
    raise UsageError(f"{'give the number of one' if found else f'there is no request number {number}'}: {listed}")


def render_request(ask: AskView) -> Iterator[Text]:
    """Render a request with everything that helps to answer it."""
    yield Text(f"{_what(ask)} ", "bold magenta") + Text(f"({ask.number}, in {plain(ask.stage)})", "dim")
    yield Text("\n".join(f"  {line}" for line in plain(ask.text).splitlines()))
    for at, option in enumerate(ask.options, 1):
        mark = "  (the default)" if option == ask.default else ""
        yield Text(f"  {at}. {plain(option)}") + Text(mark, "dim")
    if ask.default is not None and ask.default not in ask.options:
        yield Text(f"  default: {plain(ask.default)}", "dim")
    if ask.deadline is not None:
        yield Text(f"  without an answer, the default applies at {local(ask.deadline)}", "dim")
    if isinstance(ask, ReviewView):
        yield from _to_look_at(ask)
    yield Text(f"  {how(ask)}", "bold")


def how(ask: AskView) -> str:
    """Return the command that answers."""
    return how_to_answer(ask.task, ask.kind, ask.subject, plain(ask.name), f" --ask {ask.number}")


def _what(ask: AskView) -> str:
    match ask.subject:
        case Subject.QUESTION:
            return "A question"
        case Subject.PERMISSION:
            return f"May it use {plain(ask.name)}?"
        case Subject.PLAN:
            return "A plan to approve"
        case Subject.DEPENDENCY:
            return f"It needs the {ask.type.replace('_', ' ')} {plain(ask.name)}"
        case Subject.STAGE:
            return "Work to review"
        case Subject.MERGE:
            return "A merge to approve"
        case Subject.RELEASE:
            return "A release to approve"
        case _:
            assert_never(ask.subject)


def _to_look_at(review: ReviewView) -> Iterator[Text]:
    """Render the files that the stage left, and the command that shows the changes."""
    for file in review.files:
        yield Text(f"  {plain(file)}")
    if review.change is not None and review.worktree and review.head:
        change = review.change
        yield Text(f"  {change.files} files changed, {change.added} lines added, {change.removed} removed")
        yield Text(f"  git -C {plain(review.worktree)} diff {review.base_commit[:12]} {review.head[:12]}")
