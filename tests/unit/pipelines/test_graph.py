"""Drawings of a pipeline: every stage and edge is shown, and no text of a file can break the drawing."""

from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.core.task.pipeline import Pipeline
from orchestrator.pipelines import graph
from orchestrator.pipelines.graph import EdgeKind
from orchestrator.pipelines.pipeline_file import parse_pipeline
from tests.fakes.tasks import full_pipeline

HOSTILE = """\
name = "small"
description = "Two\\nstages."
start = "WORK"

[stages.WORK]
work = "agent"
role = "worker"
review = true
artifacts = ["notes.md", "draft-v*.md"]
guards = [
    { guard = "file_exists", file = "notes.md" },
    { guard = "heading_count", file = "notes.md", prefix = "## \\"a|b\\" <i> `c`\\n; \\\\ end" },
    { guard = "glob_count", pattern = "draft-v*.md", at_least = 2 },
    { guard = "budget_left", name = "gate_retries" },
]
next = "DONE"
on_fail = "WORK"
budget = "tries"

[budgets]
tries = 1

[stages.DONE]
work = "deliver"
publish = "report"
"""


def small() -> Pipeline:
    return parse_pipeline(HOSTILE, "small.toml")


def test_the_edges_of_a_pipeline_lead_on_back_and_to_a_halt() -> None:
    ways = {(edge.source, edge.target, edge.way) for edge in graph.graph_edges(full_pipeline())}
    assert {
        ("TICKET_INTAKE", "ANALYSIS", EdgeKind.NEXT),
        ("EVALUATION", "COMPLETION", EdgeKind.NEXT),
        ("EVALUATION", "ANALYSIS", EdgeKind.BACK),
        ("EVALUATION", "BLOCKED", EdgeKind.HALT),
        ("COMPLETION", "COMPLETED", EdgeKind.NEXT),
    } <= ways
    assert len(ways) == len(full_pipeline().stages) + 4


def test_an_edge_is_labelled_with_its_guards_and_its_approval() -> None:
    first = graph.graph_edges(small())[0]
    assert first.labels[0] == "notes.md is there"
    assert "2 or more files draft-v*.md are there" in first.labels
    assert first.labels[-1] == "a person approves it"


def test_a_halt_states_how_often_a_stage_may_fail_first() -> None:
    halts = {edge.source: edge.labels for edge in graph.graph_edges(full_pipeline()) if edge.way is EdgeKind.HALT}
    assert halts["EVALUATION"] == ("it has failed 3 times (eval_cycles)",)
    assert halts["COMPLETION"] == ("they want one after it was changed 10 times (review_rounds)",)
    assert "it has failed once (tries)" in graph.text(small())
    release = parse_pipeline(Path("config/pipelines/release.toml").read_text(encoding="utf-8"), "release.toml")
    assert "a person wants a change" in graph.text(release)
    assert "one is wanted after it was changed 10 times (review_rounds)" in graph.text(release)


@pytest.mark.parametrize("draw", [graph.mermaid, graph.dot, graph.text])
def test_every_drawing_shows_every_stage_and_every_role(draw: Callable[[Pipeline], str]) -> None:
    drawn = draw(full_pipeline())
    for stage in full_pipeline().stages.values():
        assert stage.name in drawn
        assert stage.role is None or stage.role in drawn


def test_text_of_a_file_is_escaped_in_mermaid() -> None:
    line = next(line for line in graph.mermaid(small()).splitlines() if line.startswith("    WORK -->|"))
    assert line.count('"') == 2
    assert "#35;#35; #quot;a#124;b#quot; #lt;i#gt; #96;c#96;" in line


def test_text_of_a_file_is_escaped_in_dot() -> None:
    line = next(line for line in graph.dot(small()).splitlines() if line.startswith("    WORK -> DONE"))
    assert r"## \"a|b\" <i> `c` ; \\ end" in line


def test_the_lines_for_users_are_short_and_state_what_a_closed_gate_leads_to() -> None:
    drawn = graph.text(full_pipeline())
    assert max(map(len, drawn.splitlines()[1:])) <= 100
    assert "up to 2 times" in drawn
    assert "small: Two stages." in graph.text(small())
    assert "DONE  (deliver: report)" in graph.text(small())
