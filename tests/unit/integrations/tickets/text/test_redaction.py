"""Redaction of a requirement before agents see it: every text is filtered, and some secrets block the ticket."""

from dataclasses import replace
from datetime import timedelta

import pytest

from orchestrator.core.task.ticket import Ticket
from orchestrator.integrations.tickets.text.redaction import (
    MOST_LISTED,
    RedactedTicket,
    RedactionBlocked,
    redact_ticket,
    ticket_document,
)
from orchestrator.integrations.tickets.text.ticket import Requirement, Tracker
from orchestrator.pipelines.bundled import bundled_redactor
from orchestrator.redaction.rules import Action, Finding, Result, Scan
from tests.fakes.tasks import submitted
from tests.fakes.world import START

PLAIN = Requirement(title="Add a flag", text="Please add it.", labels=("cli",), status="To Do", assignee="grace")
ADDRESS = "see 10.1.2.3"
KEY = "-----BEGIN " + "RSA PRIVATE KEY-----"


def taken(requirement: Requirement) -> RedactedTicket:
    result = redact_ticket(requirement, bundled_redactor())
    assert isinstance(result, RedactedTicket)
    return result


def test_a_requirement_without_secrets_is_unchanged() -> None:
    result = taken(PLAIN)
    assert result == RedactedTicket(requirement=PLAIN)
    check = result.check(START)
    assert (check.result, check.redacted_count, check.scanned_at) == ("CLEAN", 0, START)


@pytest.mark.parametrize(
    "one", [{"text": ADDRESS}, {"title": ADDRESS}, {"status": ADDRESS}, {"assignee": ADDRESS}, {"labels": (ADDRESS,)}]
)
def test_every_text_of_it_is_masked_and_counted(one: dict[str, str]) -> None:
    result = taken(replace(PLAIN, **one))  # type: ignore[arg-type]  # any field
    assert "10.1.2.3" not in repr(result.requirement)
    assert (result.check(START).result, result.check(START).redacted_count) == ("REDACTED", 1)


def test_a_repeated_warning_is_named_once() -> None:
    mail = "ask me@example.org"
    assert taken(replace(PLAIN, text=mail, title=mail)).warnings == ("warn:email_address",)


@pytest.mark.parametrize("one", [{"text": KEY}, {"labels": ("x", KEY)}])
def test_a_blocked_text_is_withheld_whole_and_shown_nowhere(one: dict[str, str]) -> None:
    result = redact_ticket(replace(PLAIN, **one), bundled_redactor())  # type: ignore[arg-type]  # any field
    assert isinstance(result, RedactionBlocked)
    assert (result.text, result.reasons) == (KEY, "private_key_pem in line 1")
    assert KEY not in repr(result)


def test_a_refusal_names_ten_findings_and_counts_the_others() -> None:
    found = tuple(Finding(rule=f"r{line}", action=Action.BLOCK, line=line) for line in range(MOST_LISTED + 2))
    withheld = RedactionBlocked(text="x", scan=Scan(result=Result.BLOCKED, text="", findings=found))
    assert withheld.reasons.startswith("r0, r1 in line 1, ")
    assert withheld.reasons.endswith("r9 in line 9 and 2 more")


def test_ticket_json_of_a_text_states_its_submission_time_and_the_masked_secrets() -> None:
    task = submitted()
    document = ticket_document(task, taken(replace(PLAIN, text=f"{ADDRESS}, {ADDRESS}")))
    assert document["created"] == "2026-11-21T22:00:00.000Z"
    assert "url" not in document
    assert document["repository"] == {"path": "/repo", "base": "main", "commit": "b" * 40}
    assert document["_filter_metadata"] == {
        "scan_result": "REDACTED",
        "redacted_count": 2,
        "redacted_patterns": ["ip_address_internal"],
        "blocked_patterns": [],
        "warnings": [],
        "scanned_at": "2026-11-21T22:00:00.000Z",
    }


def test_ticket_json_of_a_trackers_ticket_has_the_fields_of_the_tracker() -> None:
    asked = replace(PLAIN, tracker=Tracker.JIRA, url="https://jira.example/A-1", assignee="", created=START)
    task = submitted(ticket=Ticket(key="A-1", source=asked.source))
    document = ticket_document(task, taken(asked))
    assert [document[name] for name in ("requirement_source", "url", "status", "assignee", "created", "updated")] == [
        "jira", "https://jira.example/A-1", "To Do", None, "2026-11-21T22:00:00.000Z", None
    ]  # fmt: skip
    later = ticket_document(task, taken(replace(asked, updated=START + timedelta(seconds=1))))
    assert later["updated"] == "2026-11-21T22:00:01.000Z"
