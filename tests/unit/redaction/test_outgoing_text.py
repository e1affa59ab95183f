"""Outgoing titles and texts: masked, blocked, and free of deceptive characters."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.redaction.outgoing_text import TextKind, sanitize
from orchestrator.redaction.rules import LARGEST_TEXT, Redactor, Result, parse_rules
from tests.fakes.made_up_secrets import samples

BUNDLED = Redactor(parse_rules(Path("config/redaction.toml").read_text(encoding="utf-8"), "redaction.toml"))


def test_a_body_keeps_its_lines_and_loses_its_secrets() -> None:
    out = sanitize("# Fix\n\nserver 10.0.0.1\u200b\n\x1b[31mred\x1b[0m\tend\r\n", TextKind.TEXT, BUNDLED)
    assert out.text == "# Fix\n\nserver [REDACTED:ip_address_internal]\nred\tend\n"
    assert (out.verdict, [finding.line for finding in out.findings]) == (Result.REDACTED, [3])


def test_a_title_is_one_line() -> None:
    out = sanitize("  Fix\u202e the\n login\tpage ", TextKind.TITLE, BUNDLED)
    assert (out.text, out.verdict, out.findings) == ("Fix the login page", Result.CLEAN, ())


def test_a_blocked_title_is_withheld_like_a_body() -> None:
    key = "use -----BEGIN " + "PRIVATE KEY-----"
    for outlet in TextKind:
        out = sanitize(key, outlet, BUNDLED)
        assert (out.text, out.verdict) == ("", Result.BLOCKED)
        assert [finding.rule for finding in out.findings] == ["private_key_pem"]


def test_a_text_that_is_too_large_is_blocked() -> None:
    out = sanitize("a" * (LARGEST_TEXT + 1), TextKind.TEXT, BUNDLED)
    assert (out.text, out.verdict, out.findings[0].rule) == ("", Result.BLOCKED, "payload_too_large")


PIECES = [sample.text for sample in samples()] + ["\u200b", "\u202e", "\x1b[1m", "\n", "x", "\r", " "]


@given(st.lists(st.sampled_from(PIECES)), st.sampled_from(TextKind))
def test_sanitized_text_contains_no_secrets_and_is_stable(pieces: list[str], outlet: TextKind) -> None:
    once = sanitize("".join(pieces), outlet, BUNDLED)
    again = sanitize(once.text, outlet, BUNDLED)
    assert again.text == once.text
    assert again.verdict is Result.CLEAN
