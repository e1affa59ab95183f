"""The account server and the API behind a proxy on loopback, for a real CLI that is logged in with a subscription.

The CLI renews its login at a fixed https address. So it is given this proxy, which answers for every host with a
certificate of its own, renews logins itself, and hands all other requests on to the scripted Messages API.
"""

import datetime as dt
import json
import ssl
import threading
from contextlib import suppress
from pathlib import Path
from socket import create_connection
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from orchestrator.formats.codec import JsonObject
from tests.fakes.loopback_server import Handler, LoopbackServer

HOSTS = ("platform.claude.com", "api.anthropic.com")
CHUNK = 65_536
EXPIRED = 1_700_000_000_000
"""Milliseconds since 1970, long ago."""


class AccountServer(LoopbackServer):
    """`renewals` counts the logins it renewed, each refresh token once."""

    def __init__(self, folder: Path, api: str) -> None:
        super().__init__(_Proxy)
        self.api = urlsplit(api)
        self.tokens: list[str] = []  # with which the API was asked
        self.valid, self.renewals = "refresh-0", 0
        self.lock = threading.Lock()
        self._certificate, self._key = folder / "account.pem", folder / "account.key"
        _make_certificate(self._certificate, self._key)
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.load_cert_chain(self._certificate, self._key)

    @property
    def env(self) -> dict[str, str]:
        """The environment in which the CLI asks this server."""
        return {
            "HTTPS_PROXY": self.url,
            "NODE_EXTRA_CA_CERTS": str(self._certificate),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        }

    @property
    def expired_login(self) -> JsonObject:
        """What the CLI has in its file when the login that is valid must be renewed."""
        return {
            "claudeAiOauth": {
                "accessToken": "access-0",
                "refreshToken": self.valid,
                "expiresAt": EXPIRED,
                "scopes": ["user:inference", "user:profile"],
                "subscriptionType": "max",
            }
        }

    def renew(self, refresh: object) -> JsonObject | None:
        """Return a new login for a refresh token that was not used before, which ends its life; None otherwise."""
        with self.lock:
            if refresh != self.valid:
                return None
            self.renewals += 1
            self.valid = f"refresh-{self.renewals}"
            return {
                "access_token": f"access-{self.renewals}",
                "refresh_token": self.valid,
                "expires_in": 28_800,
                "token_type": "Bearer",
                "scope": "user:inference user:profile",
            }


class _Proxy(Handler[AccountServer]):
    def do_CONNECT(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.flush()
        self.close_connection = True
        with (
            suppress(OSError),  # the CLI may leave at any time
            self.stand_in.tls.wrap_socket(self.connection, server_side=True) as inner,
        ):
            _Service(self.stand_in, inner, self.client_address, self.server)


class _Service(Handler[AccountServer]):
    def do_GET(self) -> None:
        self._relay(b"")

    def do_HEAD(self) -> None:
        self._relay(b"")

    def do_POST(self) -> None:
        body = self.read()
        if self.path.startswith("/v1/oauth/token"):
            renewed = self.stand_in.renew(json.loads(body).get("refresh_token"))
            answer = json.dumps(renewed or {"error": "invalid_grant"}).encode()
            self.send(200 if renewed else 400, answer, {"Content-Type": "application/json"})
            return
        if self.path.startswith("/v1/messages"):
            self.stand_in.tokens.append(self.headers.get("Authorization", "").removeprefix("Bearer "))
        self._relay(body)

    def _relay(self, body: bytes) -> None:
        lines = "".join(f"{key}: {value}\r\n" for key, value in self.headers.items() if key.lower() != "connection")
        head = f"{self.command} {self.path} HTTP/1.1\r\n{lines}Connection: close\r\n\r\n"
        with create_connection((self.stand_in.api.hostname or "", self.stand_in.api.port or 0)) as upstream:
            upstream.sendall(head.encode() + body)
            while piece := upstream.recv(CHUNK):
                self.wfile.write(piece)
        self.close_connection = True


def _make_certificate(certificate: Path, key: Path) -> None:
    private = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "account server")])
    now, day = dt.datetime.now(dt.UTC), dt.timedelta(days=1)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - day)
        .not_valid_after(now + day)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host) for host in HOSTS]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(private, hashes.SHA256())
    )
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    no_password = serialization.NoEncryption()
    key.write_bytes(private.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, no_password))
