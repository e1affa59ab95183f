"""Redaction: the bundled rules, overlaps, and adversarial texts."""

import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.formats.table import DefinitionError
from orchestrator.redaction.rules import LARGEST_TEXT, Action, Finding, Redactor, Result, Scan, parse_rules
from tests.fakes.made_up_secrets import samples

RULES = parse_rules(Path("config/redaction.toml").read_text(encoding="utf-8"), "redaction.toml")
BUNDLED = Redactor(RULES)
SAMPLES = list(samples())

HARMLESS = [
    "Fix the login page",
    "8.8.8.8 and 172.32.0.1 and 1.10.0.0.1 and version 10.2.3",
    "the password is asked for twice",
    "sk-short and task-force-of-the-united-nations",
    "d41d8cd98f00b204e9800998ecf8427e",
    "-----BEGIN CERTIFICATE-----",
]


@pytest.mark.parametrize("text", HARMLESS)
def test_ordinary_text_is_unchanged(text: str) -> None:
    assert BUNDLED.scan(text) == Scan(result=Result.CLEAN, text=text)


@pytest.mark.parametrize(
    ("rule", "text"), [("email_address", "ask me@example.org"), ("high_entropy_string", "x aB3dE6gH9jK2mN5pQ8rS1tU4 x")]
)
def test_possibly_harmless_text_only_gets_a_warning(rule: str, text: str) -> None:
    scan = BUNDLED.scan(text)
    assert scan == Scan(result=Result.CLEAN, text=text, findings=(Finding(rule=rule, action=Action.WARN, line=1),))
    assert scan.warnings == (f"warn:{rule}",)
    assert BUNDLED.masked(text) == text


def test_a_blocked_text_is_empty_whatever_else_it_contains() -> None:
    text = "10.0.0.1\n-----BEGIN " + "RSA PRIVATE KEY-----\nme@example.org\n-----BEGIN " + "PRIVATE KEY-----"
    scan = BUNDLED.scan(text)
    assert (scan.result, scan.text) == (Result.BLOCKED, "")
    assert scan.findings == tuple(Finding(rule="private_key_pem", action=Action.BLOCK, line=line) for line in (2, 4))
    assert (scan.blocked, scan.redacted, scan.warnings) == (("private_key_pem",), (), ())
    assert BUNDLED.masked(text) == "[WITHHELD: private_key_pem]"


def test_a_finding_names_the_rule_and_the_line_of_every_mask() -> None:
    scan = BUNDLED.scan("one\n10.0.0.1 and 10.0.0.2\n\nfour 192.168.0.1")
    assert [(finding.rule, finding.line) for finding in scan.findings] == [
        ("ip_address_internal", 2),
        ("ip_address_internal", 2),
        ("ip_address_internal", 4),
    ]
    assert scan.redacted == ("ip_address_internal",) * 3


def redactor(*patterns: str) -> Redactor:
    rules = (
        f"[[rules]]\nid = 'rule_{number}'\naction = 'redact'\npattern = '{p}'" for number, p in enumerate(patterns)
    )
    return Redactor(parse_rules("\n".join(rules), "r.toml"))


@pytest.mark.parametrize(
    ("patterns", "masked"),
    [
        (("bc", "abcd"), "-[REDACTED:rule_1]ef-"),
        (("abc", "cdef"), "-[REDACTED:rule_1]-"),
        (("cde", "abc"), "-[REDACTED:rule_1]f-"),
        (("abc", "abc"), "-[REDACTED:rule_0]def-"),
        (("abc", "def"), "-[REDACTED:rule_0][REDACTED:rule_1]-"),
        (("ab", "bcd", "de"), "-[REDACTED:rule_1]f-"),
        (("ab(?P<secret>cd)", "de"), "-ab[REDACTED:rule_0]f-"),
        (("ab(?P<secret>x)?",), "-[REDACTED:rule_0]cdef-"),
    ],
)
def test_overlapping_secrets_become_one_mask_of_the_longest_then_the_earliest_then_the_first(
    patterns: tuple[str, ...], masked: str
) -> None:
    assert redactor(*patterns).scan("-abcdef-").text == masked


def test_a_text_over_one_mebibyte_is_refused_unread() -> None:
    assert BUNDLED.scan("a" * LARGEST_TEXT).result is Result.CLEAN
    refused = Finding(rule="payload_too_large", action=Action.BLOCK, line=0)
    too_large = Scan(result=Result.BLOCKED, text="", findings=(refused,))
    assert BUNDLED.scan("a" * (LARGEST_TEXT + 1)) == too_large
    assert BUNDLED.scan("ä" * (LARGEST_TEXT // 2 + 1)) == too_large


def test_a_rule_with_prefixes_finds_the_same_as_without() -> None:
    text = "[[rules]]\nid = 'a'\naction = 'redact'\npattern = '(?i)ab(?:ab)?c'\n"
    slow, fast = Redactor(parse_rules(text, "r.toml")), Redactor(parse_rules(text + "begins = ['ab']", "r.toml"))
    for sample in ("ababc", "xABabCabcab", "ababab", "İabc", "ab", "", "abcabc"):
        assert fast.scan(sample) == slow.scan(sample)


def test_only_one_letter_becomes_longer_in_lower_case() -> None:
    assert [letter for letter in map(chr, range(sys.maxunicode + 1)) if len(letter.lower()) != 1] == ["\u0130"]


def test_a_text_without_the_words_a_rule_needs_is_not_searched() -> None:
    rule = "[[rules]]\nid = 'a'\naction = 'redact'\npattern = '[0-9]'\nneeds = ['pin']"
    picky = Redactor(parse_rules(rule, "r.toml"))
    assert picky.scan("1").text == "1"
    assert picky.scan("PIN 1").text == "PIN [REDACTED:a]"


HOSTILE = [
    *("a", "A", " ", "=", "'", '"', "{", "\n", "-", "f", "\x00", "\u200b", "a\u200b", "é", "e\u0301", "İ", "\x1b["),
    *("eyJ-", "-eyJa", "eyJaaaaaaaaaa.eyJ", ".eyJaaaaaaaaaa", "sk-", "sk-a-", "sk-ant-", "ghghp_", "glpat-", "xox"),
    *("AKIA", "npm_a", ":_authToken", "0:aa", "123456789:AA", "a-us", "Q~", "abc0Q~", "hvs.", "ya29."),
    *("password ", "password: ", "password: a ", 'password="a', "pwd:::", "passwordpassword=", "password : a = "),
    *("token=", "token=aA1.", "api_key: ", "webhook_secret=", "secret_access_key=", "--password ", "machine a login "),
    *("authorization: bearer ", "authorization: basic a", "a@", "a@a.", "mysql://a:", "://a:", "://a:b@", '"type" '),
    *("1.", "10.1.", "fd00:", "fd00::", "-----BEGIN ", "-BEGIN PRIVATE ", "Begin\tPRIVATE KEY-", "\uff50assword "),
]
SHORT = 24 * 1024
TIMES = 8


@pytest.mark.parametrize("piece", HOSTILE)
def test_an_adversarial_text_costs_time_proportional_to_its_length(piece: str) -> None:
    """Quadratic cost would be 64 times as much."""

    def seconds(length: int) -> float:
        text = piece * (length // len(piece.encode()))
        rounds = []
        for _ in range(2):
            before = time.process_time()
            BUNDLED.scan(text)
            rounds.append(time.process_time() - before)
        return min(rounds)

    assert seconds(TIMES * SHORT) < 3 * TIMES * seconds(SHORT)


@given(
    st.lists(
        st.sampled_from([sample.text for sample in SAMPLES] + HARMLESS + ["\n", "é", "\ud800", "\u200b", "\uff47"])
    )
)
def test_a_scanned_text_is_clean_the_second_time(pieces: list[str]) -> None:
    once = BUNDLED.scan(" ".join(pieces))
    again = BUNDLED.scan(once.text)
    assert again.text == once.text
    assert again.result is Result.CLEAN


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id = 'a'\naction = 'mask'\npattern = 'x'", "r.toml:3: unknown action 'mask'; known: block, redact, warn"),
        ("id = 'a'\naction = 'redact'\npattern = '('", "r.toml:4: pattern is not a regular expression"),
        ("id = 'a'\naction = 'redact'\npattern = 'x*'", "r.toml:4: pattern matches the empty string"),
        ("id = 'A-1'\naction = 'redact'\npattern = 'x'", "r.toml:2: a rule's id consists of lower-case letters"),
        ("id = 'a'\naction = 'redact'\npatern = 'x'", "r.toml:4: unknown key 'patern'; did you mean 'pattern'?"),
        (
            "id = 'a'\naction = 'redact'\npattern = 'x'\nneeds = ['X']",
            "r.toml:5: needs holds 'X'; write it in lower case",
        ),
        (
            "id = 'a'\naction = 'redact'\npattern = 'x'\nbegins = ['x']\nneeds = ['x']",
            "r.toml:6: begins already says what a match needs",
        ),
        (
            "id = 'a'\naction = 'redact'\npattern = 'x'\nbegins = ['']",
            "r.toml:5: begins holds ''; write it in lower case",
        ),
        ("id = 'a'\naction = 'redact'\npattern = 'x'\nmin_entropy = -1", "r.toml:5: min_entropy = -1 must be a number"),
        (
            "id = 'a'\naction = 'warn'\npattern = 'x'\n[[rules]]\nid = 'a'\naction = 'warn'\npattern = 'y'",
            "r.toml:6: there",
        ),
    ],
)
def test_an_invalid_rule_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        parse_rules("[[rules]]\n" + text, "r.toml")
    assert any(str(problem).startswith(message) for problem in caught.value.problems), caught.value
