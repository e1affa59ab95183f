"""Signed webhooks, after the Standard Webhooks specification (https://www.standardwebhooks.com).

    webhook-id         the key of the notice: the same for every try
    webhook-timestamp  when this try was made, in seconds since 1970
    webhook-signature  v1,base64(HMAC-SHA256(secret, "{id}.{timestamp}.{body}"))

The address is the administrator's own, so it may be in a private network. No redirect is followed: nobody else chooses
where a notice goes.
"""

import asyncio
import base64
import binascii
import hmac
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import httpx
import orjson

from orchestrator import __version__
from orchestrator.formats.address import host_of
from orchestrator.formats.codec import stamp
from orchestrator.integrations.notices.channel import NotDelivered, Variables, masked
from orchestrator.integrations.notices.entries import Entry
from orchestrator.integrations.refusals import wanted_pause
from orchestrator.integrations.tls import tls_context
from orchestrator.redaction.display import escape_text

LARGEST_BODY = 256 * 1024
NEVER_TAKEN = frozenset({400, 409, 410, 413, 422})
"""Statuses after which the same document is not sent again."""
CONNECT, REQUEST = 3.0, 15.0
SECRET_PREFIX = "whsec_"  # noqa: S105 - how the specification marks a secret


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookChannel:
    """Posts notices to `url`, in which each ${NAME} is a variable; `secret_env` is the variable with the secret."""

    url: str
    secret_env: str
    variables: Callable[[], Variables]
    clock: Callable[[], datetime]

    async def send(self, entry: Entry) -> str:
        """Post the notice as JSON. Raises NotDelivered."""
        variables = await asyncio.to_thread(self.variables)
        url, hidden = variables.filled(self.url)
        secret = variables.get(self.secret_env)
        body = orjson.dumps({"type": entry.kind, "timestamp": stamp(entry.at), "data": entry.document})
        if len(body) > LARGEST_BODY:
            raise NotDelivered(f"it has {len(body)} bytes; at most {LARGEST_BODY} are sent", again=False)
        sent_at = int(self.clock().timestamp())
        headers = {
            "Content-Type": "application/json",
            "webhook-id": entry.key,
            "webhook-timestamp": str(sent_at),
            "webhook-signature": signature(secret, entry.key, sent_at, body),
            "Idempotency-Key": entry.key,
            "User-Agent": f"orchestrator/{__version__}",
            "Accept-Encoding": "identity",
        }
        try:
            response = await _post(url, headers, body)
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError, TimeoutError) as error:
            said = masked(f"{type(error).__name__}: {escape_text(str(error))}", (*hidden, secret))
            raise NotDelivered(f"{_name(url)} cannot be reached ({said})") from None
        if response.is_success:
            return ""
        if response.is_redirect:
            raise NotDelivered(f"{_name(url)} answered {response.status_code}: a redirect is not followed")
        again, wait = response.status_code not in NEVER_TAKEN, wanted_pause(response)
        raise NotDelivered(f"{_name(url)} answered {response.status_code}", again=again, wait=wait or 0.0)


def signature(secret: str, key: str, sent_at: int, body: bytes) -> str:
    """Return the signature of a document; a secret that begins with whsec_ is Base64 after it. Raises NotDelivered."""
    try:
        encoded = secret.removeprefix(SECRET_PREFIX)
        raw = base64.b64decode(encoded, validate=True) if encoded != secret else secret.encode()
    except binascii.Error:
        raise NotDelivered("the secret begins with whsec_ but is not Base64 after that; copy it again") from None
    digest = hmac.digest(raw, f"{key}.{sent_at}.".encode() + body, "sha256")
    return f"v1,{base64.b64encode(digest).decode()}"


async def _post(url: str, headers: dict[str, str], body: bytes) -> httpx.Response:
    """Return the answer, whose body is not read."""
    timeout, trust = httpx.Timeout(REQUEST, connect=CONNECT), await asyncio.to_thread(tls_context)
    async with (
        asyncio.timeout(REQUEST),
        httpx.AsyncClient(timeout=timeout, follow_redirects=False, verify=trust) as client,
        client.stream("POST", url, headers=headers, content=body) as response,
    ):
        return response


def _name(url: str) -> str:
    """Return the host of an address, whose path may be a secret."""
    try:
        return host_of(url)
    except ValueError:
        return "the address"
