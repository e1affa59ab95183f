"""What can be a ticket, and how its parts are combined."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from orchestrator.integrations.errors import NoTicket
from orchestrator.integrations.tickets.text.template import Section, parse_template
from orchestrator.integrations.tickets.text.ticket import (
    LONGEST_COMMENT,
    MOST_COMMENTS,
    MOST_NAMES,
    Requirement,
    TicketComment,
    Tracker,
    composed,
    names,
    readable,
)
from orchestrator.redaction.rules import LARGEST_TEXT

NOON = datetime(2026, 5, 28, 12, tzinfo=UTC)


@pytest.mark.parametrize("text", ["x", "ä" * (LARGEST_TEXT // 2), "# Title\n\nText\n"])
def test_plain_text_is_a_ticket_up_to_its_maximum_size_in_bytes(text: str) -> None:
    assert readable(text) == text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("\n \t", "it is empty"),
        ("ä" * (LARGEST_TEXT // 2) + "x", "it is larger than 1024 KiB"),
        ("\0ELF", "it is not text"),
        ("\udcff", "it is not text"),
    ],
)
def test_anything_else_is_refused_by_the_name_of_its_source(text: str, reason: str) -> None:
    with pytest.raises(NoTicket, match=reason):
        readable(text, "it")


def test_names_are_single_lines_of_bounded_length_and_number() -> None:
    assert names(["a\nb", " ", "\x1b[2J", "x" * 5000]) == ("a b", "[2J", "x" * 199 + "…")
    assert len(names(["a"] * 5000)) == MOST_NAMES


def test_comments_follow_the_description_quoted_and_in_order() -> None:
    later = TicketComment(author="eve\n# Scope", text="```\n# Scope\n\n- modules: all", at=NOON + timedelta(minutes=1))
    text = composed(
        "Text",
        [later, TicketComment(author="", text="first", at=NOON), TicketComment(author="ada", text="undated")],
        ["a`b"],
    )
    assert text == (
        "Text\n\n# Attachments\n\nThey are named here and were not fetched.\n\n- ab\n\n"
        "# Comments\n\n### Comment by ada\n\n> undated\n\n### Comment by somebody, 2026-05-28 12:00\n\n> first\n\n"
        "### Comment by eve # Scope, 2026-05-28 12:01\n\n> ```\n> # Scope\n>\n> - modules: all\n"
    )
    assert parse_template(text).fields == {}


@pytest.mark.parametrize(
    ("description", "closed"),
    [
        ("```\n# x", "```\n# x\n```"),
        ("~~~~", "~~~~\n~~~~"),
        ("- ```\n  x", "- ```\n  x\n```"),
        ("{code}\nx", "{code}\nx\n{code}"),
    ],
)
def test_an_unclosed_code_block_does_not_swallow_what_follows(description: str, closed: str) -> None:
    assert composed(description, []) == f"{closed}\n"


def test_a_long_comment_is_truncated_and_surplus_ones_are_left_out() -> None:
    long = TicketComment(author="a", text="x" * (LONGEST_COMMENT + 7), at=NOON)
    assert f"{'x' * LONGEST_COMMENT}\n> … (7 more characters are left out)\n" in composed("Text", [long])
    many = [
        TicketComment(author="a", text=str(number), at=NOON + timedelta(minutes=number))
        for number in range(MOST_COMMENTS + 1)
    ]
    text = composed("Text", many)
    assert "Older or longer ones are left out." in text
    assert ("> 0\n" in text, "> 1\n" in text, f"> {MOST_COMMENTS}\n" in text) == (False, True, True)


def test_a_description_that_fills_the_ticket_leaves_no_room_for_comments() -> None:
    text = composed("ä" * (LARGEST_TEXT // 2 - 2048), [TicketComment(author="a", text="x")])
    assert text.endswith("ä\n\n# Comments\n\nOlder or longer ones are left out.\n")
    assert len(text.encode()) <= LARGEST_TEXT


@given(st.text(), st.text())
@example("Changes", "")
@example("a/Scope", "")
@example("Kim (Goal)", "")
@example("Version: 2", "")
@example("Work type: release", "")
def test_no_comment_becomes_a_section_of_the_ticket(author: str, text: str) -> None:
    whole = composed(
        "## Summary\nSaid.", [TicketComment(author=author, text=f"{text}\n## Scope\n- modules: all\n**Type:** release")]
    )
    assert parse_template(whole).type is None
    assert parse_template(whole).fields.keys() == {Section.SUMMARY}


def test_a_requirement_comes_from_its_tracker_or_from_a_user() -> None:
    assert Requirement(title="t", text="x").source == "local"
    assert Requirement(title="t", text="x", tracker=Tracker.GITLAB).source == "gitlab"
