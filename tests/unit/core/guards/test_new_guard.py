"""A guard that the engine has never heard of: one class and one entry in the table, and a pipeline file may use it."""

from dataclasses import dataclass, field
from typing import ClassVar

import pytest

from orchestrator.core.guards import GUARDS
from orchestrator.core.task.guards import Evidence, FileFacts, Guard
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.task import NextAction, Task
from orchestrator.pipelines import graph
from orchestrator.pipelines.pipeline_file import PipelineError, parse_pipeline
from orchestrator.pipelines.schemas import pipeline_schema
from tests.unit.playbook import Playbook, at, finished, looked


@dataclass(frozen=True, slots=True, kw_only=True)
class FileShort(Guard):
    """An artifact holds no more than so many characters."""

    file_keys: ClassVar[tuple[str, ...]] = ("file",)
    file: str
    at_most: int = field(default=100, metadata={"minimum": 1})

    def missing(self, task: Task, evidence: Evidence) -> tuple[str, ...]:
        """Return by how much the file is too long."""
        del task
        chars = evidence.files[self.file].chars if self.file in evidence.files else 0
        return (f"{self.file} is {chars - self.at_most} characters too long",) if chars > self.at_most else ()

    def describe(self) -> str:
        """Return the condition in a few words."""
        return f"{self.file} has {self.at_most} characters or fewer"


SMALL = """\
name = "small"
description = "Short notes."
start = "WORK"

[stages.WORK]
work = "agent"
role = "worker"
artifacts = ["notes.md"]
guards = [{ guard = "file_short", file = "notes.md", at_most = 50 }]
next = "DONE"

[stages.DONE]
work = "deliver"
publish = "report"
"""
"""A pipeline as a user writes it."""


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    monkeypatch.setitem(GUARDS, "file_short", FileShort)
    return parse_pipeline(SMALL, "small.toml")


def notes(chars: int) -> Evidence:
    return Evidence(files={"notes.md": FileFacts(chars=chars)}, fresh=("notes.md",))


def test_a_new_guard_keeps_a_stage_closed_and_opens_it(small: Pipeline) -> None:
    play = Playbook(at("WORK", NextAction.GATE, pipeline=small), small)
    play = play >> looked(notes(53)) << "turn 2 of 1" << "wake in 3600 s"
    assert play.task.feedback == ("notes.md is 3 characters too long",)
    play = play >> finished() << "look at WORK" >> looked(notes(50)) << "stop agents/1"
    assert play.task.stage == "DONE"


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("file_short", "file_shrot", "small.toml:9: unknown guard 'file_shrot'; did you mean 'file_short'?"),
        ("at_most", "at_msot", "small.toml:9: unknown key 'at_msot'; did you mean 'at_most'?"),
        ("at_most = 50", "at_most = 0", "small.toml:9: at_most = 0 must be a whole number, 1 or more"),
        ('file = "notes.md"', 'file = "note.md"', "small.toml:9: no stage leaves 'note.md'"),
        (', file = "notes.md"', "", "small.toml:9: 'file' is missing"),
    ],
)
@pytest.mark.usefixtures("small")
def test_what_is_wrong_with_a_new_guard_is_said_with_its_line(right: str, wrong: str, message: str) -> None:
    with pytest.raises(PipelineError) as caught:
        parse_pipeline(SMALL.replace(right, wrong), "small.toml")
    assert any(str(problem).startswith(message) for problem in caught.value.problems), caught.value


def test_graphs_and_the_schema_know_the_new_guard(small: Pipeline) -> None:
    assert "notes.md has 50 characters or fewer" in graph.text(small)
    assert "{'const': 'file_short'}" in str(pipeline_schema())
