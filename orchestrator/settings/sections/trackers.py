"""Where tickets are fetched from. Trackers have rules of their own, because tokens are sent to their addresses."""

from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, ValidationInfo, model_validator

from orchestrator.formats.address import is_loopback
from orchestrator.settings.sections.types import SettingsSection


def _tracker_address(url: str) -> str:
    """Return the address if a token may be sent to it; raise ValueError if not."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        port = parts.port
    except ValueError as error:
        raise ValueError(f"{url!r:.200} is not an address ({error}); write https://host") from error
    if not url.isprintable() or parts.scheme not in {"http", "https"} or not host or port == 0:
        raise ValueError(f"{url!r:.200} is not the address of a tracker; write https://host")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError(
            f"the address on {host} holds more than a location; write https://host and put the token into its variable"
        )
    if parts.scheme == "http" and not is_loopback(host):
        raise ValueError(f"a token for {host} must not go over plain http; write https://")
    return url


TrackerAddress = Annotated[str, AfterValidator(_tracker_address)]


class JiraSettings(SettingsSection):
    """A Jira site: with a `user`, an e-mail address, it is Jira Cloud, without one a self-hosted server.

    With a `gateway`, the name of a registered MCP server, only that one is asked, and `url` is shown to people.
    """

    url: TrackerAddress | None = None
    user: str = Field(default="", pattern=r"^[^\s:]*$")
    gateway: str = Field(default="", max_length=200)

    @model_validator(mode="after")
    def _can_be_named(self) -> Self:
        if self.gateway and self.url is None:
            raise ValueError('gateway = … needs url = "https://…", where people open tickets; nothing is sent there')
        return self


class GitHubSettings(SettingsSection):
    """GitHub, or a GitHub Enterprise server."""

    url: TrackerAddress = "https://github.com"


class GitLabSettings(SettingsSection):
    """GitLab, or a self-hosted one."""

    url: TrackerAddress = "https://gitlab.com"


class TrackerSettings(SettingsSection):
    """Where tickets are fetched from; tokens come from the environment."""

    jira: JiraSettings = JiraSettings()
    github: GitHubSettings = GitHubSettings()
    gitlab: GitLabSettings = GitLabSettings()


def _require_registered_gateway(trackers: TrackerSettings, known: ValidationInfo) -> TrackerSettings:
    """Return the trackers if a gateway they name is registered in the table [agent]; raise ValueError if not."""
    agent = known.data.get("agent")
    if trackers.jira.gateway and agent is not None and agent.mcp_config is None:
        name = trackers.jira.gateway
        raise ValueError(f"jira.gateway = {name!r:.200} needs mcp_config in [agent], the file that registers it")
    return trackers


Trackers = Annotated[TrackerSettings, AfterValidator(_require_registered_gateway)]
