"""What can be a ticket's text."""

import pytest

from orchestrator.core.redact import LARGEST_TEXT
from orchestrator.core.ticket import NoTicket, readable


@pytest.mark.parametrize("text", ["x", "ä" * (LARGEST_TEXT // 2), "# Title\n\nText\n"])
def test_plain_text_is_a_ticket_up_to_its_bound_in_bytes(text: str) -> None:
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
def test_anything_else_is_refused_by_the_name_of_where_it_came_from(text: str, reason: str) -> None:
    with pytest.raises(NoTicket, match=reason):
        readable(text, "it")
