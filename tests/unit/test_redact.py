"""Redaction: the bundled rules, overlaps, and texts made to hurt."""

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.redact import LARGEST_TEXT, Redactor, Result, Scan, parse_rules
from orchestrator.core.table import DefinitionError

RULES = parse_rules(Path("config/redaction.toml").read_text(encoding="utf-8"), "redaction.toml")
BUNDLED = Redactor(RULES)

MADE_UP = [
    ("private_key_pem", "-----BEGIN " + "OPENSSH PRIVATE KEY-----"),
    ("private_key_pem", "-----BEGIN " + "PRIVATE KEY-----"),
    ("gcp_service_account", '{"type": "service_' + 'account"}'),
    ("aws_access_key", "AK" + "IA" + "ABCDEFGHIJKLMNOP"),
    ("aws_secret_key", "AWS_SECRET_" + "ACCESS_KEY=" + "aB3/" * 10),
    ("openai_api_key", "s" + "k-" + "a1B2" * 6),
    ("openai_api_key", "s" + "k-proj-" + "a1B2" * 6),
    ("anthropic_api_key", "s" + "k-ant-" + "api03-a1B2" * 3),
    ("db_connection_string", "postgres://me:hidden" + "@db.example:5432/app"),
    ("db_connection_string", "mongodb+srv://me:hid@den" + "@db.example/app"),
    ("jwt_token", "ey" + "JhbGciOiJIUzI1NiJ9.ey" + "JzdWIiOiIxMjM0NTY3In0.c2lnbmF0dXJl"),
    ("bearer_token", "Authorization: Bear" + "er abcdef123456"),
    ("webhook_secret", "webhook_secret = " + "0123456789ab"),
    ("webhook_secret", "X-Hub-Signature-256: " + "sha256=0123456789ab"),
    ("password_assignment", '"password": "' + "hunter2hunter2"),
    ("ip_address_internal", "10.1.2.3"),
    ("ip_address_internal", "172.31.0.1"),
    ("ip_address_internal", "192.168.178.1"),
    ("github_token", "gh" + "p_" + "a1B2" * 9),
    ("github_token", "github_" + "pat_" + "a1B2" * 9),
    ("gitlab_token", "gl" + "pat-" + "a1B2" * 5),
    ("slack_token", "xo" + "xb-" + "123456789012-abcdef"),
    ("slack_webhook", "https://hooks.slack" + ".com/services/T00000000/B00000000/abcdefgh"),
    ("google_api_key", "AI" + "za" + "a1B2c" * 7),
    ("npm_token", "npm" + "_" + "a1B2" * 9),
    ("pypi_token", "pypi-" + "AgE" + "a1B2" * 20),
]

HARMLESS = [
    "Fix the login page",
    "8.8.8.8 and 172.32.0.1 and 1.10.0.0.1 and version 10.2.3",
    "the password is asked for twice",
    "sk-short and task-force-of-the-united-nations",
    "d41d8cd98f00b204e9800998ecf8427e",
    "-----BEGIN CERTIFICATE-----",
]


@pytest.mark.parametrize(("rule", "secret"), MADE_UP)
def test_every_kind_of_secret_is_kept_back(rule: str, secret: str) -> None:
    scan = BUNDLED.scan(f"before {secret} after")
    assert rule in scan.redacted + scan.blocked
    assert secret not in scan.text
    if scan.result is Result.REDACTED:
        assert scan.text.startswith("before ")
        assert f"[REDACTED:{rule}]" in scan.text


def test_every_bundled_rule_has_its_example() -> None:
    warned = {"email_address", "high_entropy_string"}
    assert {rule.id for rule in RULES} == {rule for rule, _ in MADE_UP} | warned


@pytest.mark.parametrize("text", HARMLESS)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert BUNDLED.scan(text) == Scan(result=Result.CLEAN, text=text)


@pytest.mark.parametrize(
    ("rule", "text"), [("email_address", "ask me@example.org"), ("high_entropy_string", "x aB3dE6gH9jK2mN5pQ8rS1tU4 x")]
)
def test_what_may_be_harmless_is_only_warned_of(rule: str, text: str) -> None:
    assert BUNDLED.scan(text) == Scan(result=Result.CLEAN, text=text, warnings=(f"warn:{rule}",))


def test_a_blocked_text_is_empty_whatever_else_is_in_it() -> None:
    scan = BUNDLED.scan("10.0.0.1\n-----BEGIN " + "RSA PRIVATE KEY-----\nme@example.org")
    assert scan == Scan(result=Result.BLOCKED, text="", blocked=("private_key_pem",))


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
    ],
)
def test_overlapping_matches_become_one_mask_named_by_the_longest_then_the_earliest(
    patterns: tuple[str, ...], masked: str
) -> None:
    assert redactor(*patterns).scan("-abcdef-").text == masked


def test_a_text_over_one_mebibyte_is_refused_unread() -> None:
    assert BUNDLED.scan("a" * LARGEST_TEXT).result is Result.CLEAN
    too_large = Scan(result=Result.BLOCKED, text="", blocked=("payload_too_large",))
    assert BUNDLED.scan("a" * (LARGEST_TEXT + 1)) == too_large
    assert BUNDLED.scan("ä" * (LARGEST_TEXT // 2 + 1)) == too_large


HOSTILE = [
    "a",
    "eyJ-",
    "-eyJa",
    "eyJaaaaaaaaaa.eyJ",
    "sk-",
    "password ",
    "a@",
    "a@a.",
    "mysql://a:",
    '"type" ',
    "1.",
    "\n",
]


@pytest.mark.parametrize("piece", HOSTILE)
def test_a_mebibyte_made_to_hurt_is_scanned_in_two_seconds(piece: str) -> None:
    text = (piece * (LARGEST_TEXT // len(piece) + 1))[:LARGEST_TEXT]
    before = time.process_time()
    BUNDLED.scan(text)
    assert time.process_time() - before < 2.0


@given(st.lists(st.sampled_from([secret for _, secret in MADE_UP] + HARMLESS + [" ", "\n", "é", "\ud800"])))
def test_what_was_scanned_once_is_clean_the_second_time(pieces: list[str]) -> None:
    once = BUNDLED.scan(" ".join(pieces))
    again = BUNDLED.scan(once.text)
    assert again.text == once.text
    assert again.result is Result.CLEAN


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id = 'a'\naction = 'mask'\npattern = 'x'", "r.toml:3: unknown action 'mask'; known: block, redact, warn"),
        ("id = 'a'\naction = 'redact'\npattern = '('", "r.toml:4: pattern is no regular expression"),
        ("id = 'a'\naction = 'redact'\npattern = 'x*'", "r.toml:4: pattern matches the empty text"),
        ("id = 'A-1'\naction = 'redact'\npattern = 'x'", "r.toml:2: a rule is called in small letters"),
        ("id = 'a'\naction = 'redact'\npatern = 'x'", "r.toml:4: unknown key 'patern'; did you mean 'pattern'?"),
        ("id = 'a'\naction = 'redact'\npattern = 'x'\nmin_entropy = -1", "r.toml:5: min_entropy = -1 must be a number"),
        (
            "id = 'a'\naction = 'warn'\npattern = 'x'\n[[rules]]\nid = 'a'\naction = 'warn'\npattern = 'y'",
            "r.toml:6: there",
        ),
    ],
)
def test_a_rule_that_is_wrong_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        parse_rules("[[rules]]\n" + text, "r.toml")
    assert any(str(problem).startswith(message) for problem in caught.value.problems), caught.value
