"""The texts of roles say what the gates want: each example in them passes the readers that gates use.

A role is a prompt, and nothing but a model shows whether it works well. What can be decided is whether it asks for the
files that its stages want, in a form that they accept.
"""

import re
from dataclasses import dataclass, replace
from itertools import product

import orjson
import pytest

from orchestrator.cli.demo.demo import BUNDLED
from orchestrator.core.family.family import PLAIN
from orchestrator.core.guards.children import ChildrenPlanned
from orchestrator.core.guards.files import FilesValid, HeadingCount, JsonNonempty
from orchestrator.core.task import guards
from orchestrator.core.task.children import problems_of
from orchestrator.core.task.guards import Evidence, FileFacts
from orchestrator.core.task.pipeline import Pipeline, Stage
from orchestrator.core.task.task import Task
from orchestrator.core.task.ticket import Ticket
from orchestrator.pipelines.definitions import load_definitions
from orchestrator.pipelines.examples import examples_in
from orchestrator.pipelines.families.works.documents.language import Language
from orchestrator.pipelines.families.works.reference import formats_in
from orchestrator.workspaces.documents import is_match
from orchestrator.workspaces.evaluation.artifact_facts import facts_of
from orchestrator.workspaces.evaluation.gates import CONFIDENCES
from tests.fakes.tasks import submitted

DEFINED = load_definitions(BUNDLED)
STAGES = [
    pytest.param(pipeline, stage, id=f"{pipeline.name} {stage.name}")
    for pipeline in DEFINED.pipelines.values()
    for stage in pipeline.stages.values()
    if stage.role
]
WORK, KEY, ISSUE = "WORK-07", "TASK-00", "ISS-20260528-001"


@dataclass(frozen=True)
class Given:
    """The examples as the files of a task; the tasks of a plan are all like the first."""

    examples: dict[str, str]

    def artifact(self, name: str) -> str | None:
        found = self.examples.get(name)
        if found is None and re.fullmatch(r"TASK-\d+\.md", name):
            return self.examples[f"{KEY}.md"].replace(KEY, name.removesuffix(".md"))
        return found

    def committed(self, path: str) -> str | None:
        return self.artifact(path.rpartition("/")[2])

    def names(self, folder: str) -> tuple[str, ...]:
        return tuple(name for name in self.examples if name.startswith(folder))


def task_of(pipeline: Pipeline, stage: Stage) -> Task:
    """A task in that stage, under the ids that examples have."""
    keys = {"works": f"{WORK}.{KEY}", "issues": f"LOCAL-1.{ISSUE}"} if "BUILD" in pipeline.stages else {"works": WORK}
    key = f"LOCAL-1.{ISSUE}" if pipeline.family.name == "issues" else keys.get(pipeline.family.name, "ABC-1")
    parent = "parent" if "." in key else None
    task = submitted(pipeline=pipeline.name, stage=stage.name, ticket=Ticket(key=key), parent=parent)
    return replace(task, agent=replace(task.agent, role=stage.role))


def examples_of(pipeline: Pipeline, stage: Stage) -> dict[str, str]:
    """The examples that an agent of the stage is shown: in its role's text, or in a file that its family composes."""
    shown = dict(examples_in(DEFINED.roles[stage.role or ""].prompt))
    if pipeline.family.name == "works":
        shown |= examples_in(formats_in(Language.EN, WORK, KEY))
    return shown


def facts_with_meaning(pipeline: Pipeline, task: Task, name: str, given: Given, sought: tuple[str, ...]) -> FileFacts:
    """What a gate would know about an example."""
    text = given.artifact(name) or ""
    family = pipeline.family
    examined = family.examine(task, name, text, given)
    facts = replace(facts_of(name, text, sought), problems=examined.problems, marks=examined.marks)
    for above in pipeline.stages.values():
        if above.children == name:
            plans = tuple(draft.plan for draft in family.read_children(text, given))
            facts = replace(
                facts, children=plans, problems=(*facts.problems, *problems_of(plans, above.child_pipelines))
            )
    return facts


def is_wanted(stage: Stage, name: str, task: Task) -> bool:
    patterns = [*stage.artifacts, *(task.fill(path).rpartition("/")[2] for path in stage.documents)]
    return any(is_match(name, pattern) for pattern in patterns)


@pytest.mark.parametrize(("pipeline", "stage"), STAGES)
def test_examples_pass_the_guards_that_look_at_them(pipeline: Pipeline, stage: Stage) -> None:
    task, examples = task_of(pipeline, stage), examples_of(pipeline, stage)
    mode = {"work-pipeline": "pipeline"}.get(pipeline.name)
    if mode or (pipeline.name in {"work", "work-direct"} and stage.name == "SPECIFICATION"):
        examples.pop("PLAN.md", None)  # the example has two tasks, which these modes do not
    given, words = Given(examples), guards.sought(stage.guards)
    for name in [name for name in examples if is_wanted(stage, name, task)]:
        facts = facts_with_meaning(pipeline, task, name, given, words)
        path = next((task.fill(path) for path in stage.documents if task.fill(path).endswith(f"/{name}")), name)
        evidence = Evidence(files={path: facts}, commits=("c0ffee",) if stage.commits else ())
        looking = [one for one in stage.guards if _looks_at(one, path, task)]
        assert guards.missing(looking, task, evidence) == (), name


def _looks_at(guard: guards.Guard, path: str, task: Task) -> bool:
    named = [task.fill(getattr(guard, key)) for key in guard.file_keys]
    return path in named or (isinstance(guard, FilesValid) and is_match(path, task.fill(guard.pattern)))


@pytest.mark.parametrize(("pipeline", "stage"), STAGES)
def test_every_file_that_a_program_reads_has_an_example(pipeline: Pipeline, stage: Stage) -> None:
    task = task_of(pipeline, stage)
    read = [
        task.fill(name).rpartition("/")[2]
        for one in stage.guards
        if isinstance(one, JsonNonempty | HeadingCount | ChildrenPlanned | FilesValid)
        for name in [getattr(one, "file", "") or getattr(one, "pattern", "")]
    ]
    examples = examples_of(pipeline, stage)
    answers = {stage.answer}
    lacking = [name for name in read if name not in answers and not any(is_match(one, name) for one in examples)]
    assert lacking == []


@pytest.mark.parametrize("role", [name for name in DEFINED.roles if "verifier" in name])
def test_the_example_of_a_verdict_is_one(role: str) -> None:
    families = {
        pipeline.family.name: pipeline.family
        for pipeline, stage in ((one.values[0], one.values[1]) for one in STAGES)
        if isinstance(pipeline, Pipeline) and isinstance(stage, Stage) and stage.role == role
    }
    assert families
    for name, family in families.items():
        shown = formats_in(Language.EN, WORK) if name == "works" else _block(DEFINED.roles[role].prompt, '"criteria"')
        verdict = family.read_verdict(shown)
        assert not verdict.passed
        assert verdict.failures
    assert PLAIN.read_verdict('{"criteria": [{"id": "C1", "status": "passed"}]}').passed


def _block(text: str, word: str) -> str:
    blocks: list[str] = re.findall(r"(?:^    .*\n|^\n)+", text, re.MULTILINE)
    return next(block for block in blocks if word in block)


@pytest.mark.parametrize(("language", "name"), [*product(Language, ["Requirement.md", "TASK-00.md", "PLAN.md"])])
def test_the_formats_of_works_are_read_in_every_language(language: Language, name: str) -> None:
    pipeline = DEFINED.pipelines["work-full"]
    stage = pipeline.stages["PLANNING"]
    task = replace(task_of(pipeline, stage), ticket=Ticket(key=WORK), parent=None)
    given = Given(dict(examples_in(formats_in(language, WORK, KEY))))
    assert facts_with_meaning(pipeline, task, name, given, ()).problems == ()


def test_the_analysis_of_a_failure_has_a_confidence_that_is_known() -> None:
    example = orjson.loads(examples_in(DEFINED.roles["evaluator"].prompt)["failure-analysis.json"])
    assert example["confidence"] in CONFIDENCES
    assert all(example.values())


@pytest.mark.parametrize(("pipeline", "stage"), STAGES)
def test_a_role_is_told_what_it_is_given_and_names_what_it_must_leave(pipeline: Pipeline, stage: Stage) -> None:
    prompt = DEFINED.roles[stage.role or ""].prompt
    shown = prompt + "".join(examples_of(pipeline, stage))
    assert "## What you are given" in prompt
    assert "## Never" in prompt
    for pattern in stage.artifacts:
        if pattern != stage.answer:
            parts = [part for part in pattern.split("*") if part]
            assert all(part in shown for part in parts), pattern


@pytest.mark.parametrize(("pipeline", "stage"), STAGES)
def test_a_role_has_the_tools_for_its_stage_and_a_judge_cannot_edit(pipeline: Pipeline, stage: Stage) -> None:
    tools = DEFINED.roles[stage.role or ""].tools
    assert "Read" in tools
    assert "Bash" in tools
    if stage.work.verifies:
        assert "Edit" not in tools
    if stage.commits or stage.work.has_steps:
        assert {"Edit", "Write"} <= set(tools)
