"""Which forge a remote belongs to, with whose login, and where its API is."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import assert_never

from orchestrator.integrations.credentials import Credentials, from_github_tool, from_gitlab_tool, given
from orchestrator.integrations.forges.github import GitHub
from orchestrator.integrations.forges.gitlab import GitLab
from orchestrator.integrations.forges.protocol import Forge
from orchestrator.integrations.forges.remote import ForgeKind, kind_of, remote_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """What the settings say about a forge's host; `api` only if it is not at its usual address."""

    kind: ForgeKind
    api: str | None = None
    token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """An open forge, and the login that it is used with."""

    forge: Forge
    login: Credentials


def open_forge(address: str, hosts: Mapping[str, Host]) -> Opened:
    """Return the forge that a remote's address belongs to. Blocks. Raises UnknownForge and AuthenticationFailed."""
    remote = remote_of(address)
    kind = kind_of(remote, {name: host.kind for name, host in hosts.items()})
    host = hosts.get(remote.host, Host(kind=kind))
    login = login_for(kind, remote.host, host.token)
    match kind:
        case ForgeKind.GITHUB:
            return Opened(forge=GitHub(remote, login, host.api), login=login)
        case ForgeKind.GITLAB:
            return Opened(forge=GitLab(remote, login, host.api), login=login)
        case _:
            assert_never(kind)


def login_for(kind: ForgeKind, host: str, token: str | None = None) -> Credentials:
    """Return the login for a host: the token from the settings, or the one of the forge's own tool.

    Raises AuthenticationFailed where there is none, with the command that logs in.
    """
    if token is not None:
        return given(host, token)
    match kind:
        case ForgeKind.GITHUB:
            return from_github_tool(host)
        case ForgeKind.GITLAB:
            return from_gitlab_tool(host)
        case _:
            assert_never(kind)
