"""How far a work is while it goes on: PROGRESS.md and the activity log, from what the daemon knows of its tasks."""

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta

from orchestrator.core.records.projection import Projected, Projection
from orchestrator.core.task.children import Child, ChildStatus
from orchestrator.core.task.progress import StageStatus
from orchestrator.core.task.task import Task
from orchestrator.core.task.task_policy import Autonomy
from orchestrator.pipelines.families.works.beginning import RESUMED
from orchestrator.pipelines.families.works.documents.activity_log import LogStage, entry
from orchestrator.pipelines.families.works.documents.names import OVERVIEW, PLAN, log_name
from orchestrator.pipelines.families.works.documents.overview import Overview, TaskRow, TaskState, write_overview
from orchestrator.pipelines.families.works.documents.plan import Plan, read_plan

_ENDED = {
    ChildStatus.COMPLETED: TaskState.DONE,
    ChildStatus.FAILED: TaskState.FAILED,
    ChildStatus.SKIPPED: TaskState.SKIPPED,
}
_OF_WORK = {"SPECIFICATION": ("specifier", LogStage.PLAN), "PLANNING": ("planner", LogStage.PLAN)}
_OF_TASK = {"BUILD": ("builder", LogStage.BUILD), "VERIFICATION": ("verifier", LogStage.VERIFY)}
Entry = tuple[datetime, str]


class WorkProjection(Projection):
    """Shows a work as its files on the branch will show it when it has ended."""

    def files(self, projected: Projected) -> Mapping[str, str]:
        """Return both files; the log has what this daemon did, not what was in it before."""
        task, plan = projected.task, plan_of(projected.task, projected.artifact)
        tasks = {name: found for name, found in projected.children.items() if isinstance(found, Task)}
        overview = overview_of(task, plan, done_before(projected.artifact(RESUMED)), tasks)
        log = "".join(f"{line}\n" for line in activity_of(task, tasks))
        return {OVERVIEW: write_overview(overview, plan.language), log_name(task.ticket.key): log}


def plan_of(task: Task, artifact: Callable[[str], str | None]) -> Plan:
    """Return the plan in the folder of a work; an empty one if there is none that can be read."""
    try:
        return read_plan(artifact(PLAN) or "")
    except ValueError:
        return Plan(work=task.ticket.key, title=task.title)


def done_before(resumed: str | None) -> tuple[str, ...]:
    """Return the ids of the tasks that were done when a work was resumed."""
    return tuple(json.loads(resumed or "{}").get("done", ()))


def overview_of(task: Task, plan: Plan, before: tuple[str, ...], tasks: Mapping[str, Task]) -> Overview:
    """Return how far a work is; `tasks` are those of its parts, by their ids, `before` the parts that were done."""
    titles = {one.id: one.title for one in plan.tasks}
    ready = {*before, *(child.plan.key for child in task.children if child.status is ChildStatus.COMPLETED)}
    rows = [TaskRow(task=key, title=titles.get(key, key), state=TaskState.DONE) for key in before]
    rows += [_row(child, tasks.get(child.task), ready) for child in task.children]
    return Overview(
        work=task.ticket.key,
        updated=task.updated_at.strftime("%Y-%m-%d %H:%M"),
        is_auto=task.policy.autonomy is Autonomy.AUTO,
        tasks=tuple(sorted(rows, key=lambda row: row.task)),
        log=tuple(f"[{at:%H:%M}] {text}" for at, text in sorted(_ends(task, tasks))),
    )


def activity_of(task: Task, tasks: Mapping[str, Task]) -> tuple[str, ...]:
    """Return the lines of the activity log: of each stage its last visit, in the order of time."""
    found = [(task.timing.created_at, _line(task.timing.created_at, "specifier", LogStage.INIT, task.ticket.key))]
    found += _of_stages(task, _OF_WORK, "")
    for child in task.children:
        if child.task in tasks:
            found += _of_task(child, tasks[child.task])
    return tuple(line for _, line in sorted(found, key=lambda one: one[0]))


def _row(child: Child, task: Task | None, ready: set[str]) -> TaskRow:
    state = _ENDED.get(child.status)
    if state is None and task is not None and task.timing.started_at is not None:
        state = TaskState.IN_PROGRESS
    if state is None:
        state = TaskState.READY if ready.issuperset(child.plan.after) else TaskState.BLOCKED
    took = _duration(task) if state is TaskState.DONE and task is not None else ""
    return TaskRow(
        task=child.plan.key, title=child.plan.title, state=state, commit=(child.commit or "")[:12], duration=took
    )


def _duration(task: Task) -> str:
    begun, ended = task.timing.started_at, task.timing.completed_at
    if begun is None or ended is None:
        return ""
    hours, minutes = divmod(round((ended - begun) / timedelta(minutes=1)), 60)
    return f"{hours}h{minutes:02}m" if hours else f"{minutes}m"


def _ends(task: Task, tasks: Mapping[str, Task]) -> Iterator[Entry]:
    for child in task.children:
        found = tasks.get(child.task)
        if found is not None and child.status in _ENDED:
            ended = found.timing.completed_at or found.timing.failed_at or found.updated_at
            yield ended, f"{child.plan.key} {_ENDED[child.status]}"


def _of_task(child: Child, task: Task) -> Iterator[Entry]:
    key = child.plan.key
    if task.timing.started_at:
        yield task.timing.started_at, _line(task.timing.started_at, "orchestrator", LogStage.DISPATCH, key)
    yield from _of_stages(task, _OF_TASK, key)
    if child.status is ChildStatus.COMPLETED and task.timing.completed_at:
        text = f"{key} {child.commit or ''}".strip()
        yield task.timing.completed_at, _line(task.timing.completed_at, "committer", LogStage.COMMIT, text)
    if child.status is ChildStatus.FAILED:
        at = task.timing.failed_at or task.updated_at
        yield at, _line(at, "orchestrator", LogStage.FAILED, f"{key} {child.reason}")


def _of_stages(task: Task, known: Mapping[str, tuple[str, LogStage]], key: str) -> Iterator[Entry]:
    for name, (agent, stage) in known.items():
        record = task.stages.get(name)
        if record is None or record.completed_at is None:
            continue
        outcome = "FAIL" if record.status is StageStatus.FAILED else "PASS" if key else ", ".join(record.artifacts)
        yield record.completed_at, _line(record.completed_at, agent, stage, f"{key} {outcome}".strip())


def _line(at: datetime, agent: str, stage: LogStage, text: str) -> str:
    return entry(at, agent, stage, text, _as_it_is)


def _as_it_is(text: str) -> str:
    """Return the text: secrets were masked when the ticket was taken in, and are again when a projection is made."""
    return text
