"""Which forge a remote belongs to, with whose login, and where its API is."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from orchestrator.integrations.forges.github import GitHub
from orchestrator.integrations.forges.gitlab import GitLab
from orchestrator.integrations.forges.login import Credentials, login_for
from orchestrator.integrations.forges.protocol import Forge
from orchestrator.integrations.forges.remote import Kind, kind_of, remote_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """What the settings say of a forge's host; `api` only where it is not at its usual place."""

    kind: Kind
    api: str | None = None
    token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A forge that can be asked, and the login that it is asked with."""

    forge: Forge
    login: Credentials


def open_forge(address: str, hosts: Mapping[str, Host]) -> Opened:
    """The forge that a remote's address belongs to. Blocks. Raises UnknownForge and AuthenticationFailed."""
    remote = remote_of(address)
    kind = kind_of(remote, {name: host.kind for name, host in hosts.items()})
    told = hosts.get(remote.host)
    login = login_for(kind, remote.host, told.token if told else None)
    api = told.api if told else None
    forge: Forge = GitHub(remote, login, api) if kind is Kind.GITHUB else GitLab(remote, login, api)
    return Opened(forge=forge, login=login)
