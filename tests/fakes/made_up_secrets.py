"""Made-up secrets in the formats of real ones, in typical places; and ordinary lines that must not be taken for any."""

import base64
import hashlib
import json
import string
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

ROOT = Path(__file__).resolve().parents[2]
ALNUM = string.ascii_letters + string.digits
URL_SAFE = ALNUM + "-_"
BASE64 = ALNUM + "+/"
HEX = "0123456789abcdef"
UPPER = string.ascii_uppercase + string.digits

Draw = Callable[[Random], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A text with one secret in it that the rule named `rule` must find."""

    rule: str
    secret: str
    text: str


def some(alphabet: str, length: int) -> Draw:
    """Return this many characters, with at least one digit and one letter."""

    def draw(random: Random) -> str:
        letters = random.choices(alphabet, k=length)
        letters[length // 2] = random.choice([letter for letter in alphabet if letter.isdigit()])
        return "".join(letters)

    return draw


def after(prefix: str, alphabet: str, length: int) -> Draw:
    """Return a fixed prefix and this many characters."""
    return lambda random: prefix + some(alphabet, length)(random)


def either(*draws: Draw) -> Draw:
    """Return one of several formats."""
    return lambda random: random.choice(draws)(random)


def joined(*parts: Draw | str) -> Draw:
    """Return the parts one after the other."""
    return lambda random: "".join(part if isinstance(part, str) else part(random) for part in parts)


def jwt(random: Random) -> str:
    """Return a signed token."""
    parts = [{"alg": "HS256", "typ": "JWT"}, {"sub": some(ALNUM, 12)(random), "iat": random.randrange(10**9)}]
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join([*encoded, some(URL_SAFE, 43)(random)])


def pem(*kinds: str) -> Draw:
    """Return the first lines of a private key."""
    return lambda random: f"-----BEGIN {random.choice(kinds)}PRIVATE KEY-----\n{some(BASE64, 64)(random)}"


def within(random: Random) -> str:
    """Return a private IPv4 address."""
    return random.choice(["10.{}.{}.{}", "172.16.{1}.{2}", "172.31.{0}.{2}", "192.168.{}.{}"]).format(
        *(random.randrange(256) for _ in range(3))
    )


def within_v6(random: Random) -> str:
    """Return a unique local or link-local address."""
    groups = [f"{random.randrange(1, 65536):x}" for _ in range(7)]
    head = random.choice(["fd12", "FD00", "fc00", "fe80", "febf"])
    return random.choice([":".join([head, *groups]), f"{head}::{groups[0]}", f"{head}:{groups[0]}::{groups[1]}:1"])


PASSWORD = some(ALNUM + "!#%&*+?", 14)

ALONE: dict[str, Draw] = {
    "private_key_pem": pem("", "RSA ", "EC ", "OPENSSH ", "DSA ", "ENCRYPTED "),
    "private_key_body": either(
        joined("MIIEvQ", "IBADANBgkqhkiG9w0BAQEFAASC", some(BASE64, 64)),
        joined("b3BlbnNzaC1rZXktdjEA", some(BASE64, 50)),
        joined("MC4CAQAwBQYDK2VwBCIEI", some(BASE64, 43)),
    ),
    "private_key_file": either(joined("AGE-SECRET-KEY-", "1", some(UPPER, 58)), lambda _: "PuTTY-User-Key-File-3: x"),
    "aws_access_key": either(after("AK" + "IA", UPPER, 16), after("AS" + "IA", UPPER, 16)),
    "azure_storage_key": joined("AccountKey=", some(BASE64, 86), "=="),
    "azure_client_secret": joined("aB3", "8Q~", some(ALNUM, 34)),
    "google_api_key": after("AI" + "za", URL_SAFE, 35),
    "google_oauth": either(after("GOC" + "SPX-", URL_SAFE, 28), after("ya" + "29.", URL_SAFE, 60)),
    "digitalocean_token": after("dop" + "_v1_", HEX, 64),
    "openai_api_key": either(after("s" + "k-", ALNUM, 48), after("s" + "k-proj-", URL_SAFE, 120)),
    "anthropic_api_key": after("s" + "k-ant-api03-", URL_SAFE, 95),
    "huggingface_token": after("h" + "f_", ALNUM, 34),
    "github_token": either(
        *(after(f"gh{kind}_", ALNUM, 36) for kind in "pousr"),
        joined("github_" + "pat_", some(ALNUM, 22), "_", some(ALNUM, 59)),
    ),
    "orchestrator_token": after("or" + "ch_", URL_SAFE, 43),
    "gitlab_token": either(after("gl" + "pat-", URL_SAFE, 20), after("gl" + "rt-", URL_SAFE, 20)),
    "atlassian_token": after("ATA" + "TT3", URL_SAFE, 186),
    "npm_token": after("npm" + "_", ALNUM, 36),
    "pypi_token": after("pypi-" + "AgEIcHlwaS5vcmc", URL_SAFE, 140),
    "docker_token": after("dckr" + "_pat_", URL_SAFE, 27),
    "artifactory_token": after("AK" + "Cp", ALNUM, 69),
    "vault_token": after("hv" + "s.", URL_SAFE, 90),
    "slack_token": either(after("xo" + "xb-123456789012-", ALNUM, 24), after("xa" + "pp-1-", ALNUM, 40)),
    "slack_webhook": after("https://hooks.slack" + ".com/services/T0AB12CD3/B0AB12CD3/", ALNUM, 24),
    "discord_webhook": after("https://discord" + ".com/api/webhooks/123456789012345678/", URL_SAFE, 68),
    "discord_token": joined("M", some(ALNUM, 25), ".", some(URL_SAFE, 6), ".", some(URL_SAFE, 38)),
    "telegram_token": after("1234567890" + ":AA", URL_SAFE, 33),
    "sendgrid_key": joined("S" + "G.", some(URL_SAFE, 22), ".", some(URL_SAFE, 43)),
    "mailchimp_key": joined(some(HEX, 32), "-us21"),
    "twilio_key": after("S" + "K", HEX, 32),
    "stripe_key": either(after("sk" + "_live_", ALNUM, 24), after("wh" + "sec_", BASE64, 32)),
    "square_token": after("sq0" + "csp-", URL_SAFE, 43),
    "db_connection_string": joined("postgres", "://app:", some(ALNUM, 16), "@db.example:5432/app"),
    "jwt_token": jwt,
    "ip_address_internal": within,
    "ipv6_address_internal": within_v6,
    "email_address": joined(some(ALNUM, 8), "@example.org"),
    "high_entropy_string": lambda random: "".join(random.sample(ALNUM, 40)),
}
"""Secrets that are recognised anywhere."""

AROUND = [
    "see {} for more",
    "TOKEN={}",
    'export TOKEN="{}"',
    'token = "{}"  # to be taken away',
    '{{"value": "{}", "next": 1}}',
    '"{{\\"value\\": \\"{}\\"}}"',
    "+  value: {}",
    "`{}`",
    "[2026-11-21 10:00:00] connecting with {}, attempt 2",
    "<td>{}</td>",
    "한국어 설명 {} 입니다",
    "curl -u {} https://example.org/api",
]
"""Places in which a secret may appear."""

IN_PLACE: dict[str, tuple[Draw, list[str]]] = {
    "gcp_service_account": (
        lambda _: "service_" + "account",
        ['{{"type": "{}", "project_id": "x"}}', '"{{\\"type\\":\\"{}\\"}}"'],
    ),
    "aws_secret_key": (
        some(BASE64, 40),
        ["AWS_SECRET_ACCESS_KEY={}", 'aws_secret_access_key = "{}"', '"SecretAccessKey": "{}"'],
    ),
    "bearer_token": (
        some(ALNUM, 24),
        ["Authorization: Bearer {}", 'curl -H "authorization: bearer {}"', '"Authorization": "Basic {}"'],
    ),
    "webhook_secret": (
        some(ALNUM, 24),
        ["WEBHOOK_SECRET={}", 'webhook-secret: "{}"', "X-Hub-Signature-256: sha256={}"],
    ),
    "url_password": (
        some(ALNUM, 16),
        ["amqp://app:{}@queue.example:5672/", "git clone https://me:{}@example.org/a.git", "redis://:{}@cache:6379/0"],
    ),
    "password_assignment": (
        PASSWORD,
        [
            "DB_PASSWORD={}",
            'password: str = "{}"',
            '"passwd": "{}",',
            "pwd={}",
            '\\"password\\": \\"{}\\"',
            "SMTP_PASS='{}'",
            "비밀번호: {}",
        ],
    ),
    "password_option": (PASSWORD, ["mysqldump --password {}", "machine example.org login me password {}"]),
    "secret_assignment": (
        either(some(ALNUM, 32), some(HEX, 32)),
        [
            "API_KEY={}",
            'client_secret: "{}"',
            '"access_token": "{}"',
            "auth_key => '{}'",
            'secret_key = "{}"',
            "ibm-key: {}",
        ],
    ),
}
"""Secrets that are recognised by the text beside them, and that text."""

EACH = 7


def samples() -> Iterator[Sample]:
    """Return the same samples every time, this many of each kind."""
    random = Random(20261121)
    for rule, draw in ALONE.items():
        for place in random.sample(AROUND, EACH):
            secret = draw(random)
            yield Sample(rule=rule, secret=secret, text=f"first line\n{place.format(secret)}\nlast line")
    for rule, (draw, places) in IN_PLACE.items():
        for number in range(EACH):
            secret = draw(random)
            yield Sample(rule=rule, secret=secret, text=f"first\n{places[number % len(places)].format(secret)}\nlast")


def ordinary_lines() -> list[str]:
    """Text of repositories, tickets and logs that contains no secret."""
    ours = [*ROOT.glob("orchestrator/**/*.py"), *ROOT.glob("agents/*.md"), ROOT / "README.md", ROOT / "pyproject.toml"]
    texts = [path.read_text(encoding="utf-8") for path in sorted(ours)]
    return [line for text in texts for line in text.splitlines() if line.strip()] + list(_generated()) + SPEAKING_OF_IT


def _generated() -> Iterator[str]:
    random = Random(1)
    for number in range(100):
        noise = random.randbytes(64)
        sha1, sha256 = hashlib.sha1(noise, usedforsecurity=False).hexdigest(), hashlib.sha256(noise).hexdigest()
        sri = base64.b64encode(noise).decode()
        yield f"commit {sha1}"
        yield f"index {sha1[:7]}..{sha1[7:14]} 100644"
        yield f"{sha1[:10]} Merge pull request #{number} from someone/topic-{number}"
        yield f'      "integrity": "sha512-{sri}",'
        yield f'      "resolved": "https://registry.npmjs.org/@scope/name/-/name-1.2.{number}.tgz#{sha1}",'
        yield f'checksum = "{sha256}"'
        yield f'    {{file = "name-1.2.{number}-py3-none-any.whl", hash = "sha256:{sha256}"}},'
        yield f"    --hash=sha256:{sha256} \\"
        yield f"golang.org/x/net v0.{number}.0 h1:{base64.b64encode(noise[:32]).decode()}"
        yield f"FROM docker.io/library/python:3.12@sha256:{sha256}"
        yield f"run {uuid.UUID(bytes=noise[:16], version=4)} ended"
        yield f"![logo](data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAA{sri}{sri})"
        yield base64.b64encode(random.randbytes(57)).decode()
        yield f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{base64.b64encode(noise[:32]).decode()} someone"
        yield f"SHA256:{base64.b64encode(noise[:32]).decode().rstrip('=')} someone (ED25519)"
        yield ":".join(f"{byte:02x}" for byte in noise[:16])
        yield f"2001:db8:{number:x}::1 and 8.8.{number}.8 and ::1 and 127.0.0.1 answered in {number}.{number} ms"
        yield f"2026-11-21T10:{number % 60:02}:00.{number:03}Z worker-{number} took 10.{number} s, 2.10.{number}"
        yield f"https://example.org:8443/path/@user/file?x={number}&page=2#L{number}"
        yield f"git@github.com:someone/repository-{number}.git"


SPEAKING_OF_IT = [
    "The password is asked for twice, and a wrong password: nothing more is said.",
    "password: string;",
    "def unlock(self, password: bytes):",
    "def ask(prompt: str, *, password: bool = False, again: bool = True):",
    "password: Optional[str] = None",
    'password = os.environ["DB_PASSWORD"]',
    "password = getpass.getpass()",
    "password=password, username=username",
    "passwd = settings.passwd",
    "password: ${DB_PASSWORD}",
    "password: {{ vault.password }}",
    'PASSWORD="$1"',
    "DB_PASSWORD=<your password>",
    "PWD=/home/someone/project",
    "pwd = Path.cwd()",
    "if password == expected_password:",
    "password=[REDACTED:password_assignment]",
    "mysql --password $PASSWORD",
    'parser.add_argument("--password", help="asked for where it is missing")',
    "token = next(tokens)",
    "token: AccessTokenProviderFactory",
    "token = response.json()['access_token']",
    "api_key=settings.openai_api_key_from_environment",
    "secret: {secretKeyRef: {name: database, key: password}}",
    "secretName: production-database-credentials",
    "client_secret = config.get_required_setting('client_secret')",
    "ACCESS_TOKEN_EXPIRE_MINUTES = 60",
    "token_uri: https://oauth2.googleapis.com/token",
    "GITHUB_TOKEN: ${{ secrets.GITHUB_TOKEN }}",
    "Authorization: Bearer $TOKEN",
    "Authorization: Bearer <token>",
    "authorization: basic access is enough",
    "X-Hub-Signature is compared in constant time",
    "webhook_secret = settings.webhook_secret",
    "class sk-toggleable__label-arrow and sk-estimator-doc-link-label",
    "task-force-of-the-united-nations risk-assessment-2024-for-the-board",
    "http://localhost:8080/@vite/client",
    "https://user:***@example.org/",
    "postgres://localhost:5432/test",
    "npm_config_registry=https://registry.npmjs.org",
    "npm_lifecycle_event is set by npm",
    "-----BEGIN CERTIFICATE-----",
    "-----BEGIN PUBLIC KEY-----",
    "the ghp_ prefix, the glpat- prefix and the xoxb- prefix",
    "std::fd::OwnedFd and feed::Item and face::detect",
    "python 3.10.1.2, dotnet 10.0.19041.1, chrome 10.300.2.1",
    'eyebrow.eyJack.eyelid and "eyJ" begins a JSON Web Token',
    "primaryKey: id, foreignKey: account_id, sortKey: created_at_2024_01_01_descending",
    "aws_access_key_id is read from the profile; AKIA begins such an id",
    "data-testid=authentication-form-submit-button-2",
    "auth: authentication_middleware_version_2_factory,",
    "token=0000000000000000000000000000",
]
"""Lines about secrets that contain none."""
