"""Settings: from files, variables and options to one frozen value; the only module that reads the environment.

Later layers win key by key: Jira's own variables, /etc/orchestrator/orchestrator.toml,
~/.config/orchestrator/orchestrator.toml, --config, ORCHESTRATOR_… variables, options. pydantic judges the merged whole;
what it refuses is traced back to the layer that said it, so that a message can name the file and the line.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal, Self, get_args, get_origin

from pydantic import AfterValidator, BaseModel, ByteSize, Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, EnvSettingsSource, SettingsConfigDict
from pydantic_settings import SettingsError as SourceError

from orchestrator.core.task.budget import Caps
from orchestrator.core.task.checks import MOST_CHECKS, Integration, Rules
from orchestrator.core.task.task_policy import Autonomy, OnBlocked, TaskPolicy
from orchestrator.formats.table import DefinitionError, Problem, nearest
from orchestrator.formats.table import Path as Where
from orchestrator.formats.toml import read_toml
from orchestrator.pipelines.bundled import Kind, bundled
from orchestrator.pipelines.definition_files import Folders, read_declared
from orchestrator.settings_sections import Section, Trackers, TrackerSettings

PREFIX = "ORCHESTRATOR_"

AGENTS_VARIABLES = frozenset({"RUN", "TASK", "ROLE", "ATTEMPT", "SESSION_ID", "RESUME", "OUTBOX", "TOKEN"})
"""What agents are told about themselves under the same prefix: no settings, and no mistakes."""


class SettingsError(DefinitionError):
    """The settings cannot be used; `problems` says why, each with the place that said it."""


def _data_dir() -> Path:
    """The state directory of systemd (the first, if it gives several), else the user's."""
    if given := os.environ.get("STATE_DIRECTORY", "").split(":")[0]:
        return Path(given)
    return Path(os.environ.get("XDG_STATE_HOME") or "~/.local/state") / "orchestrator"


def _runtime_dir(otherwise: Path) -> Path:
    return Path(os.environ.get("RUNTIME_DIRECTORY", "").split(":")[0] or otherwise)


def _whole_path(path: Path) -> Path:
    try:
        return path.expanduser().absolute()
    except RuntimeError as error:
        raise ValueError(str(error)) from error


Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Seconds = Positive
WholePath = Annotated[Path, AfterValidator(_whole_path)]
PermissionMode = Literal["default", "acceptEdits", "plan", "auto", "dontAsk", "bypassPermissions"]


class TierSettings(Section):
    """The models of the roles' tiers; empty: agent.model."""

    deep: str = ""
    standard: str = ""
    fast: str = ""


class AgentSettings(Section):
    """What plays the roles."""

    driver: Literal["claude", "command"] = "claude"
    command: tuple[str, ...] = ()
    executable: str = ""
    model: str = ""
    permission_mode: PermissionMode = "dontAsk"
    mcp_config: WholePath | None = None
    setting_sources: str = Field(default="user", pattern=r"^((user|project|local)(,(user|project|local))*)?$")
    pass_env: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    tiers: TierSettings = TierSettings()

    @model_validator(mode="after")
    def _has_a_command(self) -> Self:
        if self.driver == "command" and not self.command:
            raise ValueError('driver = "command" needs command = ["program", …]')
        return self


class GraceSettings(Section):
    """How long each rung of stopping an agent waits before the next."""

    interrupt: Seconds = 10.0
    eof: Seconds = 5.0
    term: Seconds = 10.0
    kill: Seconds = 5.0


class IntegrationSettings(Section):
    """An integration test that this machine offers every task; without a command there is none."""

    command: str = ""
    preflight: str = ""
    cleanup: str = ""
    timeout: Seconds = 1200.0
    required: bool = False


class CheckSettings(Section):
    """Checks that the daemon runs."""

    timeout: Seconds = 600.0
    commands: Mapping[str, str] = Field(default={}, max_length=MOST_CHECKS)
    changed_coverage: float = Field(default=0.0, ge=0, le=100)
    coverage_required: bool = False
    retry_failed: int = Field(default=0, ge=0, le=1)
    integration: IntegrationSettings = IntegrationSettings()

    def rules(self) -> Rules:
        """The same for who resolves checks."""
        return Rules(
            timeout=self.timeout,
            commands=self.commands,
            integration=Integration(**dict(self.integration)) if self.integration.command else None,
            changed_coverage=self.changed_coverage,
            coverage_required=self.coverage_required,
            retry_failed=self.retry_failed,
        )


class PeopleSettings(Section):
    """What people are asked and told, and how long for."""

    notify_command: tuple[str, ...] = ()
    question_timeout: Seconds = 1800.0
    reminders: tuple[Seconds, ...] = (1800.0, 86_400.0, 172_800.0, 259_200.0, 604_800.0)


class LimitSettings(Section):
    """What happens at a usage limit of the account."""

    margin: Seconds = 30.0
    auto_resume: bool = True
    latest_resume: Seconds | None = None
    usd_after: Positive | None = None


class CapSettings(Section):
    """What may be used at most."""

    usd: Positive | None = None
    tokens: Annotated[int, Field(gt=0)] | None = None
    turns: Annotated[int, Field(gt=0)] | None = None
    hours: Positive | None = None

    def caps(self) -> Caps:
        """The same for the core."""
        return Caps(usd=self.usd, tokens=self.tokens, turns=self.turns, hours=self.hours)


class BudgetSettings(Section):
    """What a task and a day (UTC) may cost; `turn_usd` is set aside for each running turn of the day's money."""

    turn_usd: float = Field(default=0.5, ge=0, allow_inf_nan=False)
    task: CapSettings = CapSettings()
    day: CapSettings = CapSettings()


class HostSettings(Section):
    """A forge that is not at a usual place; `token_env` names the variable that holds its token."""

    kind: Literal["github", "gitlab"]
    api: str = ""
    token_env: str = ""


class ForgeSettings(Section):
    """What becomes of a finished change where its repository has a forge."""

    publish: bool = True
    auto_merge: bool = False
    approvals: int = Field(default=1, ge=0)
    look_every: float = Field(default=300.0, ge=0, allow_inf_nan=False)
    follow_reviews: bool = False
    hosts: Mapping[str, HostSettings] = {}


class LogSettings(Section):
    """The daemon's own log."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["json", "console"] = Field(
        default_factory=lambda: "json" if os.environ.get("JOURNAL_STREAM") else "console"
    )


class FolderSettings(Section):
    """Where more definitions lie."""

    agents: tuple[WholePath, ...] = ()
    pipelines: tuple[WholePath, ...] = ()


class Settings(BaseSettings):
    """Everything that can be set; config/orchestrator.toml documents each key."""

    model_config = SettingsConfigDict(
        frozen=True, extra="forbid", env_prefix=PREFIX, env_nested_delimiter="__", validate_default=True
    )

    data_dir: WholePath = Field(default_factory=_data_dir)
    socket: WholePath = Field(default_factory=lambda known: _runtime_dir(known["data_dir"]) / "orchestrator.sock")
    max_agents: int = Field(default=1, ge=1, le=1000)
    checkpoint_every: Seconds = 600.0
    turn_timeout: Seconds = 3600.0
    retry_delay: Seconds = 10.0
    on_blocked: OnBlocked | None = None
    park_after: Seconds = 1800.0
    stall_after: Seconds = 900.0
    orphan_after: Seconds = 300.0
    free_space_floor: ByteSize = Field(default=ByteSize(2 * 1024**3), ge=0)
    free_memory_floor: ByteSize = Field(default=ByteSize(512 * 1024**2), ge=0)
    load_ceiling: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    agent: AgentSettings = AgentSettings()
    graces: GraceSettings = GraceSettings()
    checks: CheckSettings = CheckSettings()
    people: PeopleSettings = PeopleSettings()
    limits: LimitSettings = LimitSettings()
    budget: BudgetSettings = BudgetSettings()
    trackers: Trackers = TrackerSettings()
    forge: ForgeSettings = ForgeSettings()
    log: LogSettings = Field(default_factory=LogSettings)
    folders: FolderSettings = FolderSettings()

    def terms(self, autonomy: Autonomy, usd: float | None = None) -> TaskPolicy:
        """The terms of a task that is handed in now; `usd` is what its submitter lets it cost.

        Where nobody is asked and nothing else is said, one more cycle that tries less follows the last (seed 000).
        """
        caps = self.budget.task.caps()
        return TaskPolicy(
            autonomy=autonomy,
            on_blocked=self.on_blocked or (OnBlocked.ESCALATE if autonomy is Autonomy.AUTO else OnBlocked.HALT),
            turn_timeout=self.turn_timeout,
            retry_delay=self.retry_delay,
            limit_margin=self.limits.margin,
            park_after=self.park_after,
            question_timeout=self.people.question_timeout,
            reminders=self.people.reminders,
            auto_resume=self.limits.auto_resume,
            latest_resume=self.limits.latest_resume,
            usd_after_limit=self.limits.usd_after,
            auto_merge=self.forge.auto_merge,
            approvals=self.forge.approvals,
            look_every=self.forge.look_every,
            follow_reviews=self.forge.follow_reviews,
            impl_model=self.agent.tiers.standard or None,
            planning_model=self.agent.tiers.deep or None,
            caps=caps if usd is None else replace(caps, usd=usd),
        )

    def definition_folders(self) -> Folders:
        """Where pipelines and roles lie, the bundled ones first, so that every other place hides them."""
        homes = [folder for folder in config_folders() if folder.is_dir()]
        return Folders(
            pipelines=(bundled(Kind.PIPELINES), *(home / "pipelines" for home in homes), *self.folders.pipelines),
            roles=(bundled(Kind.AGENTS), *(home / "agents" for home in homes), *self.folders.agents),
        )


def load_settings(config: Path | None = None, options: Mapping[str, object] | None = None) -> Settings:
    """The settings of this machine, user, file, environment and command line; raises SettingsError.

    `config` must exist if it is given; `options` are keyed as the settings are, tables inside tables.
    """
    try:
        layers = [_from_seed(), *(_from_file(path) for path in _files(config))]
    except DefinitionError as error:
        raise SettingsError(error.problems) from error
    layers.append(_from_environment())
    layers.append(_Layer(source="options", values=options or {}))
    values: Mapping[str, object] = {}
    for layer in layers:
        values = _over(values, layer.values)
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        problems = [_problem(layers, found["loc"], found["type"], found["msg"]) for found in error.errors()]
        raise SettingsError(problems) from error


def environment() -> dict[str, str]:
    """The environment that this process was given."""
    return dict(os.environ)


def credentials_folder() -> Path | None:
    """Where systemd puts what a unit's LoadCredential= names."""
    given = os.environ.get("CREDENTIALS_DIRECTORY")
    return Path(given) if given else None


def config_folders() -> tuple[Path, ...]:
    """Where the machine and then the user keep settings, pipelines and roles."""
    home = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path("/etc/orchestrator"), Path(home).expanduser() / "orchestrator"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layer:
    """What one place says; `lines` knows where, if it is a file."""

    source: str
    values: Mapping[str, object]
    lines: Mapping[Where, int] = field(default_factory=dict)

    def says(self, path: Where) -> bool:
        """Whether the value at a path of keys comes from here."""
        here: object = self.values
        for key in path:
            if not isinstance(here, Mapping) or key not in here:
                return False
            here = here[key]
        return True


def _files(config: Path | None) -> Iterator[Path]:
    yield from (file for folder in config_folders() if (file := folder / "orchestrator.toml").exists())
    if config is not None:
        yield config


def _from_seed() -> _Layer:
    """What the variables of the original system say of Jira (sources.md §1.5)."""
    names = {"url": "JIRA_BASE_URL", "user": "JIRA_USER_EMAIL"}
    given = {key: os.environ[name] for key, name in names.items() if os.environ.get(name)}
    return _Layer(source="JIRA_… variables", values={"trackers": {"jira": given}} if given else {})


def _from_file(path: Path) -> _Layer:
    table = read_toml(read_declared(path), str(path))
    return _Layer(source=str(path), values=table.everything(), lines=table.report.lines)


def _from_environment() -> _Layer:
    known = Settings.model_fields
    problems = [
        Problem(source="environment", text=f"{name} is no setting; {nearest(key, known)}")
        for name in os.environ
        if name.startswith(PREFIX)
        and (key := name.removeprefix(PREFIX).split("__")[0].lower()) not in known
        and name.removeprefix(PREFIX) not in AGENTS_VARIABLES
    ]
    if problems:
        raise SettingsError(problems)
    try:
        return _Layer(source="environment", values=EnvSettingsSource(Settings)())
    except SourceError as error:
        said = f"{error}; lists and tables are written as JSON"
        raise SettingsError([Problem(source="environment", text=said)]) from error


def _over(lower: Mapping[str, object], upper: Mapping[str, object]) -> dict[str, object]:
    """Both merged: tables key by key, anything else from the upper one where it says something."""
    merged = dict(lower)
    for key, value in upper.items():
        below = merged.get(key)
        merged[key] = _over(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return merged


def _problem(layers: list[_Layer], path: Where, kind: str, said: str) -> Problem:
    """What pydantic found, told at the place that said it last."""
    layer = next(
        (layer for layer in reversed(layers) if layer.says(tuple(key for key in path if isinstance(key, str)))),
        layers[-1],
    )
    line = next((layer.lines[path[:end]] for end in range(len(path), 0, -1) if path[:end] in layer.lines), 0)
    name = ".".join(map(str, path))
    if kind == "extra_forbidden":
        return Problem(
            source=layer.source, line=line, text=f"unknown key {name!r}; {nearest(str(path[-1]), _known(path))}"
        )
    return Problem(source=layer.source, line=line, text=f"{name}: {said[0].lower()}{said[1:]}")


def _known(path: Where) -> list[str]:
    """The keys of the table in which the path ends; of one whose keys are anybody's names, those of its entries."""
    fields = Settings.model_fields
    for key in path[:-1]:
        found = fields.get(str(key))
        inner = found.annotation if found else None
        inner = get_args(inner)[-1] if get_origin(inner) is Mapping else inner
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            fields = inner.model_fields
    return list(fields)
