"""Where callbacks go: to the addresses in the settings, or to those that a repository's CLAUDE.md names.

A repository may be anybody's. So its addresses count only where the settings name none and list their host; the token
of the settings is never sent to them. A line with only its key means that there is none.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from orchestrator.core.events.callback import CallbackKind
from orchestrator.formats.address import host_of, is_in_the_clear

INSTRUCTIONS = "CLAUDE.md"
TOKEN = "CALLBACK_TOKEN"  # noqa: S105 - the name of a variable
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
        host = host_of(url)
        if host not in self.hosts:
            raise ValueError(f"{INSTRUCTIONS} names {host}, which `hosts` in [callbacks] does not list")
        return _checked(Destination(url=url, token=_value(instructions, _TOKEN_KEY)))


def _value(instructions: str, key: str) -> str:
    """Return what the first line that begins with a key says; empty if there is none or it says nothing."""
    lines = instructions[:MOST_CHARS].split("\n")
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(f"{key}:")), "")


def _checked(destination: Destination) -> Destination:
    """Return the destination if it may be called with its token. Raises ValueError."""
    host = host_of(destination.url)
    if destination.token and not _SENDABLE.fullmatch(destination.token):
        raise ValueError(f"the token for {host} cannot be one: a token is one word of printable characters")
    if destination.token and is_in_the_clear(destination.url):
        raise ValueError(f"a token for {host} must not go over plain http; write https://")
    return destination
