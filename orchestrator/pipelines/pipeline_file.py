"""A pipeline's TOML file, read and checked as a whole: every problem is reported at once, each with its line."""

from dataclasses import MISSING, Field, fields
from string import Formatter
from types import MappingProxyType
from typing import get_type_hints

from orchestrator.core.decide.work import WORK
from orchestrator.core.decide.work.agent import AgentWork
from orchestrator.core.family.family import Family
from orchestrator.core.guards import GUARDS
from orchestrator.core.task.children import OnChildFailure
from orchestrator.core.task.guards import Guard
from orchestrator.core.task.pipeline import ENGINE_BUDGETS, Choice, OnExhausted, Pipeline, Stage, Work
from orchestrator.core.task.publication import Publish
from orchestrator.formats.table import DefinitionError, Table, nearest
from orchestrator.formats.toml import read_toml
from orchestrator.pipelines.families import DEFAULT_FAMILY, FAMILIES
from orchestrator.pipelines.pipeline_rules import note_broken_rules

_BRANCH_WORDS = ("ticket", "task", "type")


class PipelineError(DefinitionError):
    """A pipeline file cannot be used; `problems` says why, each with file, line and what to write instead."""


def parse_pipeline(text: str, source: str) -> Pipeline:
    """Return the pipeline that the text declares; `source` names the file in messages.

    Raises PipelineError with every problem found.
    """
    try:
        table = read_toml(text, source)
    except DefinitionError as error:
        raise PipelineError(error.problems) from error
    family = table.choice("family", FAMILIES, "family") or DEFAULT_FAMILY
    stages_table = table.table("stages")
    stages = {name: _stage(name, stages_table.table(name), family) for name in stages_table.names()}
    pipeline = Pipeline(
        name=table.text("name"),
        description=table.text("description"),
        start=table.text("start"),
        stages=MappingProxyType(stages),
        budgets=MappingProxyType({**ENGINE_BUDGETS, **_budgets(table.table("budgets"))}),
        branch=_branch(table),
        new_repository=table.flag("new_repository", default=False),
        family=family,
        source=source,
        text=text,
    )
    table.done()
    note_broken_rules(pipeline, table.report)
    if table.report.problems:
        raise PipelineError(table.report.in_order())
    return pipeline


def _stage(name: str, table: Table, family: Family) -> Stage:
    work = _work(table)
    stage = Stage(
        name=name,
        work=work or AgentWork(),
        role=table.maybe_text("role"),
        artifacts=_artifacts(table),
        answer=table.maybe_text("answer"),
        documents=table.texts("documents", ()),
        commits=table.flag("commits", default=False),
        resume_session=table.flag("resume_session", default=False),
        guards=tuple(guard for inner in table.tables("guards") if (guard := _guard(inner, family))),
        next=table.maybe_text("next"),
        choices=tuple(_choice(inner, family) for inner in table.tables("choices")),
        on_fail=table.maybe_text("on_fail"),
        budget=table.maybe_text("budget"),
        on_exhausted=table.choice("on_exhausted", {kind.value: kind for kind in OnExhausted}, "reaction")
        or OnExhausted.BLOCK,
        plan=table.maybe_text("plan"),
        publish=table.choice("publish", {kind.value: kind for kind in Publish}, "way to publish") or Publish.BRANCH,
        children=table.maybe_text("children"),
        child_pipelines=table.texts("child_pipelines", ()),
        on_child_failure=table.choice("on_child_failure", {kind.value: kind for kind in OnChildFailure}, "reaction")
        or OnChildFailure.STOP,
        squash=table.flag("squash", default=False),
        recheck=table.maybe_text("recheck"),
        mode=table.maybe_text("mode"),
        phase=table.whole("phase", at_least=1) if table.has("phase") else None,
        review=table.flag("review", default=False),
        line=table.report.line((*table.path, "role")),
    )
    table.done()
    if work is not None:
        _check_work(stage, table)
    return stage


def _artifacts(table: Table) -> tuple[str, ...]:
    """Return the files that an agent may leave; its answer is one of them."""
    answer = table.maybe_text("answer")
    return tuple(dict.fromkeys((*table.texts("artifacts", ()), *((answer,) if answer else ()))))


def _choice(table: Table, family: Family) -> Choice:
    guards = tuple(guard for inner in table.tables("when") if (guard := _guard(inner, family)))
    choice = Choice(next=table.text("next"), when=guards)
    if not table.has("when"):
        table.note("next", "a choice needs guards: when = [{ guard = … }]")
    table.done()
    return choice


def _work(table: Table) -> Work | None:
    word = table.text("work")
    if word and word not in WORK:
        table.note("work", f"unknown kind of work {word!r}; {nearest(word, WORK)}")
    return WORK.get(word)


def _guard(table: Table, family: Family) -> Guard | None:
    word = table.text("guard")
    kinds = {**GUARDS, **family.guards}
    if word not in kinds:
        if word:
            table.note("guard", f"unknown guard {word!r}; {nearest(word, kinds)}")
        return None
    kind = kinds[word]
    guard = kind(**{one.name: _guard_value(table, kind, one) for one in fields(kind)})
    table.done()
    return guard


def _guard_value(table: Table, kind: type[Guard], key: Field[object]) -> object:
    """Read one key of a guard as its field declares it."""
    name, optional = key.name, key.default is not MISSING
    if optional and not table.has(name):
        return key.default
    declared = get_type_hints(kind)[name]
    if declared is int:
        return table.whole(name, at_least=key.metadata.get("minimum", 0))
    if declared is str:
        return table.text(name)
    texts, choices = table.texts(name), key.metadata.get("choices", ())
    for one in texts:
        if choices and one not in choices:
            table.note(name, f"{table.text('guard')} cannot {name} {one!r}; {nearest(one, choices)}")
    return texts


def _check_work(stage: Stage, table: Table) -> None:
    """Report what does not fit the stage's kind of work."""
    work = stage.work
    if work.needs_role and stage.role is None:
        table.report.note(table.path, f"stage {stage.name} needs an agent: name its role with role = …")
    if not work.takes_role and stage.role is not None:
        table.note("role", f"stage {stage.name} is done by the daemon ({work.name}): remove its role")
    if not work.publishes and table.has("publish"):
        table.note(
            "publish", f"only a stage with {_kinds(publishes=True)} publishes, {stage.name} has {_as_declared(work)}"
        )
    if table.has("recheck") and not work.publishes:
        table.note("recheck", f"only a stage with {_kinds(publishes=True)} has its work judged again")
    if stage.squash and stage.publish is not Publish.PARENT:
        table.note("squash", 'only work with publish = "parent" comes home as one commit')
    _check_children(stage, table)
    _check_agent(stage, table)
    if work.has_steps and stage.plan is None:
        table.report.note(table.path, f"stage {stage.name} works through steps: name their file with plan = …")
    if not work.has_steps and stage.plan is not None:
        table.note(
            "plan", f"only a stage with {_kinds(has_steps=True)} has a plan, {stage.name} has {_as_declared(work)}"
        )


def _check_children(stage: Stage, table: Table) -> None:
    """Report what a stage lacks that has children, and what only such a stage may have."""
    keys = ("children", "child_pipelines")
    if not stage.work.has_children:
        for key in (*keys, "on_child_failure"):
            if table.has(key):
                table.note(key, f'only a stage with work = "children" has {key}')
        return
    for key in keys:
        if not table.has(key):
            table.report.note(table.path, f"stage {stage.name} has children: give {key} = …")


def _check_agent(stage: Stage, table: Table) -> None:
    """Report what a verifying stage lacks, and what only a stage with an agent may have."""
    if stage.work.verifies and len(stage.artifacts) != 1:
        table.report.note(table.path, f"stage {stage.name} verifies: name the file of its verdict with answer = …")
    if not stage.work.is_done_by_agent:
        for key in ("answer", "documents", "commits", "resume_session"):
            if table.has(key):
                table.note(key, f"only a stage with {_kinds(is_done_by_agent=True)} has {key}")


def _kinds(**wanted: bool) -> str:
    """Return the kinds of work that have all these properties, as a pipeline file says them."""
    fitting = [kind for kind in WORK.values() if all(getattr(kind, name) is value for name, value in wanted.items())]
    return " or ".join(map(_as_declared, fitting))


def _as_declared(work: Work) -> str:
    return f'work = "{work.name}"'


def _budgets(table: Table) -> dict[str, int]:
    return {name: table.whole(name) for name in table.names()}


def _branch(table: Table) -> str:
    template = table.text("branch") if table.has("branch") else "{type}/{ticket}"
    try:
        words = [word for _, word, _, _ in Formatter().parse(template) if word is not None]
    except ValueError as error:
        table.note("branch", f"branch = {template!r} is no template: {error}")
        return template
    for word in words:
        if word not in _BRANCH_WORDS:
            table.note("branch", f"branch uses an unknown word {{{word}}}; {nearest(word, _BRANCH_WORDS)}")
    if not {"ticket", "task"} & set(words):
        table.note("branch", "branch must use {ticket} or {task}, or every task would want the same branch")
    return template
