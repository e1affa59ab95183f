"""Tables of the settings that have rules of their own: trackers, to whose addresses tokens are sent."""

from ipaddress import ip_address
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo, model_validator


class Section(BaseModel):
    """A table of the settings."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def _tracker_address(url: str) -> str:
    """An address to which a token may be sent."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        port = parts.port
    except ValueError as error:
        raise ValueError(f"{url!r:.200} is no address ({error}); write https://host") from error
    if not url.isprintable() or parts.scheme not in {"http", "https"} or not host or port == 0:
        raise ValueError(f"{url!r:.200} is no address of a tracker; write https://host")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError(
            f"the address on {host} holds more than a place; write https://host, the token has its variable"
        )
    if parts.scheme == "http" and not _is_loopback(host):
        raise ValueError(f"a token for {host} must not go over plain http; write https://")
    return url


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


TrackerAddress = Annotated[str, AfterValidator(_tracker_address)]


class JiraSettings(Section):
    """A Jira; with a `user` (an e-mail address) it is Jira Cloud, without one a server of one's own.

    With a `gateway`, the name of a registered server, only that one is asked, and `url` is where people look.
    """

    url: TrackerAddress | None = None
    user: str = Field(default="", pattern=r"^[^\s:]*$")
    gateway: str = Field(default="", max_length=200)

    @model_validator(mode="after")
    def _can_be_named(self) -> Self:
        if self.gateway and self.url is None:
            raise ValueError(
                'gateway = … needs url = "https://…", where people open its tickets; nothing is sent there'
            )
        return self


class GitHubSettings(Section):
    """GitHub, or a GitHub Enterprise."""

    url: TrackerAddress = "https://github.com"


class GitLabSettings(Section):
    """GitLab, or one of one's own."""

    url: TrackerAddress = "https://gitlab.com"


class TrackerSettings(Section):
    """Where tickets are fetched from; tokens come from the environment."""

    jira: JiraSettings = JiraSettings()
    github: GitHubSettings = GitHubSettings()
    gitlab: GitLabSettings = GitLabSettings()


def _with_a_register(trackers: TrackerSettings, known: ValidationInfo) -> TrackerSettings:
    """The trackers, if the table [agent] beside them says where a gateway is registered."""
    agent = known.data.get("agent")
    if trackers.jira.gateway and agent is not None and agent.mcp_config is None:
        name = trackers.jira.gateway
        raise ValueError(f"jira.gateway = {name!r:.200} needs mcp_config in [agent], the file that registers it")
    return trackers


Trackers = Annotated[TrackerSettings, AfterValidator(_with_a_register)]
