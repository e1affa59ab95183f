"""The texts of a pull request and of its squashed commit."""

import json
from dataclasses import replace

import pytest

from orchestrator.core.task.checks import CheckResult, Verdict
from orchestrator.core.task.guards import Evidence, FileFacts
from orchestrator.core.task.task import NextAction, Task
from orchestrator.core.task.ticket import Ticket, TicketType
from orchestrator.integrations.publishing.pull_request import (
    PullRequestWords,
    Related,
    Sources,
    criteria_of,
    labels,
    pull_request,
    related_code,
    squash_commit,
)
from tests.fakes.tasks import with_results
from tests.unit.playbook import Playbook, a_task, at, looked

URL = "https://forge.test/pull/7"
ANALYSIS = "# Analysis\n\n## Ticket\n\n| a | b |\n\n- a list\n\nThe tool has\nno such flag.\n\nMore of it.\n"


def finished(begun: Task | None = None) -> Task:
    return at("COMPLETION", NextAction.NOTHING, begun)


def jira() -> Task:
    return replace(finished(), ticket=Ticket(key="ABC-1", source="jira", type=TicketType.BUGFIX))


def test_a_pull_request_states_what_changed_why_and_the_test_results() -> None:
    sources = Sources(
        analysis=ANALYSIS,
        related=Related(impacts=("`main`: every caller",)),
        acceptance=("It can be given", "It is\ntested"),
        ticket_url="https://jira.test/browse/ABC-1",
    )
    words = pull_request(jira(), sources)
    assert words.title == "ABC-1: Add a flag"
    assert words.body == (
        "## Jira\n\n[ABC-1](https://jira.test/browse/ABC-1): Add a flag\n\n"
        "## Summary\n\nThe tool has no such flag.\n\n"
        "## Changes\n\n- Step 1: Do it (c1)\n- Step 2: Test it (c2)\n\n"
        "## Test Results\n\n"
        "| Stage | Status | Duration |\n|---|---|---|\n| unit_test | PASS |  |\n| lint | PASS |  |\n\n"
        "## Impact\n\n- `main`: every caller\n\n"
        "## Acceptance Criteria\n\n- It can be given\n- It is tested\n"
    )


def test_work_accepted_despite_a_used_up_budget_is_listed_as_a_risk() -> None:
    over = Evidence(fresh=tuple(f"design-v{number}.md" for number in range(1, 6)))
    over = replace(over, files={name: FileFacts(chars=9) for name in over.fresh})
    play = Playbook(at("DESIGN", NextAction.GATE)) >> looked(over) << "stop agents/1"
    told = "## Residual Risks\n\n- DESIGN was accepted as it is: the budget design_revisions is used up (4 of 3)\n"
    assert pull_request(play.task, Sources()).body.endswith(told)
    assert "needs-careful-review" in labels(play.task, Related())


def test_missing_information_is_stated_as_missing() -> None:
    task = with_results(finished(), {}, steps=())
    body = pull_request(task, Sources()).body
    assert body.startswith(f"## Requirement\n\n{task.ticket.key}: Add a flag\n\n")
    for section in ("Summary", "Changes", "Impact", "Acceptance Criteria"):
        assert f"## {section}\n\nNot stated.\n" in body
    assert "**No check ran: nothing shows that this change works.**" in body


def test_external_text_stays_on_its_line_and_is_bounded() -> None:
    evil = "a | b\n## Test Results\n" + "x" * 5_000
    task = with_results(finished(), {"a|b": CheckResult(verdict=Verdict.WARN, seconds=1.25)}, title=evil)
    sources = Sources(analysis="## Only\n```\ncode\n```\n\n" + "y" * 9_000, related=Related(impacts=(evil,) * 60))
    words = pull_request(task, sources)
    assert len(words.title) == 200
    assert "\n" not in words.title
    assert words.body.count("\n## Test Results\n") == 1
    assert "| a\\|b | WARN | 1.2 s |" in words.body
    assert "- … and 10 more" in words.body
    assert len(words.body) < 30_000


def test_a_step_without_a_commit_is_marked() -> None:
    task = finished()
    task = replace(task, steps=tuple(replace(step, commits=()) for step in task.steps))
    assert "- Step 1: Do it (no commit)" in pull_request(task, Sources()).body


def test_labels_name_the_kind_the_risk_and_the_modules_once() -> None:
    assert labels(a_task(), Related()) == ("auto-generated", "feature")
    related = Related(modules=("api", "feature"), careful=True)
    assert labels(a_task(), related) == ("auto-generated", "feature", "needs-careful-review", "api")


def test_related_code_is_read_in_both_formats() -> None:
    told = {"impacts": [{"symbol": "main", "impact_analysis": "every\ncaller"}], "scope": ["api"]}
    assert related_code(json.dumps(told)) == Related(impacts=("`main`: every caller",), modules=("api",))
    grouped = {
        "impacts": [
            {"symbol": "Store", "impact_analysis": {"callers": ["a", "b"], "concurrent": "the lock", "interface": []}},
            {"impact_analysis": {"callers": ["c"]}},
            {"symbol": "", "impact_analysis": ""},
            "nothing",
        ],
        "scope": {"modules": ["core", ""]},
    }
    assert related_code(json.dumps(grouped)) == Related(
        impacts=("`Store`: callers: a, b; concurrent: the lock", "callers: c"), modules=("core",), careful=True
    )


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"impacts": 3, "scope": "x"}', "[" * 100_000])
def test_invalid_related_code_is_empty(text: str) -> None:
    assert related_code(text) == Related()


def test_criteria_are_the_items_of_a_list_or_the_lines_of_a_text() -> None:
    assert criteria_of([{"text": "It can be given"}, "It is\ntested", 3, {}]) == ("It can be given", "It is tested")
    assert criteria_of("It can be given\n\n  It is tested\n") == ("It can be given", "It is tested")
    assert criteria_of(None) == criteria_of({"text": "no list"}) == ()


def test_a_few_commits_are_listed_one_by_one() -> None:
    words = squash_commit(jira(), ["ABC-1: Do it", "Test it"], 7, URL, Sources(ticket_url="https://jira.test/ABC-1"))
    assert words == PullRequestWords(
        title="ABC-1: Add a flag (#7)", body=f"- Do it\n- Test it\n\nJira: https://jira.test/ABC-1\nPR: {URL}"
    )
    assert squash_commit(finished(), [], 7, URL, Sources()).body == f"Ticket: {finished().ticket.key}\nPR: {URL}"


def test_many_commits_are_grouped() -> None:
    subjects = [
        "Test the flag",
        "Document the flag",
        "Widen the interface",
        "Fix a typo",
        *(f"Do thing {n}" for n in range(7)),
    ]
    body = squash_commit(finished(), subjects, 7, URL, Sources()).body
    assert body.startswith("Interface changes:\n- Widen the interface\n\nImplementation:\n- Do thing 0\n- Do thing 1\n")
    assert "\n\nTests:\n- Test the flag\n\nDocs:\n- Document the flag\n\nMisc:\n- Fix a typo\n\nTicket: " in body


def test_a_change_of_what_judges_the_branch_stands_first() -> None:
    body = pull_request(finished(), Sources(look_first=("conftest.py was added: why",))).body
    assert body.startswith("## Look at this first\n\n- conftest.py was added: why\n\n## ")
