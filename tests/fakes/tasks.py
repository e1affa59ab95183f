"""A task as it is submitted, and the bundled pipelines."""

from dataclasses import fields, replace
from functools import cache

from orchestrator.core.task.checks import Check, CheckKind, Results
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.task import Source, Task, Timing
from orchestrator.core.task.ticket import SensitiveCheck, Ticket
from orchestrator.pipelines.bundled import Kind, bundled
from orchestrator.pipelines.pipeline_file import parse_pipeline
from tests.fakes.world import START

TASK_ID = "LOCAL-20261121_220000"
TWO_CHECKS = (
    Check(name="unit_test", command="pytest", kind=CheckKind.UNIT_TEST),
    Check(name="lint", command="ruff check", kind=CheckKind.LINT),
)


@cache
def bundled_pipeline(name: str) -> Pipeline:
    """Return one of the bundled pipelines."""
    path = bundled(Kind.PIPELINES) / f"{name}.toml"
    return parse_pipeline(path.read_text(encoding="utf-8"), str(path))


def full_pipeline() -> Pipeline:
    """Return the default pipeline of tickets."""
    return bundled_pipeline("full")


def with_results(task: Task, results: Results, **changes: object) -> Task:
    """Return a task whose newest evaluation has `results`; `fields` replace its defaults."""
    return replace(task, evaluation=replace(task.evaluation, results=results), **changes)  # type: ignore[arg-type]


def submitted(task_id: str = TASK_ID, **changes: object) -> Task:
    """Return a task as it is submitted; `fields` replace its defaults and those of its source and evaluation."""
    task = Task(
        id=task_id,
        title="Add a flag",
        folder=f"/data/tasks/{task_id}",
        ticket=Ticket(key=task_id, sensitive_check=SensitiveCheck(result="CLEAN")),
        pipeline="full",
        source=Source(repo="/repo", base_branch="main", base_commit="b" * 40, branch=f"feature/{task_id}"),
        timing=Timing(created_at=START),
        updated_at=START,
    )
    for part in (task.source, task.evaluation):
        own = {one.name: changes.pop(one.name) for one in fields(part) if one.name in changes}
        changes[type(part).__name__.lower()] = replace(part, **own)  # type: ignore[arg-type]  # any field
    return replace(task, **changes)  # type: ignore[arg-type]  # any field
