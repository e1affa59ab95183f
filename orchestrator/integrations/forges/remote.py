"""Which repository on which forge a git remote names; logins in addresses are removed and never shown."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import unquote, urlsplit

from orchestrator.integrations.errors import RemoteError
from orchestrator.redaction.display import escape_text

_SCP = re.compile(r"(?:[^@/:]+@)?(\[[0-9a-fA-F:]+\]|[A-Za-z0-9._-]+):(?!//)(.+)")
_HOST = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")
_PART = re.compile(r"[A-Za-z0-9_.-]{1,255}")
_LOGIN = re.compile(r"^([a-z0-9+.-]+://)?.*@", re.IGNORECASE | re.DOTALL)
_SSH_BY_HTTPS_PORT = {"ssh.github.com": "github.com", "altssh.gitlab.com": "gitlab.com"}


class UnknownForge(RemoteError):
    """A remote belongs to no forge that is known."""


class ForgeKind(StrEnum):
    """A supported kind of forge."""

    GITHUB = "github"
    GITLAB = "gitlab"


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    """A repository on a forge: `host` in lower case, `port` of its web server if it is not the usual one.

    `path` is `owner/name`, on GitLab with all groups before the name.
    """

    host: str
    path: str
    port: int | None = None

    @property
    def web(self) -> str:
        """The address of the repository's page."""
        return f"https://{self._server}/{self.path}"

    def api(self, kind: ForgeKind) -> str:
        """Return the address of the forge's API, as its documentation defines it."""
        if kind is ForgeKind.GITLAB:
            return f"https://{self._server}/api/v4"
        if self.host == "github.com" or self.host.endswith(".ghe.com"):
            return f"https://api.{self._server}"
        return f"https://{self._server}/api/v3"

    @property
    def _server(self) -> str:
        return self.host if self.port is None else f"{self.host}:{self.port}"


def remote_of(url: str) -> Remote:
    """Return the repository that a remote's URL names: https, ssh, or git's `host:path`.

    Raises UnknownForge for a local path, and for what is not an address.
    """
    place = _place(url)
    if place is None:
        raise UnknownForge(
            f"{without_login(url)} is not the address of a repository on a forge; set one with"
            " `git remote set-url origin https://HOST/OWNER/NAME.git`"
        )
    return place


def kind_of(remote: Remote, declared: Mapping[str, ForgeKind]) -> ForgeKind:
    """Return the kind of forge, as declared or by the host's name. Raises UnknownForge if it is unclear."""
    if remote.host in declared:
        return declared[remote.host]
    labels = remote.host.split(".")
    if remote.host.endswith(".ghe.com") or any(label.startswith("github") for label in labels):
        return ForgeKind.GITHUB
    if any(label.startswith("gitlab") for label in labels):
        return ForgeKind.GITLAB
    raise UnknownForge(f"{remote.host} may be GitHub or GitLab; declare its kind as `hosts` in [forge] of the settings")


def without_login(url: str) -> str:
    """Return an address for display: escaped, and without everything before its last @."""
    return escape_text(_LOGIN.sub(r"\1", url))


def _place(url: str) -> Remote | None:
    scheme = re.match(r"([a-z][a-z0-9+.-]*)://", url, re.IGNORECASE)
    if scheme is None:
        match = _SCP.fullmatch(url)
        return _checked(match[1], match[2], None) if match else None
    if scheme[1].lower() not in {"https", "http", "ssh", "git+ssh", "ssh+git", "git"}:
        return None
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    if parts.query or parts.fragment:
        return None
    web = parts.scheme == "https" and port != 443
    return _checked(parts.hostname or "", unquote(parts.path), port if web else None)


def _checked(host: str, path: str, port: int | None) -> Remote | None:
    host = host.lower()
    names = path.strip("/").removesuffix(".git").split("/")
    sound = all(_PART.fullmatch(name) and name not in {".", ".."} for name in names)
    if not _HOST.fullmatch(host) or len(names) < 2 or not sound:
        return None
    return Remote(host=_SSH_BY_HTTPS_PORT.get(host, host), path="/".join(names), port=port)
