"""Phased tasks: their four pipelines, the preflight of a change, and what agents are told about their phase."""

from dataclasses import dataclass, replace

import pytest

from orchestrator.core.decide import machine
from orchestrator.core.decide.prompt import turn_text
from orchestrator.core.events.events import TaskSubmitted
from orchestrator.core.family.family import Submitted
from orchestrator.core.family.verdict import read_verdict
from orchestrator.core.task.guards import Evidence, FileFacts, missing
from orchestrator.core.task.pipeline import OnExhausted
from orchestrator.core.task.task import Task
from orchestrator.core.task.task_policy import Autonomy
from orchestrator.pipelines.bundled import Kind, bundled
from orchestrator.pipelines.families.phases.criteria import CRITERIA
from orchestrator.pipelines.families.phases.family import begin
from orchestrator.pipelines.families.phases.guards import TRIGGERS
from orchestrator.pipelines.families.phases.preflight import MOST_LISTED, is_source
from tests.fakes.tasks import bundled_pipeline, submitted
from tests.fakes.world import START

PIPELINES = ("create_app", "modify_app", "workflow", "custom")
PLANNING = (
    *("01_idea", "02_market", "03_persona", "04_user_journey", "05_business_model"),
    *("06_product", "07_features", "08_tech", "09_roadmap"),
)
DESIGN = ("01_screen", "02_data_model", "03_task_flow", "04_api", "05_architecture")


@dataclass(frozen=True, slots=True)
class Tree:
    """The files of a repository, by name."""

    paths: tuple[str, ...]

    def artifact(self, name: str) -> str | None:
        del name
        return None

    def committed(self, path: str) -> str | None:
        return "" if path in self.paths else None

    def names(self, folder: str) -> tuple[str, ...]:
        return tuple(sorted(self.paths)[:MOST_LISTED]) if folder == "." else ()


def at_stage(pipeline: str, stage: str) -> Task:
    """A task of that pipeline that has come to that stage."""
    task, _ = machine.begin(bundled_pipeline(pipeline), TaskSubmitted(at=START, task=submitted(pipeline=pipeline)))
    return replace(task, stage=stage)


@pytest.mark.parametrize(
    ("name", "phases"),
    [
        ("create_app", "PLANNING DESIGN DEVELOPMENT TESTING"),
        ("modify_app", "ANALYSIS PLANNING IMPLEMENTATION TESTING"),
        ("workflow", "REQUIREMENTS DESIGN DEVELOPMENT TESTING"),
    ],
)
def test_a_pipeline_has_four_phases_of_which_each_is_verified_and_approved(name: str, phases: str) -> None:
    pipeline = bundled_pipeline(name)
    first = {stage.phase: stage for stage in reversed(tuple(pipeline.stages.values())) if stage.phase}
    assert " ".join(first[number].name for number in sorted(first)) == phases
    verified = [stage for stage in pipeline.stages.values() if stage.work.verifies]
    assert {stage.role for stage in verified} == {"phase-verifier"}
    assert {stage.phase for stage in verified} >= {1, 2, 3}
    for stage in verified:
        assert (pipeline.budgets[stage.budget or ""], stage.on_exhausted) == (4, OnExhausted.REVIEW), "three reworks"
        assert pipeline.stages[stage.on_fail or ""].role == "phase-author"
        assert stage.name in CRITERIA
    asked = [stage.phase for stage in pipeline.stages.values() if stage.review]
    assert asked == [1, 2, 3, 4], "the last of them is the final approval"
    authors = [stage for stage in pipeline.stages.values() if stage.role == "phase-author"]
    assert all(stage.commits and stage.resume_session for stage in authors)


def test_custom_has_no_phases_and_one_approval() -> None:
    pipeline = bundled_pipeline("custom")
    assert {stage.phase for stage in pipeline.stages.values()} == {None}
    assert [stage.name for stage in pipeline.stages.values() if stage.review] == ["CHECKS"]


@pytest.mark.parametrize("name", PIPELINES)
def test_only_what_needs_something_to_modify_cannot_begin_with_nothing(name: str) -> None:
    assert bundled_pipeline(name).new_repository is (name != "modify_app")


@pytest.mark.parametrize(("stage", "names"), [("PLANNING", PLANNING), ("DESIGN", DESIGN)])
def test_an_application_is_planned_and_designed_in_documents_of_fixed_names(stage: str, names: tuple[str, ...]) -> None:
    gate, task = bundled_pipeline("create_app").stage(stage).guards, at_stage("create_app", stage)
    paths = [f"docs/{stage.lower()}/{name}.md" for name in names]
    enough = Evidence(files={path: FileFacts(chars=500) for path in paths})
    assert missing(gate, task, enough) == ()
    short = Evidence(files={**enough.files, paths[0]: FileFacts(chars=499, found=("TBD",))}, dirty=("x.py",))
    assert missing(gate, task, short) == (
        f"{paths[0]} has 499 characters, more than 499 needed",
        f"{paths[0]} still says TBD",
        "uncommitted changes: x.py",
    )
    assert missing(gate, task, Evidence()) == tuple(f"{path} not found" for path in paths)


@pytest.mark.parametrize(
    ("pipeline", "stage", "path", "chars"),
    [
        ("modify_app", "ANALYSIS", "docs/analysis/current_state.md", 1000),
        ("modify_app", "PLANNING", "docs/planning/modification_plan.md", 800),
        ("workflow", "REQUIREMENTS", "docs/planning/workflow_requirements.md", 800),
        ("workflow", "DESIGN", "docs/design/workflow_design.md", 1000),
    ],
)
def test_other_documents_have_the_lengths_of_the_original_system(
    pipeline: str, stage: str, path: str, chars: int
) -> None:
    gate, task = bundled_pipeline(pipeline).stage(stage).guards, at_stage(pipeline, stage)
    for length, lacks in ((chars, False), (chars - 1, True)):
        seen = Evidence(files={path: FileFacts(chars=length, found=("Trigger: event",))})
        assert bool(missing(gate, task, seen)) is lacks


@pytest.mark.parametrize("trigger", TRIGGERS)
def test_a_workflow_says_what_starts_it(trigger: str) -> None:
    gate, task = bundled_pipeline("workflow").stage("REQUIREMENTS").guards, at_stage("workflow", "REQUIREMENTS")
    path = "docs/planning/workflow_requirements.md"
    seen = Evidence(files={path: FileFacts(chars=900, found=(f"Trigger: {trigger}",))})
    assert missing(gate, task, seen) == ()
    (lack,) = missing(gate, task, Evidence(files={path: FileFacts(chars=900)}))
    assert "`Trigger: …` that names one of schedule, webhook, manual, event" in lack


@pytest.mark.parametrize(
    "paths", [("src/app.py",), ("Makefile",), ("a/b/C.TSX", "README.md"), tuple("x" * 5 + str(n) for n in range(1000))]
)
def test_a_change_begins_where_there_is_something_to_modify(paths: tuple[str, ...]) -> None:
    begun = begin(Submitted(text="", title="", pipeline="modify_app"), Tree(paths))
    assert begun.autonomy is Autonomy.INTERACTIVE


@pytest.mark.parametrize(
    ("paths", "code"),
    [
        ((), "EMPTY_DIRECTORY"),
        (("README.md", "LICENSE", "docs/a.txt"), "NO_SOURCE_FILES"),
        (("evil\x1b[2J.md", "x" * 10_000), "NO_SOURCE_FILES"),
        ((".py", "py", "folder.py/readme"), "NO_SOURCE_FILES"),
    ],
)
def test_a_change_of_nothing_is_refused_with_the_code_of_the_original_system(paths: tuple[str, ...], code: str) -> None:
    with pytest.raises(ValueError, match=f"^{code}: ") as refused:
        begin(Submitted(text="", title="", pipeline="modify_app"), Tree(paths))
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 1000
    for name in PIPELINES:
        if name != "modify_app":
            assert begin(Submitted(text="", title="", pipeline=name), Tree(paths)).autonomy is Autonomy.INTERACTIVE


def test_a_hidden_file_is_no_source_by_its_first_dot() -> None:
    assert not is_source(".gitignore")
    assert is_source("deep/er/.config.py")


@pytest.mark.parametrize("stage", CRITERIA)
def test_a_verifier_is_told_its_phase_and_each_of_its_criteria(stage: str) -> None:
    name = next(name for name in PIPELINES if stage in bundled_pipeline(name).stages and name_of(stage, name))
    task = at_stage(name, stage)
    text = turn_text(bundled_pipeline(name), task)
    assert f"This is phase {task.stages[stage].phase} of 4." in text
    assert all(f"- {name}: {words}" in text for name, words in CRITERIA[stage].items())


def name_of(stage: str, pipeline: str) -> bool:
    """Whether the stage of that pipeline verifies; TESTING does only in some."""
    return bundled_pipeline(pipeline).stage(stage).work.verifies


def test_a_verifier_is_asked_to_judge_documents_and_not_to_leave_them() -> None:
    text = turn_text(bundled_pipeline("create_app"), at_stage("create_app", "PLANNING_VERIFICATION"))
    assert "Judge these files in the worktree:\n- docs/planning/*.md" in text
    assert "Leave these files" not in text


def test_the_verdict_that_the_role_shows_is_one_that_the_gate_reads() -> None:
    role = (bundled(Kind.AGENTS) / "phase-verifier.md").read_text(encoding="utf-8")
    shown = role[role.index("    === VERIFICATION_RESULT ===") : role.index("- Every criterion of the turn")]
    verdict = read_verdict("\n".join(line.removeprefix("    ") for line in shown.splitlines()))
    assert not verdict.passed
    (failure,) = verdict.failures
    assert failure.startswith("P1_FEAS_02 (docs/planning/09_roadmap.md, docs/planning/08_tech.md): ")


def test_the_author_is_told_every_document_by_its_name() -> None:
    role = (bundled(Kind.AGENTS) / "phase-author.md").read_text(encoding="utf-8")
    assert [name for name in (*PLANNING, *DESIGN) if f"`{name}`" not in role] == []
    other = ("docs/analysis/current_state.md", "docs/planning/modification_plan.md", "test-report.md")
    assert [name for name in other if name not in role] == []
    assert [trigger for trigger in TRIGGERS if f"`Trigger: {trigger}`" not in role] == []
