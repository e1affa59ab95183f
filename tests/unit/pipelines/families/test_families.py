"""A family that the engine has never heard of: one entry in the table, and its pipelines are read and walked."""

from dataclasses import dataclass, replace

import pytest

from orchestrator.core.decide import machine
from orchestrator.core.events.events import OperationRequested
from orchestrator.core.events.operations import OperationRefused, Transition
from orchestrator.core.family.family import Family, StateAlias
from orchestrator.core.task.guards import NOTHING_SEEN, Evidence, Guard
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.task import NextAction, Task
from orchestrator.pipelines.families import FAMILIES
from orchestrator.pipelines.pipeline_file import PipelineError, parse_pipeline
from tests.fakes.world import START
from tests.unit.playbook import at


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseNumbered(Guard):
    """The title of the task names its phase."""

    def missing(self, task: Task, evidence: Evidence) -> tuple[str, ...]:
        """Return that the title names no phase."""
        del evidence
        return () if "phase" in task.title.lower() else ("the title names no phase",)

    def describe(self) -> str:
        """Return the condition in a few words."""
        return "the title names a phase"


PHASES = Family(
    name="phases", guards={"phase_numbered": PhaseNumbered}, aliases={"PHASE_DONE": StateAlias(stage="WORK")}
)
PHASED = """\
name = "phased"
description = "One phase."
start = "WORK"
family = "phases"

[stages.WORK]
work = "agent"
role = "worker"
guards = [{ guard = "phase_numbered" }]
next = "DONE"

[stages.DONE]
work = "deliver"
publish = "report"
"""


@pytest.fixture
def phased(monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    monkeypatch.setitem(FAMILIES, PHASES.name, PHASES)
    return parse_pipeline(PHASED, "phased.toml")


def moved(pipeline: Pipeline, task: Task) -> Task:
    move = Transition(from_state="WORK", to_state="PHASE_DONE")
    return machine.decide(pipeline, task, OperationRequested(at=START, operation=move, evidence=NOTHING_SEEN))[0]


def test_guards_and_aliases_of_a_new_family_are_known_to_its_pipelines(phased: Pipeline) -> None:
    task = at("WORK", NextAction.TURN, pipeline=phased)
    with pytest.raises(OperationRefused, match="the title names no phase"):
        moved(phased, task)
    assert moved(phased, replace(task, title="Phase 1")).stage == "DONE"


@pytest.mark.usefixtures("phased")
def test_a_family_has_no_guards_or_aliases_of_another() -> None:
    with pytest.raises(PipelineError, match="unknown guard 'phase_numbered'"):
        parse_pipeline(PHASED.replace('family = "phases"\n', ""), "phased.toml")
    with pytest.raises(PipelineError, match="unknown guard 'commit_subject'"):
        parse_pipeline(PHASED.replace("phase_numbered", "commit_subject"), "phased.toml")
    with pytest.raises(PipelineError, match="PHASE_DONE is the name of a result"):
        parse_pipeline(PHASED.replace("DONE", "PHASE_DONE"), "phased.toml")
