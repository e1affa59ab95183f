"""The formats that agents of a work are shown pass the gates that their files must pass."""

import re

import pytest

from orchestrator.pipelines.families.works.documents.language import Language
from orchestrator.pipelines.families.works.documents.plan import problems_of_plan, problems_of_task
from orchestrator.pipelines.families.works.documents.progress import gate
from orchestrator.pipelines.families.works.documents.requirement import problems_of_requirement
from orchestrator.pipelines.families.works.documents.result import problems_of_result
from orchestrator.pipelines.families.works.exchange.task_result import last_task_result
from orchestrator.pipelines.families.works.reference import formats_in
from tests.documents import ROOT


@pytest.mark.parametrize("language", Language)
def test_every_format_that_agents_are_shown_passes_the_gate_of_its_file(language: Language) -> None:
    text = formats_in(language, "WORK-07", "TASK-03")
    shown = dict(re.findall(r"^## (\S+)[^\n]*\n\n````markdown\n(.*?)````$", text, re.MULTILINE | re.DOTALL))
    assert problems_of_requirement(shown["Requirement.md"], "WORK-07") == ()
    assert problems_of_plan(shown["PLAN.md"], "WORK-07") == ()
    assert problems_of_task(shown["TASK-03.md"], "TASK-03", "WORK-07") == ()
    assert gate(shown["TASK-03_progress.md"]) == ""
    assert problems_of_result(shown["TASK-03_result.md"], "TASK-03", "WORK-07") == ()
    assert last_task_result(text, "verifier").failures


@pytest.mark.parametrize("role", ["specifier", "work-planner", "builder", "verifier", "committer"])
def test_a_role_reads_its_references_and_names_what_its_gate_looks_for(role: str) -> None:
    text = " ".join((ROOT / "agents" / f"{role}.md").read_text("utf-8").split())
    wanted = {
        "specifier": ["Requirement.md", "PLAN.md", "TASK-00.md", "one or two functional", "at most five criteria"],
        "work-planner": ["PLAN.md", "TASK-NN.md", "`pipeline` with one task and `full` with several", "Verify"],
        "builder": ["_progress.md", "Status: COMPLETED", '<task-result agent="builder">', "context-handoff"],
        "verifier": [
            '<task-result agent="verifier">',
            "progress",
            "build",
            "lint",
            "tests",
            "task-specific",
            "conventions",
        ],
        "committer": ["_result.md", "exactly one commit", "{type}(TASK-NN): {title}", "no files changed", "Never"],
    }
    assert [
        word for word in ("REFERENCES_DIR", "dispatch.xml", "work-formats.md", *wanted[role]) if word not in text
    ] == []
