"""Whether a webhook comes from who knows its secret, as each tracker proves that.

* GitHub: `X-Hub-Signature-256`, an HMAC of the body
  (https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries).
* GitLab: with a signing token (`whsec_…`) `webhook-signature`, an HMAC of id, time and body as in Standard Webhooks
  (https://www.standardwebhooks.com); with a secret token `X-Gitlab-Token`, the secret itself
  (https://docs.gitlab.com/user/project/integrations/webhooks/).
* Jira: `X-Hub-Signature`, an HMAC of the body
  (https://developer.atlassian.com/cloud/jira/platform/webhooks/#secure-admin-webhooks).

An HMAC of the body alone does not cover the id of the delivery, so that the body itself identifies it too.
"""

import binascii
import hashlib
import hmac
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import assert_never

from orchestrator.settings.sections.intake import TrackerKind

SIGNING = "whsec_"
"""How GitLab's signing tokens begin."""
OLDEST = 300.0
"""Seconds by which the time in a signed webhook may differ from ours."""
MOST_SIGNATURES = 10
DELIVERY: Mapping[TrackerKind, tuple[str, ...]] = {
    "github": ("x-github-delivery",),
    "gitlab": ("webhook-id", "idempotency-key", "x-gitlab-event-uuid"),
    "jira": ("x-atlassian-webhook-identifier",),
}
"""The headers that name a delivery, the best one first."""


def is_signed(kind: TrackerKind, secret: str, headers: Mapping[str, str], body: bytes, now: float) -> bool:
    """Return whether a webhook was made with the secret; `now` is in seconds since 1970, header names in lower case.

    Without a secret nothing is.
    """
    if not secret:
        return False
    match kind:
        case "github":
            return _has_digest(headers.get("x-hub-signature-256", ""), secret, body)
        case "jira":
            return _has_digest(headers.get("x-hub-signature", ""), secret, body)
        case "gitlab" if secret.startswith(SIGNING):
            return _has_standard_signature(headers, secret, body, now)
        case "gitlab":
            return _same(headers.get("x-gitlab-token", ""), secret)
        case _:
            assert_never(kind)


def delivery_ids(kind: TrackerKind, headers: Mapping[str, str], body: bytes) -> tuple[str, ...]:
    """Return what a delivery is recognised by: a digest of its body, and one of its name if it has one."""
    named = next((headers[name] for name in DELIVERY[kind] if headers.get(name)), "")
    found = [hashlib.sha256(b"body " + body).hexdigest()]
    if named:
        found.append(hashlib.sha256(b"name " + named.encode()).hexdigest())
    return tuple(found)


def is_about_tickets(kind: TrackerKind, headers: Mapping[str, str]) -> bool:
    """Return whether an event may change what a query finds, as far as its headers say."""
    match kind:
        case "github":
            return headers.get("x-github-event", "issues") in {"issues", "issue_comment", "label"}
        case "gitlab":
            return "issue" in headers.get("x-gitlab-event", "issue").lower()
        case "jira":
            return True
        case _:
            assert_never(kind)


def _has_digest(given: str, secret: str, body: bytes) -> bool:
    expected = hmac.new(secret.encode(), body, "sha256").hexdigest()
    return _same(given, f"sha256={expected}")


def _has_standard_signature(headers: Mapping[str, str], secret: str, body: bytes, now: float) -> bool:
    name, at = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not (name and at.isascii() and at.isdecimal() and len(at) <= 12 and abs(now - int(at)) <= OLDEST):
        return False
    try:
        key = b64decode(secret.removeprefix(SIGNING), validate=True)
    except binascii.Error:
        return False
    signed = b".".join((name.encode(), at.encode(), body))
    expected = "v1," + b64encode(hmac.digest(key, signed, "sha256")).decode()
    given = headers.get("webhook-signature", "").split(" ")[:MOST_SIGNATURES]
    return any([_same(one, expected) for one in given])  # noqa: C419 - all of them, so that time tells nothing


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(), expected.encode())
