"""Whose account a forge is asked with: a token that was given, or the one that `gh` or `glab` keeps for its user."""

import re
import subprocess
from dataclasses import dataclass, field
from typing import assert_never

from orchestrator.integrations.forges.errors import AuthenticationFailed
from orchestrator.integrations.forges.remote import Kind

_TOKEN = re.compile(r"[!-~]{8,4096}")
_PATIENCE = 20.0
"""Seconds; a keyring may ask its daemon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """A token for one host; it is sent there and nowhere else, and no text of ours shows it."""

    host: str
    token: str = field(repr=False)


def login_for(kind: Kind, host: str, given: str | None = None) -> Credentials:
    """The login for a host: the token that the settings give, or the one of the forge's own tool.

    Raises AuthenticationFailed where there is none, with the command that makes one.
    """
    if given is not None:
        return _checked(host, given, "the token in the settings")
    match kind:
        case Kind.GITHUB:
            return _from_tool(host, ("gh", "auth", "token", "--hostname", host), f"gh auth login --hostname {host}")
        case Kind.GITLAB:
            asked = ("glab", "config", "get", "token", "--host", host)
            return _from_tool(host, asked, f"glab auth login --hostname {host}")
        case _:
            assert_never(kind)


def _from_tool(host: str, command: tuple[str, ...], mend: str) -> Credentials:
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PATIENCE, check=False, text=True
        )
    except FileNotFoundError as error:
        raise AuthenticationFailed(
            f"there is no login for {host}: `{command[0]}` is not installed and no token is given; install it and run"
            f" `{mend}`, or give a token in the environment"
        ) from error
    except (subprocess.TimeoutExpired, UnicodeDecodeError) as error:
        raise AuthenticationFailed(
            f"`{' '.join(command)}` gave no token within {_PATIENCE:.0f} s; try it by hand, its keyring may be locked",
            again_after=60.0,
        ) from error
    token = done.stdout.strip()
    if done.returncode != 0 or not token:
        raise AuthenticationFailed(f"there is no login for {host}; run `{mend}`")
    return _checked(host, token, f"the token that `{command[0]}` keeps")


def _checked(host: str, token: str, source: str) -> Credentials:
    if not _TOKEN.fullmatch(token.strip()):
        raise AuthenticationFailed(
            f"{source} for {host} cannot be one: a token is one word of 8 to 4096 printable characters"
        )
    return Credentials(host=host, token=token.strip())
