"""How the files that agents of a work leave are judged: the plan with its tasks, progress, results, verdicts."""

import json
from collections import Counter
from functools import lru_cache

from orchestrator.core.family.family import Examined, Files
from orchestrator.core.family.verdict import LONGEST_FAILURE, MOST_FAILURES, Verdict
from orchestrator.core.family.verdict import read_verdict as read_json_verdict
from orchestrator.core.task.children import ChildDraft
from orchestrator.core.task.task import Task
from orchestrator.pipelines.families.works.beginning import RESUMED
from orchestrator.pipelines.families.works.documents.names import (
    PLAN,
    REQUIREMENT,
    Mode,
    task_of_file,
    task_of_result,
)
from orchestrator.pipelines.families.works.documents.plan import (
    Plan,
    TaskFile,
    joined,
    problems_of_plan,
    problems_of_task,
    read_plan,
    read_task,
    write_task,
)
from orchestrator.pipelines.families.works.documents.progress import gate
from orchestrator.pipelines.families.works.documents.requirement import problems_of_requirement, read_requirement
from orchestrator.pipelines.families.works.documents.result import problems_of_result
from orchestrator.pipelines.families.works.exchange.task_result import Outcome, TaskResult, last_task_result
from orchestrator.pipelines.families.works.guards import SMALL
from orchestrator.pipelines.families.works.mode import is_small, planner_mode

DIRECT_PIPELINE = "work-task-direct"
"""The pipeline of a task that no other agent verifies."""
ALWAYS_DIRECT = "work-direct"
BUILT = "build.xml"
"""The last message of a builder: its task-result."""


def read_children(text: str, files: Files) -> tuple[ChildDraft, ...]:
    """Return the tasks of a plan that are still to be done. Raises ValueError, with words for the planner."""
    plan = read_plan(text)
    listed = Counter(task.id for task in plan.tasks)
    repeated = sorted(key for key, count in listed.items() if count > 1)
    if repeated:
        raise ValueError(f"{PLAN} has more than one heading for {', '.join(repeated)}")
    resumed = json.loads(files.artifact(RESUMED) or "{}")
    done, known = set(resumed.get("done", ())), {*listed, *resumed.get("tasks", ())}
    texts = {key: files.artifact(f"{key}.md") for key in sorted(known)}
    absent = [key for key, found in texts.items() if found is None and not resumed]
    if absent:
        raise ValueError(f"{PLAN} names tasks without a file: {', '.join(f'{key}.md' for key in absent)}")
    tasks = {key: read_task(found, key) for key, found in texts.items() if found is not None}
    return tuple(
        ChildDraft(
            key=task.id,
            title=task.title,
            text=texts.get(task.id) or write_task(_from_plan(plan, task.id), plan.language),
            after=tuple(key for key in task.after if key not in done),
            pipeline=DIRECT_PIPELINE if plan.mode is Mode.DIRECT else "",
        )
        for task in joined(plan, tasks)
        if task.id not in done
    )


def _from_plan(plan: Plan, key: str) -> TaskFile:
    """Return the task as the plan describes it, where it has no file of its own."""
    task = next((one for one in plan.tasks if one.id == key), None)
    if task is None:
        raise ValueError(f"{key}.md is empty, and {PLAN} does not name {key}: fill the file or remove it")
    return TaskFile(id=key, title=task.title, work=plan.work, after=task.after, scope=task.scope)


def examine(task: Task, name: str, text: str, files: Files) -> Examined:
    """Return what is wrong with a file of the work, and whether a requirement is small."""
    work, key = (task.fill("{parent}"), task.fill("{key}")) if task.parent else (task.ticket.key, "")
    file = name.rpartition("/")[2]
    if name == REQUIREMENT:
        problems = problems_of_requirement(text, work)
        small = task.pipeline == ALWAYS_DIRECT or (not problems and is_small(read_requirement(text)))
        return Examined(problems=problems, marks=(SMALL,) if small else ())
    if name == PLAN:
        return Examined(problems=_problems_of_plan(task, text, work))
    if name == BUILT:
        return Examined(problems=_problems_of_build(text))
    if listed := task_of_file(name):
        return Examined(problems=problems_of_task(text, listed, work) + _unlisted(listed, files))
    if file == f"{key}_progress.md":
        return Examined(problems=tuple(filter(None, (gate(text),))))
    if (reported := task_of_result(file)) and reported == key:
        return Examined(problems=problems_of_result(text, key, work))
    return Examined()


def _problems_of_plan(task: Task, text: str, work: str) -> tuple[str, ...]:
    if task.agent.role == "specifier":
        return problems_of_plan(text, work, mode=Mode.DIRECT)
    problems = problems_of_plan(text, work)
    if problems:
        return problems
    plan = read_plan(text)
    wanted = planner_mode(len(plan.tasks))
    return () if plan.mode is wanted else (f"Execution-Mode must be {wanted}, because it has {len(plan.tasks)} tasks",)


def _unlisted(key: str, files: Files) -> tuple[str, ...]:
    """Return that a task's file has no heading in the plan, if so."""
    listed = _listed(files.artifact(PLAN) or "")
    return () if listed is None or key in listed else (f"{PLAN} has no '### {key}: title' for it",)


@lru_cache(maxsize=4)
def _listed(plan: str) -> frozenset[str] | None:
    """Return the ids of a plan's tasks, None if it cannot be read; each of its tasks asks for that."""
    try:
        return frozenset(task.id for task in read_plan(plan).tasks)
    except ValueError:
        return None


def _problems_of_build(text: str) -> tuple[str, ...]:
    try:
        result = last_task_result(text, "builder")
    except ValueError as error:
        return (str(error),)
    if result.outcome is Outcome.FAIL or result.failed_checks:
        return (f"the builder says that it failed: {'; '.join(failures_of(result))}",)
    return ("<context-handoff> with <what> is missing",) if result.handoff is None or not result.handoff.what else ()


def read_verdict(text: str) -> Verdict:
    """Return the verdict of a verifier's task-result, or of a JSON document of criteria.

    Raises ValueError, with words for the verifier.
    """
    try:
        result = last_task_result(text, "verifier")
    except ValueError:
        if '"criteria"' in text:
            return read_json_verdict(text)
        raise
    if result.outcome is None:
        raise ValueError('<task-result> must have status="PASS" or status="FAIL"')
    if result.is_passed:
        return Verdict(passed=True)
    return Verdict(passed=False, failures=failures_of(result)[:MOST_FAILURES])


def failures_of(result: TaskResult) -> tuple[str, ...]:
    """Return what an agent says failed, each with what would mend it; its reason or summary if it names nothing."""
    named = [
        f"{one.check}{f' ({one.file})' if one.file else ''}: {one.error}{f'; suggested: {one.fix}' if one.fix else ''}"
        for one in result.failures
    ]
    known = {one.check for one in result.failures}
    named += [f"{one.name}: {one.text or 'failed'}" for one in result.failed_checks if one.name not in known]
    found = named or [result.reason or result.summary or "it gave no reason"]
    return tuple(text[:LONGEST_FAILURE] for text in found)
