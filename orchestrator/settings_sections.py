"""The tables of the settings. Trackers have rules of their own, because tokens are sent to their addresses."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo, model_validator

from orchestrator.core.task.budget import Caps
from orchestrator.core.task.checks import MOST_CHECKS, Integration, Rules
from orchestrator.formats.address import host_of, is_loopback, parse_listen


def _listen(text: str) -> str:
    if text:
        parse_listen(text)
    return text


def _whole_path(path: Path) -> Path:
    try:
        return path.expanduser().absolute()
    except RuntimeError as error:
        raise ValueError(str(error)) from error


Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Seconds = Positive
WholePath = Annotated[Path, AfterValidator(_whole_path)]
Listen = Annotated[str, AfterValidator(_listen)]
CACHES = tuple(map(Path, ("~/.cache/pip", "~/.npm", "~/.cargo/registry", "~/.cargo/git")))
"""What package managers download, which every task would otherwise download again."""
PermissionMode = Literal["default", "acceptEdits", "plan", "auto", "dontAsk", "bypassPermissions"]


class SettingsSection(BaseModel):
    """A table of the settings."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class TierSettings(SettingsSection):
    """The model of each tier of roles; an empty one means agent.model."""

    deep: str = ""
    standard: str = ""
    fast: str = ""


class AgentSettings(SettingsSection):
    """The program that plays the roles."""

    driver: Literal["claude", "command"] = "claude"
    command: tuple[str, ...] = ()
    executable: str = ""
    allow_newer: bool = False
    model: str = ""
    permission_mode: PermissionMode = "dontAsk"
    mcp_config: WholePath | None = None
    setting_sources: str = Field(default="user", pattern=r"^((user|project|local)(,(user|project|local))*)?$")
    pass_env: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    writable: tuple[WholePath, ...] = Field(default=CACHES, validate_default=True)
    hidden: tuple[WholePath, ...] = ()
    tiers: TierSettings = TierSettings()

    @model_validator(mode="after")
    def _has_a_command(self) -> Self:
        if self.driver == "command" and not self.command:
            raise ValueError('driver = "command" needs command = ["program", …]')
        return self


class GraceSettings(SettingsSection):
    """How long each step of stopping an agent waits before the next."""

    interrupt: Seconds = 10.0
    eof: Seconds = 5.0
    term: Seconds = 10.0
    kill: Seconds = 5.0


class IntegrationSettings(SettingsSection):
    """An integration test that this machine runs for every task; without a command there is none."""

    command: str = ""
    preflight: str = ""
    cleanup: str = ""
    timeout: Seconds = 1200.0
    required: bool = False


class CheckSettings(SettingsSection):
    """Checks that the daemon runs."""

    timeout: Seconds = 600.0
    commands: Mapping[str, str] = Field(default={}, max_length=MOST_CHECKS)
    changed_coverage: float = Field(default=0.0, ge=0, le=100)
    coverage_required: bool = False
    retry_failed: int = Field(default=0, ge=0, le=1)
    integration: IntegrationSettings = IntegrationSettings()

    def rules(self) -> Rules:
        """Return the rules by which a task's checks are resolved."""
        return Rules(
            timeout=self.timeout,
            commands=self.commands,
            integration=Integration(**dict(self.integration)) if self.integration.command else None,
            changed_coverage=self.changed_coverage,
            coverage_required=self.coverage_required,
            retry_failed=self.retry_failed,
        )


class PeopleSettings(SettingsSection):
    """How people are notified, and how long their answers are awaited."""

    notify_command: tuple[str, ...] = ()
    question_timeout: Seconds = 1800.0
    reminders: tuple[Seconds, ...] = (1800.0, 86_400.0, 172_800.0, 259_200.0, 604_800.0)


def _address(url: str) -> str:
    """Return the address, which may be empty; raise ValueError if it cannot be called."""
    if url:
        host_of(url)
    return url


CallbackAddress = Annotated[str, AfterValidator(_address)]


class CallbackSettings(SettingsSection):
    """Where other programs are told about tasks; `hosts` are those that a repository's CLAUDE.md may name."""

    task: CallbackAddress = ""
    progress: CallbackAddress = ""
    hosts: frozenset[str] = frozenset()


class LimitSettings(SettingsSection):
    """What happens at a usage limit of the account."""

    margin: Seconds = 30.0
    auto_resume: bool = True
    latest_resume: Seconds | None = None
    usd_after: Positive | None = None


class CapSettings(SettingsSection):
    """What may be used at most."""

    usd: Positive | None = None
    tokens: Annotated[int, Field(gt=0)] | None = None
    turns: Annotated[int, Field(gt=0)] | None = None
    hours: Positive | None = None

    def caps(self) -> Caps:
        """Return the caps as the core uses them."""
        return Caps(usd=self.usd, tokens=self.tokens, turns=self.turns, hours=self.hours)


class BudgetSettings(SettingsSection):
    """What a task and a day (UTC) may cost; each running turn reserves `turn_usd` of the day's budget."""

    turn_usd: float = Field(default=0.5, ge=0, allow_inf_nan=False)
    task: CapSettings = CapSettings()
    day: CapSettings = CapSettings()


class HostSettings(SettingsSection):
    """A forge at an address of its own; `token_env` names the variable that holds its token."""

    kind: Literal["github", "gitlab"]
    api: str = ""
    token_env: str = ""


class ForgeSettings(SettingsSection):
    """What happens to a finished change if its repository has a forge."""

    publish: bool = True
    auto_merge: bool = False
    approvals: int = Field(default=1, ge=0)
    look_every: float = Field(default=300.0, ge=0, allow_inf_nan=False)
    follow_reviews: bool = False
    hosts: Mapping[str, HostSettings] = {}


class FolderSettings(SettingsSection):
    """Folders with more definitions."""

    agents: tuple[WholePath, ...] = ()
    pipelines: tuple[WholePath, ...] = ()


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
