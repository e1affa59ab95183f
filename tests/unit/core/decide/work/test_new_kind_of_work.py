"""A kind of work that the engine has never heard of: a task walks through it after one entry in the table."""

from datetime import datetime
from typing import ClassVar

import pytest

from orchestrator.core.decide import lifecycle, machine
from orchestrator.core.decide.prompt import turn_text
from orchestrator.core.decide.work import WORK
from orchestrator.core.decide.work.stage_work import StageWork
from orchestrator.core.task.guards import Evidence, FileFacts
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.task import NextAction, Task, TaskStatus
from orchestrator.pipelines import graph
from orchestrator.pipelines.pipeline_file import PipelineError, parse_pipeline
from orchestrator.pipelines.schemas import pipeline_schema
from tests.fakes.world import START
from tests.unit.playbook import (
    Playbook,
    a_task,
    admitted,
    at,
    exited,
    finished,
    looked,
    posted,
    ready,
    session,
    started,
)


class InterviewWork(StageWork):
    """Let an agent ask until its notes name three answers; what it was told is the whole result."""

    name = "interview"
    is_done_by_agent = True
    needs_role = True
    shape: ClassVar[tuple[str, str, str]] = ("((", "))", "doublecircle")

    def judge(self, pipeline: Pipeline, task: Task, evidence: Evidence, at: datetime) -> Task:
        """Advance the task once the notes hold three answers."""
        notes = evidence.files.get("notes.md")
        answers = len(notes.headings) if notes else 0
        if answers < 3:
            return lifecycle.try_again(pipeline, task, (f"{3 - answers} more answers needed",), at)
        return lifecycle.advance(pipeline, task, at)

    def instructions(self, pipeline: Pipeline, task: Task) -> str:
        """Return what to ask for."""
        del pipeline
        return f"Ask three people about {task.ticket.key}."


TALK = """\
name = "talk"
description = "People are asked, and what they said is delivered."
start = "TALK"

[stages.TALK]
work = "interview"
role = "interviewer"
artifacts = ["notes.md"]
next = "DONE"

[stages.DONE]
work = "deliver"
publish = "report"
"""
"""A pipeline as a user writes it."""


@pytest.fixture
def talk(monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    monkeypatch.setitem(WORK, InterviewWork.name, InterviewWork())
    return parse_pipeline(TALK, "talk.toml")


def heard(*answers: str) -> Evidence:
    return Evidence(files={"notes.md": FileFacts(chars=100, headings=answers)}, fresh=("notes.md",))


def test_a_task_walks_through_a_stage_of_a_new_kind_of_work(talk: Pipeline) -> None:
    play = (
        Playbook.submitted(a_task(), talk)
        >> admitted << "prepare the workspace"
        >> ready << "start interviewer 1"
        >> started << "follow agents/1" << "turn 1 of 1" << "wake in 3600 s"
        >> session
        >> finished() << "look at TALK"
        >> looked(heard("## Ada: yes")) << "turn 2 of 1" << "wake in 3600 s"
        >> finished() << "look at TALK"
        >> looked(heard("## Ada: yes", "## Bob: no", "## Eve: yes")) << "stop agents/1"
        >> exited << "post the report of DONE"
        >> posted() << "tell completed"
    )  # fmt: skip
    assert play.task.status is TaskStatus.COMPLETED


def test_an_agent_is_told_what_the_kind_of_work_asks_and_what_is_missing(talk: Pipeline) -> None:
    task = at("TALK", NextAction.TURN, pipeline=talk)
    assert "Ask three people about" in turn_text(talk, task)
    again, _ = machine.decide(talk, at("TALK", NextAction.GATE, pipeline=talk), looked(heard())(task, START))
    assert "3 more answers needed" in turn_text(talk, again)


def test_files_graphs_and_schemas_know_the_new_kind_of_work(talk: Pipeline) -> None:
    assert 'TALK(("TALK<br/>interview<br/>interviewer"))' in graph.mermaid(talk)
    assert "TALK [shape=doublecircle" in graph.dot(talk)
    assert "interview" in str(pipeline_schema())
    with pytest.raises(PipelineError, match="did you mean 'interview'"):
        parse_pipeline(TALK.replace('"interview"', '"interveiw"'), "talk.toml")
    with pytest.raises(PipelineError, match="name its role with role"):
        parse_pipeline(TALK.replace('role = "interviewer"\n', ""), "talk.toml")
