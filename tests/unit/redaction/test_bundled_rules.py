"""The bundled rules, applied to about three hundred made-up secrets and to ordinary lines."""

from collections import Counter
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from orchestrator.redaction.rules import Action, Redactor, Result, parse_rules
from tests.fakes.made_up_secrets import EACH, Sample, ordinary_lines, samples

RULES = parse_rules(Path("config/redaction.toml").read_text(encoding="utf-8"), "redaction.toml")
ACTIONS = {rule.id: rule.action for rule in RULES}
BUNDLED = Redactor(RULES)
SAMPLES = list(samples())

OF_THE_SOURCES = [
    *("private_key_pem", "gcp_service_account", "aws_access_key", "aws_secret_key", "openai_api_key"),
    *("anthropic_api_key", "db_connection_string", "jwt_token", "bearer_token", "webhook_secret"),
    *("password_assignment", "ip_address_internal", "email_address", "high_entropy_string"),
]


def caught(sample: Sample) -> bool:
    """Whether its own rule found the secret, and nothing of it is left unless the rule only warns."""
    scan = BUNDLED.scan(sample.text)
    own = {finding.rule: finding.action for finding in scan.findings}.get(sample.rule)
    return own is Action.WARN or (own is not None and sample.secret[-8:] not in scan.text)


def test_every_made_up_secret_of_every_kind_is_found() -> None:
    found = Counter(sample.rule for sample in SAMPLES if caught(sample))
    assert found == dict.fromkeys(ACTIONS, EACH)
    assert len(SAMPLES) >= 300


def test_ordinary_lines_are_unchanged() -> None:
    lines = ordinary_lines()
    alarms = [line for line in lines if BUNDLED.scan(line).result is not Result.CLEAN]
    assert len(lines) >= 3000
    assert len(alarms) <= 3, alarms


def test_every_required_kind_of_secret_has_its_action() -> None:
    assert set(OF_THE_SOURCES) <= ACTIONS.keys()
    assert {rule for rule, action in ACTIONS.items() if action is Action.BLOCK} == {
        "private_key_pem",
        "private_key_body",
        "private_key_file",
        "gcp_service_account",
    }
    assert {rule for rule, action in ACTIONS.items() if action is Action.WARN} == {
        "email_address",
        "high_entropy_string",
    }


@pytest.mark.parametrize(
    "header",
    [
        "-----BEGIN " + "PGP PRIVATE KEY BLOCK-----",
        "---- BEGIN " + "SSH2 ENCRYPTED PRIVATE KEY ----",
        "-----BEGIN\nRSA\n" + "PRIVATE KEY-----",
        "—\u2013BEGIN " + "PRIVATE KEY\u2013—",
        "key: -----BEGIN " + "PRIVATE KEY-----\\nMIIE\\n",
    ],
)
def test_the_header_of_a_private_key_blocks_however_it_is_broken(header: str) -> None:
    assert BUNDLED.scan(header).blocked == ("private_key_pem",)


@pytest.mark.parametrize(
    ("key", "form"),
    [
        (rsa.generate_private_key(65537, 2048), PrivateFormat.PKCS8),
        (ec.generate_private_key(ec.SECP256R1()), PrivateFormat.PKCS8),
        (ed25519.Ed25519PrivateKey.generate(), PrivateFormat.PKCS8),
        (ed25519.Ed25519PrivateKey.generate(), PrivateFormat.OpenSSH),
    ],
)
def test_a_private_key_without_its_header_blocks(key: PrivateKeyTypes, form: PrivateFormat) -> None:
    lines = key.private_bytes(Encoding.PEM, form, NoEncryption()).decode().splitlines()
    assert BUNDLED.scan("\n".join(lines)).blocked == ("private_key_pem", "private_key_body")
    assert BUNDLED.scan("".join(lines[1:-1])).blocked == ("private_key_body",)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ('"password": "correct horse battery", "next": 1', '"password": [REDACTED:password_assignment], "next": 1'),
        ("password: “correct horse”", "password: [REDACTED:password_assignment]"),
        ('password = b"hunter2hunter2"', "password = [REDACTED:password_assignment]"),
        ("password: hunter2!", "password: [REDACTED:password_assignment]"),
        ("https://me:hid@den@example.org/", "https://me:[REDACTED:url_password]@example.org/"),
        ("redis://:hidden@cache:6379", "redis://:[REDACTED:url_password]@cache:6379"),
        ("mongodb+srv://me:hid@den@db.example/app", "[REDACTED:db_connection_string]"),
        ("GITHUB_TOKEN=ghp_" + "a1B2" * 9, "GITHUB_TOKEN=[REDACTED:github_token]"),
        ("::ffff:10.1.2.3", "::ffff:[REDACTED:ip_address_internal]"),
    ],
)
def test_the_text_around_a_secret_stays(text: str, left: str) -> None:
    assert BUNDLED.masked(text) == left


@pytest.mark.parametrize(
    "text",
    ["172.15.0.1", "172.32.0.1", "10.256.0.1", "1.10.0.0.1", "2001:db8::1", "fe00::1", "ff02::1", "fd00", "face::b00c"],
)
def test_public_addresses_stay(text: str) -> None:
    assert BUNDLED.scan(text).result is Result.CLEAN
