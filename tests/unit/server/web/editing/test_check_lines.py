"""Checks in a form: whatever a command is, what is shown and sent back unchanged is the same command."""

import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.server.web.editing.check_lines import changed_checks, check_lines, typed_checks

WORDS = st.text(st.sampled_from("ab =\n\r\t\u2028\x0b'\\#가"), min_size=1, max_size=30)


def hide(text: str) -> str:
    """Mask the letter a as a rule would mask a secret, and withhold what has two of another."""
    return "[WITHHELD: key]" if "bb" in text else text.replace("a", "[REDACTED:letter]")


@given(st.dictionaries(WORDS, WORDS, max_size=4))
def test_what_nobody_changes_stays_to_the_letter(checks: dict[str, str]) -> None:
    as_sent = check_lines(checks, hide).replace("\r\n", "\n").replace("\n", "\r\n")
    assert changed_checks(as_sent, checks, hide) == checks


def test_a_command_has_further_lines_that_are_indented() -> None:
    text = "  lint = ruff check .\n  ruff format .\n\n\tmake docs\n\n unit_test=make test\n\n"
    assert typed_checks(text) == {"lint": "ruff check .\nruff format .\n\nmake docs", "unit_test": "make test"}


@pytest.mark.parametrize(
    ("text", "words"),
    [("make test", "NAME=COMMAND"), ("lint=", "NAME=COMMAND"), ("=x", "NAME=COMMAND"), ("a=1\na=2", "two checks")],
)
def test_what_is_no_check_is_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        typed_checks(text)


def test_a_check_whose_secret_is_masked_can_be_removed_but_not_changed() -> None:
    stored = {"deploy": "send a", "lint": "ruff"}
    assert changed_checks("lint=ruff .\n", stored, hide) == {"lint": "ruff ."}
    with pytest.raises(ValueError, match="shown masked"):
        changed_checks("deploy=send [REDACTED:letter] now\nlint=ruff\n", stored, hide)


def test_a_form_full_of_masks_or_lines_is_read_in_linear_time() -> None:
    stored = {"lint": "x" * 500_000 + "[REDACTED:x]"}
    for typed in ("lint=" + "[REDACTED:x]" * 60_000, "\n" * 700_000, "a=b\n" * 100_000):
        began = time.process_time()
        with suppress(ValueError):
            changed_checks(typed, stored, hide)
        assert time.process_time() - began < 20
