"""Rules between the parts of a pipeline: no dead end, no endless loop, no guard that can never hold."""

import re
from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase

from orchestrator.core.task.guards import Guard
from orchestrator.core.task.pipeline import ENGINE_BUDGETS, OnExhausted, Pipeline, Stage
from orchestrator.core.task.task import AS_STATE
from orchestrator.formats.table import Path, Problem, Report, nearest

DAEMONS_FILES = ("ticket.json", "state.json", "journal.jsonl", "failures.jsonl", "state-history.json")
"""Files of a task that only the daemon writes."""

_STAGE_NAME = re.compile(r"[A-Z][A-Z0-9_]*")
_ARTIFACT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.*-]*")
_DOCUMENT_PATH = re.compile(r"(?:[\w.*{}-]+/)*[\w.*{}-]+")


def note_broken_rules(pipeline: Pipeline, report: Report) -> None:
    """Report every broken rule of a pipeline whose single values are well formed."""
    _note_start(pipeline, report)
    for stage in pipeline.stages.values():
        _note_name(stage, pipeline, report)
        _note_ways_out(stage, pipeline, report)
        _note_artifacts(stage, report)
        _note_review(stage, report)
        _note_file(stage.plan or "", pipeline, report, ("stages", stage.name, "plan"))
        _note_file(stage.children or "", pipeline, report, ("stages", stage.name, "children"))
        for index, guard in enumerate(stage.guards):
            _note_guard(guard, pipeline, report, ("stages", stage.name, "guards", index))
        for number, choice in enumerate(stage.choices):
            for index, guard in enumerate(choice.when):
                _note_guard(guard, pipeline, report, ("stages", stage.name, "choices", number, "when", index))
    _note_phases(pipeline, report)
    _note_idle_budgets(pipeline, report)
    if not report.problems:
        _note_unreachable(pipeline, report)
        _note_endless(pipeline, report)


def _note_review(stage: Stage, report: Report) -> None:
    """Report a review without an agent or a stage that could make the requested changes."""
    if stage.review and not stage.work.is_done_by_agent and stage.on_fail is None:
        problem = f"a review of {stage.name} needs an agent in it, or on_fail = the stage where changes are made"
        report.note(("stages", stage.name, "review"), problem)


def _note_phases(pipeline: Pipeline, report: Report) -> None:
    """Report phases that are not numbered from 1 in the order of the stages."""
    last = 0
    for stage in pipeline.stages.values():
        if stage.phase is None:
            continue
        if stage.phase not in {last, last + 1} or stage.phase == 0:
            expected = f"{last} or {last + 1}" if last else "1"
            report.note(("stages", stage.name, "phase"), f"phase = {stage.phase} is out of order: write {expected}")
            return
        last = stage.phase


def check_roles(pipeline: Pipeline, known: Collection[str]) -> tuple[Problem, ...]:
    """Return the problems with the roles that a pipeline names, given the roles there are."""
    return tuple(
        Problem(
            source=pipeline.source,
            line=stage.line,
            text=f"stage {stage.name} names an unknown role {stage.role!r}; {nearest(stage.role, known)}",
        )
        for stage in pipeline.stages.values()
        if stage.role is not None and stage.role not in known
    )


def check_children(pipeline: Pipeline, known: Mapping[str, Pipeline]) -> tuple[Problem, ...]:
    """Return the problems with the pipelines of a pipeline's children: unknown ones, and those that lead back to it."""
    found: list[Problem] = []
    for stage in pipeline.stages.values():
        for name in stage.child_pipelines:
            if name not in known:
                text = f"stage {stage.name} names an unknown pipeline {name!r}; {nearest(name, known)}"
            elif pipeline.name in descendants(name, known):
                text = (
                    f"stage {stage.name} names {name!r}, whose children would have children of {pipeline.name!r} again"
                )
            else:
                continue
            found.append(Problem(source=pipeline.source, line=stage.line, text=text))
    return tuple(found)


def descendants(name: str, known: Mapping[str, Pipeline]) -> set[str]:
    """Return the names of a pipeline and of all pipelines of its children, and theirs."""
    found, new = set[str](), {name}
    while new:
        found |= new
        stages = [stage for one in new if one in known for stage in known[one].stages.values()]
        new = {child for stage in stages for child in stage.child_pipelines} - found
    return found


def _note_start(pipeline: Pipeline, report: Report) -> None:
    if not pipeline.stages:
        report.note(("stages",), "a pipeline needs stages: [stages.NAME]")
    elif pipeline.start and pipeline.start not in pipeline.stages:
        hint = nearest(pipeline.start, pipeline.stages)
        report.note(("start",), f"start names an unknown stage {pipeline.start!r}; {hint}")


def _note_name(stage: Stage, pipeline: Pipeline, report: Report) -> None:
    """Report a stage name that is malformed, or that state.json prints or accepts in the place of a stage."""
    if not _STAGE_NAME.fullmatch(stage.name):
        report.note(("stages", stage.name), f"a stage name has capitals, digits and _ only, not {stage.name!r}")
    if stage.name in (*AS_STATE.values(), *pipeline.family.aliases):
        report.note(("stages", stage.name), f"{stage.name} is the name of a result and cannot name a stage")


def _note_ways_out(stage: Stage, pipeline: Pipeline, report: Report) -> None:
    path = ("stages", stage.name)
    chosen = [(("choices", index, "next"), choice.next) for index, choice in enumerate(stage.choices)]
    named = [((key,), getattr(stage, key)) for key in ("next", "on_fail", "recheck")]
    for key, target in (*named, *chosen):
        if target is not None and target not in pipeline.stages:
            hint = nearest(target, pipeline.stages)
            report.note((*path, *key), f"{key[-1]} of {stage.name} names an unknown stage {target!r}; {hint}")
    if stage.next is None and not stage.work.publishes:
        report.note(path, f'{stage.name} is a dead end: it needs next = …; only work = "deliver" may be the end')
    if stage.on_fail is not None and stage.budget is None:
        report.note((*path, "on_fail"), f"{stage.name} could go back forever: limit on_fail with budget = …")
    if stage.on_exhausted is not OnExhausted.BLOCK and stage.on_fail is None:
        report.note((*path, "on_exhausted"), f"{stage.name} has no ways back that could be used up: give on_fail = …")
    if stage.budget is not None and stage.on_fail is None:
        report.note((*path, "budget"), f"the budget of {stage.name} counts ways back, but there is no on_fail")
    if stage.budget is not None:
        _note_budget(stage.budget, pipeline, report, (*path, "budget"))


def _note_artifacts(stage: Stage, report: Report) -> None:
    path = ("stages", stage.name, "artifacts")
    for index, pattern in enumerate(stage.artifacts):
        if not _ARTIFACT_NAME.fullmatch(pattern):
            report.note((*path, index), f"artifact {pattern!r} must be a plain file name; * stands for any characters")
        for file in DAEMONS_FILES:
            if fnmatchcase(file, pattern):
                report.note((*path, index), f"artifact {pattern!r} would let an agent write {file}")
    for index, pattern in enumerate(stage.documents):
        names = pattern.split("/")
        if not _DOCUMENT_PATH.fullmatch(pattern) or {".", "..", ".git"} & set(names):
            report.note(
                ("stages", stage.name, "documents", index),
                f"document {pattern!r} must be a path in the worktree like docs/*.md; * stands for any characters",
            )


def _note_guard(guard: Guard, pipeline: Pipeline, report: Report, path: Path) -> None:
    for key in guard.file_keys:
        _note_file(getattr(guard, key), pipeline, report, (*path, key))
    for key in guard.budget_keys:
        _note_budget(getattr(guard, key), pipeline, report, (*path, key))
    if guard.needs_steps and not any(stage.work.has_steps for stage in pipeline.stages.values()):
        report.note(path, 'no stage has work = "steps", so this guard can never hold')


def _note_file(name: str, pipeline: Pipeline, report: Report, path: Path) -> None:
    """Report a file that no stage leaves, because its gate could never open."""
    stages = pipeline.stages.values()
    left = {"ticket.json", *pipeline.family.given}.union(*(stage.artifacts + stage.documents for stage in stages))
    if name and not any(fnmatchcase(name, pattern) for pattern in left):
        report.note(path, f"no stage leaves {name!r} (see artifacts); {nearest(name, left)}")


def _note_budget(name: str, pipeline: Pipeline, report: Report, path: Path) -> None:
    if name and name not in pipeline.budgets:
        report.note(path, f"unknown budget {name!r}; {nearest(name, pipeline.budgets)}")


def _note_idle_budgets(pipeline: Pipeline, report: Report) -> None:
    """Report a budget that nothing counts against; most likely its name is misspelt."""
    used = {stage.budget for stage in pipeline.stages.values()}
    for stage in pipeline.stages.values():
        used.update(getattr(guard, key) for guard in stage.guards for key in guard.budget_keys)
    for name in pipeline.budgets:
        if name not in used and name not in ENGINE_BUDGETS:
            report.note(("budgets", name), f"nothing counts against the budget {name!r}")


def _note_unreachable(pipeline: Pipeline, report: Report) -> None:
    reached: set[str] = set()
    ahead = [pipeline.start]
    while ahead:
        name = ahead.pop()
        if name in pipeline.stages and name not in reached:
            reached.add(name)
            stage = pipeline.stages[name]
            ahead += filter(None, (*stage.ways_on, stage.on_fail, stage.recheck))
    for name in pipeline.stages.keys() - reached if reached else ():
        report.note(("stages", name), f"{name} is never reached: no next or on_fail leads to it from {pipeline.start}")


def _note_endless(pipeline: Pipeline, report: Report) -> None:
    """Report each loop without a way back, once: nothing would ever count its rounds."""
    seen: set[str] = set()
    for start in pipeline.stages:
        ways: list[tuple[str, ...]] = [(start,)] if start not in seen else []
        while ways:
            way = ways.pop()
            for name in pipeline.stages[way[-1]].ways_on:
                if name in way:
                    circle = " → ".join((*way[way.index(name) :], name))
                    problem = f"{circle} is an endless loop; go back with on_fail and a budget"
                    report.note(("stages", name, "next"), problem)
                elif name not in seen:
                    ways.append((*way, name))
            seen.add(way[-1])
