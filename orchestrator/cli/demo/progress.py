"""What has happened to the demo's task between two views of it, in words."""

from collections.abc import Iterator
from enum import StrEnum

from orchestrator.core.task.agent import PauseReason, ProcessState
from orchestrator.core.task.task import NextAction
from orchestrator.server.schemas.tasks import TaskView


class StoryPart(StrEnum):
    """A part of the story; with the scripted agent every one happens."""

    QUESTION = "question"
    PAUSE = "pause"
    KILL = "kill"
    LIMIT = "limit"
    FAILURE = "failure"
    REVIEW = "review"


def is_active(task: TaskView, step: int) -> bool:
    """Return whether the implementer is in a turn for that step."""
    running = task.run is not None and task.run.process is ProcessState.RUNNING
    in_step = task.stage == "IMPLEMENTATION" and task.agent.current_step == step
    return in_step and task.next_action is NextAction.TURN and running


def is_limited(task: TaskView) -> bool:
    """Return whether the task waits for the end of a usage limit."""
    return task.agent.blocked_by is PauseReason.RATE_LIMIT


def news(before: TaskView, now: TaskView) -> Iterator[str]:
    """Yield what is new: the end of a usage limit, steps, checks, stages, a usage limit, the end of the task."""
    if is_limited(before) and not is_limited(now):
        yield f"the limit is over; the same session continues ({now.agent.session_id})"
    yield from _steps(before, now)
    yield from _checks(before, now)
    entered = [name for name, stage in now.stages.items() if stage.visits > before.stages[name].visits]
    if entered:
        again = f" (round {now.cycle})" if now.cycle != before.cycle else ""
        yield f"→ {' → '.join(entered)}{again}"
    if is_limited(now) and not is_limited(before):
        yield f"a usage limit is reached; the task continues at {now.retry_at:%H:%M:%S} UTC"
    if now.status.is_final and not before.status.is_final:
        yield f"the task is {now.status}"


def _steps(before: TaskView, now: TaskView) -> Iterator[str]:
    done = {commit for step in before.steps for commit in step.commits}
    for step in now.steps:
        if step.commits and step.commits[-1] not in done:
            yield f"step {step.step_id} is committed: {step.description} ({step.commits[-1][:9]})"


def _checks(before: TaskView, now: TaskView) -> Iterator[str]:
    for name, result in now.results.items():
        if result != before.results.get(name):
            yield f"{name}: {result.verdict} ({result.reason}, {result.seconds} s, run by the daemon)"
