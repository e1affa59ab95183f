"""What each agent of a work is given: a dispatch, the formats of its files, and the handoffs of those before it."""

from collections.abc import Container, Iterable, Mapping
from contextlib import suppress
from itertools import islice

from orchestrator.core.family.family import Files
from orchestrator.core.task.task import Task
from orchestrator.pipelines.families.works.documents.language import Language, language_of
from orchestrator.pipelines.families.works.documents.names import PLAN, Mode, folder_of, task_of_file
from orchestrator.pipelines.families.works.documents.plan import Plan, read_plan, read_task
from orchestrator.pipelines.families.works.documents.result import TaskReport, read_result
from orchestrator.pipelines.families.works.exchange.dispatch import Dispatch, EarlierResult, write_dispatch
from orchestrator.pipelines.families.works.exchange.handoff import (
    Detail,
    Handoff,
    distances,
    read_handoff_text,
    reduced,
    window,
)
from orchestrator.pipelines.families.works.exchange.task_result import last_task_result
from orchestrator.pipelines.families.works.reading import ALWAYS_DIRECT, BUILT
from orchestrator.pipelines.families.works.reference import FORMATS, formats_in

DISPATCH = "dispatch.xml"
VERIFIED = "verification.xml"
"""The last message of a verifier: its task-result."""
MOST_BEFORE = 200
"""Tasks before one, the nearest first, of which its agents are told."""
_ROLES = {"specifier": "specifier", "work-planner": "planner"}
_TASK_ROLES = {"builder": "implement", "verifier": "verify", "committer": "commit"}


def prepare(task: Task, stage: str, files: Files) -> Mapping[str, str]:
    """Return the dispatch of the agent that is about to start, and the formats of the files that it may write."""
    del stage
    role = task.agent.role or ""
    if role in _ROLES:
        text = files.artifact("ticket.json") or task.title
        dispatch = Dispatch(
            to=_ROLES[role], work=task.ticket.key, mode=mode_of(task.pipeline), references=task.folder,
            title=task.title, action="plan",
        )  # fmt: skip
        language = language_of(text)
        return {DISPATCH: write_dispatch(dispatch), FORMATS: formats_in(language, task.ticket.key)}
    if role in _TASK_ROLES and task.parent:
        plan = _plan(task, files)
        dispatch = _dispatch_of_task(task, role, plan, files)
        return {DISPATCH: write_dispatch(dispatch), FORMATS: formats_in(plan.language, plan.work, dispatch.task)}
    return {}


def brief(task: Task, stage: str) -> str:
    """Return where an agent finds what it must read first."""
    del stage
    role = task.agent.role or ""
    if role in _ROLES:
        lines = [f"work: {task.ticket.key}, files of the work: {folder_of(task.ticket.key)}/ in the worktree"]
        lines += [_MODES[task.pipeline]] if task.pipeline in _MODES else []
    elif role in _TASK_ROLES and task.parent:
        work = task.fill("{parent}")
        lines = [f"work: {work}, task: {task.fill('{key}')}, files of the work: {folder_of(work)}/ in the worktree"]
    else:
        return ""
    return "\n".join((f"REFERENCES_DIR={task.display_path()}", *lines, f"Read {DISPATCH} and {FORMATS} there first."))


_MODES = {
    ALWAYS_DIRECT: "This work is direct: the specifier leaves PLAN.md and TASK-00.md as well, its only task.",
    "work-pipeline": "This work has exactly one task, TASK-00, with Execution-Mode pipeline.",
    "work-full": "This work goes through a planner; the specifier leaves Requirement.md alone.",
}


def mode_of(pipeline: str) -> Mode:
    """Return the mode that a pipeline fixes; FULL where the mode is decided later."""
    word = pipeline.rpartition("-")[2]
    return Mode(word) if word in tuple(Mode) else Mode.FULL


def _plan(task: Task, files: Files) -> Plan:
    """Return the plan of the work as it is on the branch."""
    work = task.fill("{parent}")
    try:
        return read_plan(files.committed(f"{folder_of(work)}/{PLAN}") or "")
    except ValueError:
        return Plan(work=work, title="", language=Language.EN)


def _dispatch_of_task(task: Task, role: str, plan: Plan, files: Files) -> Dispatch:
    work, key = task.fill("{parent}"), task.fill("{key}")
    folder = folder_of(work)
    after = _dependencies(key, folder, plan, files)
    near = dict(islice(distances(key, after).items(), MOST_BEFORE))
    reports = _reports(near, folder, files)
    handoffs = _from_earlier_tasks(key, after, reports) if role == "builder" else _within_task(role, files)
    return Dispatch(
        to=role,
        work=work,
        task=key,
        mode=plan.mode or Mode.FULL,
        references=task.folder,
        project=plan.project,
        language=plan.language.value,
        plan_file=f"{folder}/{PLAN}",
        file=f"{folder}/{key}.md",
        title=task.title,
        action=_TASK_ROLES[role],
        results=tuple(
            EarlierResult(task=other, status="PASS", text=reports[other].summary[:500])
            for other, distance in near.items()
            if distance == 1 and other in reports
        ),
        handoffs=handoffs,
    )


def _dependencies(key: str, folder: str, plan: Plan, files: Files) -> dict[str, tuple[str, ...]]:
    """Return what a task depends on, and what those tasks depend on, as the plan or their own files say."""
    planned = {task.id: task.after for task in plan.tasks}
    known = {*planned, *(task_of_file(path.removeprefix(f"{folder}/")) for path in files.names(folder))}
    found = {key: _after(key, folder, planned, known, files)}
    for other in found[key]:
        found.setdefault(other, _after(other, folder, planned, known, files))
    return found


def _after(
    key: str, folder: str, planned: Mapping[str, tuple[str, ...]], known: Container[str | None], files: Files
) -> tuple[str, ...]:
    """Return the tasks of the work that one of them depends on, at most 200."""
    after = planned.get(key, ())
    with suppress(ValueError):
        after += read_task(files.committed(f"{folder}/{key}.md") or "", key).after
    return tuple(other for other in dict.fromkeys(after) if other in known)[:MOST_BEFORE]


def _reports(keys: Iterable[str], folder: str, files: Files) -> dict[str, TaskReport]:
    found: dict[str, TaskReport] = {}
    for key in keys:
        text = files.committed(f"{folder}/{key}_result.md")
        with suppress(ValueError):
            found |= {key: read_result(text, key)} if text is not None else {}
    return found


def _from_earlier_tasks(
    key: str, after: Mapping[str, tuple[str, ...]], reports: Mapping[str, TaskReport]
) -> tuple[Handoff, ...]:
    """Return what a builder is told of the tasks that its own depends on."""
    known = {}
    for other, report in reports.items():
        found = read_handoff_text(report.verifier, "verifier", other) or read_handoff_text(
            report.builder or report.summary, "builder", other
        )
        if found is not None:
            known[other] = found
    return window(key, after, known)


def _within_task(role: str, files: Files) -> tuple[Handoff, ...]:
    """Return what a verifier or a committer is told of those before it: all of the last, a summary of the others."""
    before = (("verifier", VERIFIED), ("builder", BUILT)) if role == "committer" else (("builder", BUILT),)
    found: list[Handoff] = []
    for agent, name in before:
        try:
            handoff = last_task_result(files.artifact(name) or "", agent).handoff
        except ValueError:
            continue
        kept = reduced(handoff, Detail.SUMMARY if found else Detail.FULL) if handoff else None
        found += [kept] if kept else []
    return tuple(found)
