"""Where callbacks go: to the addresses in the settings, or to those that a repository's CLAUDE.md names.

A repository may be anybody's. So its addresses count only where the settings name none and list their host; the token
of the settings is never sent to them. A line with only its key means that there is none.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from urllib.parse import urlsplit

from orchestrator.core.events.callback import CallbackKind

INSTRUCTIONS = "CLAUDE.md"
TOKEN = "CALLBACK_TOKEN"  # noqa: S105 - the name of a variable
LONGEST_URL = 2000
MOST_CHARS = 256 * 1024
"""Of a repository's instructions that are looked at."""
_KEYS = {CallbackKind.TASK: "TaskCallback", CallbackKind.PROGRESS: "ProgressCallback"}
_TOKEN_KEY = "CallbackToken"  # noqa: S105 - the name of a line
_SENDABLE = re.compile(r"[!-~]{1,4096}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """An address, and the token that is sent to it, if any."""

    url: str
    token: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Destinations:
    """What the settings say: addresses by kind, their token, and hosts that a repository may name (`host[:port]`)."""

    urls: Mapping[CallbackKind, str] = field(default_factory=dict)
    token: str = field(default="", repr=False)
    hosts: frozenset[str] = frozenset()

    def of(self, kind: CallbackKind, instructions: str) -> Destination | None:
        """Return where callbacks of a kind go, with the instructions of the task's repository; None if nowhere.

        Raises ValueError, with the reason, for an address that nothing is sent to.
        """
        if own := self.urls.get(kind):
            return _checked(Destination(url=own, token=self.token))
        url = _value(instructions, _KEYS[kind])
        if not url:
            return None
        host = _host(url)
        if host not in self.hosts:
            raise ValueError(f"{INSTRUCTIONS} names {host}, which `hosts` in [callbacks] does not list")
        return _checked(Destination(url=url, token=_value(instructions, _TOKEN_KEY)))


def problem_of(url: str) -> str:
    """Return why an address cannot be called; empty if it can."""
    try:
        _host(url)
    except ValueError as error:
        return str(error)
    return ""


def _value(instructions: str, key: str) -> str:
    """Return what the first line that begins with a key says; empty if there is none or it says nothing."""
    lines = instructions[:MOST_CHARS].split("\n")
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(f"{key}:")), "")


def _host(url: str) -> str:
    """Return host and port of an address, the port only if it is not the usual one. Raises ValueError."""
    try:
        parts = urlsplit(url)
        port, host = parts.port, parts.hostname
    except ValueError:
        host, port = None, None
    if len(url) > LONGEST_URL or not url.isascii() or not url.isprintable() or " " in url or not host:
        raise ValueError(f"{url!r:.200} is not an address; write https://host/path")
    if parts.scheme not in {"http", "https"} or "@" in parts.netloc:
        raise ValueError(f"{parts.scheme}://{host} cannot be called; write https://host/path, without a user")
    name = f"[{host}]" if ":" in host else host
    return name if port is None or port == {"http": 80, "https": 443}[parts.scheme] else f"{name}:{port}"


def _checked(destination: Destination) -> Destination:
    """Return the destination if it may be called with its token. Raises ValueError."""
    host, parts = _host(destination.url), urlsplit(destination.url)
    if destination.token and not _SENDABLE.fullmatch(destination.token):
        raise ValueError(f"the token for {host} cannot be one: a token is one word of printable characters")
    if destination.token and parts.scheme == "http" and not _is_loopback(parts.hostname or ""):
        raise ValueError(f"a token for {host} must not go over plain http; write https://")
    return destination


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
