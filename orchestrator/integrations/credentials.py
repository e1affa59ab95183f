"""The login for a server: a token from the settings, or the one that `gh` or `glab` keeps."""

import re
import subprocess
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field

from orchestrator.integrations.errors import LATER, AuthenticationFailed

KEYRING_TIMEOUT = 20.0
"""Seconds; `gh` and `glab` may have to ask a keyring."""

_TOKEN = re.compile(r"[!-~]{8,4096}")
_HEADER = re.compile(r"[!-~]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """A token for one host; it is sent to that host only, and never shown.

    Without a token requests are anonymous. With a `user`, both are sent as HTTP Basic authentication. `mend`
    tells a person how to give or renew the token.
    """

    host: str
    token: str = field(default="", repr=False)
    user: str = ""
    mend: str = ""

    @property
    def headers(self) -> Mapping[str, str]:
        """The Authorization header; none for a token that no header can hold, so the server says nobody logged in."""
        if not self.token:
            return {}
        scheme, secret = "Bearer", self.token
        if self.user:
            scheme, secret = "Basic", b64encode(f"{self.user}:{self.token}".encode()).decode()
        return {"Authorization": f"{scheme} {secret}"} if _HEADER.fullmatch(secret) else {}


def given(host: str, token: str, mend: str = "") -> Credentials:
    """Return credentials with a token from the settings. Raises AuthenticationFailed for what cannot be a token."""
    return _checked(Credentials(host=host, token=token.strip(), mend=mend), "the token in the settings")


def from_github_tool(host: str, timeout: float = KEYRING_TIMEOUT) -> Credentials:
    """Return the login of `gh` on a host. Blocks. Raises AuthenticationFailed, and says how to log in."""
    command = ("gh", "auth", "token", "--hostname", host)
    return _from_tool(host, command, f"gh auth login --hostname {host}", timeout)


def from_gitlab_tool(host: str, timeout: float = KEYRING_TIMEOUT) -> Credentials:
    """Return the login of `glab` on a host. Blocks. Raises AuthenticationFailed, and says how to log in."""
    command = ("glab", "config", "get", "token", "--host", host)
    return _from_tool(host, command, f"glab auth login --hostname {host}", timeout)


def _from_tool(host: str, command: tuple[str, ...], login: str, timeout: float) -> Credentials:
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, check=False, text=True
        )
    except OSError as error:
        raise AuthenticationFailed(
            f"there is no login for {host}: `{command[0]}` cannot be run and no token is given; install it and run"
            f" `{login}`, or give a token in the environment"
        ) from error
    except (subprocess.TimeoutExpired, UnicodeDecodeError) as error:
        raise AuthenticationFailed(
            f"`{' '.join(command)}` gave no token within {timeout:g} s; run it by hand, its keyring may be locked",
            again_after=LATER,
        ) from error
    token = done.stdout.strip()
    if done.returncode != 0 or not token:
        raise AuthenticationFailed(f"there is no login for {host}; run `{login}`")
    found = Credentials(host=host, token=token, mend=f"log in again with `{login}`")
    return _checked(found, f"the token that `{command[0]}` keeps")


def _checked(credentials: Credentials, source: str) -> Credentials:
    if not _TOKEN.fullmatch(credentials.token):
        raise AuthenticationFailed(
            f"{source} for {credentials.host} cannot be one: a token is one word of 8 to 4096 printable characters"
        )
    return credentials
