"""Redaction: the bundled rules, overlaps, and adversarial texts."""

import asyncio
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.formats.table import DefinitionError
from orchestrator.redaction.expressions import WINDOW
from orchestrator.redaction.rules import (
    LARGEST_TEXT,
    MOST_SECRETS,
    Action,
    Finding,
    Redactor,
    Result,
    Rule,
    Scan,
    parse_rules,
)
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

    assert any(seconds(TIMES * SHORT) < 3 * TIMES * seconds(SHORT) for _ in range(5))


def adversarial(rule: Rule) -> Iterator[tuple[str, str, str]]:
    """Yield a beginning, a piece to repeat, and an end: of what the rule looks for, in whole, in part and repeated."""
    of_rule = [sample for sample in SAMPLES if sample.rule == rule.id][:2]
    words = [*(need.decode() for need in rule.needs), *(sample.secret[:4] for sample in of_rule)]
    for word in dict.fromkeys(words):
        yield from ((f"{word}{mark}", word, "!") for mark in ("", "=", ": "))
        yield from (("", f"{word}{mark}", "!") for mark in ("=", ": ", "://", "=“aaaaaa ", '="aaaaaa '))
    for sample in of_rule:
        yield from (("", piece, "") for piece in (sample.text, sample.text[:-1], f"{sample.text}\0"))
        at = sample.text.find(sample.secret)
        yield from ((sample.text[:at], sample.secret[-1] * 8, end) for end in ("", "!"))


@pytest.mark.parametrize("rule", RULES, ids=[rule.id for rule in RULES])
def test_no_text_makes_a_rule_take_more_than_linear_time(rule: Rule) -> None:
    for beginning, piece, end in adversarial(rule):

        def seconds(length: int, parts: tuple[str, str, str] = (beginning, piece, end)) -> float:
            content = (parts[0] + parts[1] * (length // len(parts[1].encode())) + parts[2]).encode()
            before = time.thread_time()
            deque(rule.spans(content), maxlen=0)
            return time.thread_time() - before

        def is_linear(_: int) -> bool:
            return seconds(TIMES * SHORT // 2) < 3 * TIMES * seconds(SHORT // 2) + 0.02

        assert any(map(is_linear, range(5))), (beginning, piece, end)  # Python may collect garbage meanwhile


@pytest.mark.parametrize(
    "pattern",
    ["(a+)+b", "(a|aa)+b", "a(.*b)?", "a.{0,90}b", "(a?){30}a{30}", "([a-c]+a)+x", "a+$", "(?:(?:a|b)*c)*d"],
)
def test_no_rule_that_somebody_writes_takes_more_than_linear_time(pattern: str) -> None:
    """Backtracking would take more than the age of the universe for some of these."""
    rules = parse_rules(f"[[rules]]\nid = 'own'\naction = 'redact'\npattern = '{pattern}'", "r.toml")
    before = time.thread_time()
    for text in ("a" * LARGEST_TEXT, "ab" * (LARGEST_TEXT // 2), "a " * (LARGEST_TEXT // 2)):
        Redactor(rules).scan(text)
    assert time.thread_time() - before < 10


def test_a_text_with_too_many_secrets_is_refused() -> None:
    assert BUNDLED.scan("10.0.0.1 " * MOST_SECRETS).result is Result.REDACTED
    assert BUNDLED.scan("10.0.0.1 " * (MOST_SECRETS + 1)).blocked == ("too_many_secrets",)


@pytest.mark.parametrize("length", [99, WINDOW - 40, WINDOW - 9, WINDOW, 3 * WINDOW])
def test_a_secret_is_masked_whole_wherever_it_is_and_however_long(length: int) -> None:
    filling = "é\n" * (length // 3)
    for secret in ("ghp_" + "a1B2" * 9, "ghp_" + "a1B2" * WINDOW):
        assert BUNDLED.masked(f"{filling}{secret} end") == f"{filling}[REDACTED:github_token] end"


async def test_a_scan_in_a_thread_leaves_the_loop_free() -> None:
    """An expression in one call on the whole text would hold the interpreter for a second and more."""
    text = "password=" + "password" * (LARGEST_TEXT // 8 - 10) + "!"
    scanning = asyncio.create_task(asyncio.to_thread(BUNDLED.scan, text))
    longest = 0.0
    while not scanning.done():
        before = time.monotonic()
        await asyncio.sleep(0)
        longest = max(longest, time.monotonic() - before)
    assert longest < 0.5


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
        ("id = 'a'\naction = 'redact'\npattern = 'a(?=b)'", "r.toml:4: pattern is not a regular expression that RE2"),
        (
            "id = 'a'\naction = 'redact'\npattern = 'x.{0,900}y'",
            "r.toml:4: pattern is not a regular expression that RE2",
        ),
        ("id = 'a'\naction = 'redact'\npattern = 'x*'", "r.toml:4: pattern matches the empty string"),
        ("id = 'A-1'\naction = 'redact'\npattern = 'x'", "r.toml:2: a rule's id consists of lower-case letters"),
        ("id = 'a'\naction = 'redact'\npatern = 'x'", "r.toml:4: unknown key 'patern'; did you mean 'pattern'?"),
        (
            "id = 'a'\naction = 'redact'\npattern = 'x'\nneeds = ['X']",
            "r.toml:5: needs holds 'X'; write it in lower case",
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
