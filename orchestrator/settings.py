"""Settings: files, variables and options merged into one frozen value; the only module that reads the environment.

Later layers win key by key: Jira's own variables, /etc/orchestrator/orchestrator.toml,
~/.config/orchestrator/orchestrator.toml, --config, ORCHESTRATOR_… variables, options. pydantic validates the merged
whole; an error is traced back to the layer that set the value, so that its message can name the file and the line.
"""

import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Literal, Self, get_args, get_origin

from pydantic import AfterValidator, BaseModel, ByteSize, ConfigDict, Field, ValidationError
from pydantic_settings import BaseSettings, EnvSettingsSource, SettingsConfigDict
from pydantic_settings import SettingsError as SourceError

from orchestrator.core.schedule.admission import Capacity
from orchestrator.core.schedule.pressure import Floors
from orchestrator.core.task.task_policy import Autonomy, OnBlocked, TaskPolicy
from orchestrator.formats.secret_files import read_secrets
from orchestrator.formats.table import DefinitionError, Problem, nearest
from orchestrator.formats.table import Path as Where
from orchestrator.pipelines.bundled import Kind, bundled
from orchestrator.pipelines.definition_files import Folders, read_declared
from orchestrator.processes.spec import HELD_BELOW
from orchestrator.settings_layers import Layer, layer_of_file, layer_that_sets, merge
from orchestrator.settings_sections import (
    AgentSettings,
    BudgetSettings,
    CallbackSettings,
    CheckSettings,
    FolderSettings,
    ForgeSettings,
    GraceSettings,
    LimitSettings,
    Listen,
    PeopleSettings,
    Seconds,
    SettingsSection,
    Trackers,
    TrackerSettings,
    WholePath,
)

PREFIX = "ORCHESTRATOR_"

AGENTS_VARIABLES = frozenset({"RUN", "TASK", "ROLE", "ATTEMPT", "SESSION_ID", "RESUME", "OUTBOX", "TOKEN"})
"""Variables with the same prefix that agents are given: they are not settings, and not mistakes."""


STARTED_BY_DAEMON = {"people": ("notify_command",), "agent": ("executable", "mcp_config")}
"""The settings, by table, that name programs which the daemon starts outside any run."""


class SettingsError(DefinitionError):
    """The settings are invalid; `problems` says why, each with the place that set the value."""


def _data_dir() -> Path:
    """Return the state directory given by systemd (the first of several), else the user's."""
    if given := os.environ.get("STATE_DIRECTORY", "").split(":")[0]:
        return Path(given)
    return Path(os.environ.get("XDG_STATE_HOME") or "~/.local/state") / "orchestrator"


def _socket(known: Mapping[str, Path]) -> Path:
    """Return the socket in the runtime directory given by systemd, else in the data folder."""
    return Path(os.environ.get("RUNTIME_DIRECTORY", "").split(":")[0] or known["data_dir"]) / "orchestrator.sock"


def _above_holders(floor: ByteSize) -> ByteSize:
    if floor < HELD_BELOW:
        raise ValueError(
            f"must be at least {HELD_BELOW >> 20} MiB, because below it the output of agents and checks waits unread: "
            "they would hang instead of freezing"
        )
    return floor


class LogSettings(SettingsSection):
    """The daemon's own log."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["json", "console"] = Field(
        default_factory=lambda: "json" if os.environ.get("JOURNAL_STREAM") else "console"
    )


class Settings(BaseSettings):
    """Everything that can be set; config/orchestrator.toml documents each key."""

    model_config = SettingsConfigDict(
        frozen=True, extra="forbid", env_prefix=PREFIX, env_nested_delimiter="__", validate_default=True
    )

    data_dir: WholePath = Field(default_factory=_data_dir)
    socket: WholePath = Field(default_factory=_socket)
    listen: Listen = ""
    allowed_hosts: tuple[str, ...] = ()
    socket_group: str = ""
    isolation: Literal["auto", "bubblewrap", "none"] = "auto"
    max_agents: int = Field(default=1, ge=1, le=1000)
    checkpoint_every: Seconds = 600.0
    turn_timeout: Seconds = 3600.0
    retry_delay: Seconds = 10.0
    on_blocked: OnBlocked | None = None
    park_after: Seconds = 1800.0
    stall_after: Seconds = 900.0
    orphan_after: Seconds = 300.0
    free_space_floor: Annotated[ByteSize, AfterValidator(_above_holders)] = ByteSize(2 * 1024**3)
    free_memory_floor: ByteSize = Field(default=ByteSize(512 * 1024**2), ge=0)
    load_ceiling: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    agent: AgentSettings = Field(default_factory=AgentSettings)
    graces: GraceSettings = GraceSettings()
    checks: CheckSettings = CheckSettings()
    people: PeopleSettings = PeopleSettings()
    callbacks: CallbackSettings = CallbackSettings()
    limits: LimitSettings = LimitSettings()
    budget: BudgetSettings = BudgetSettings()
    trackers: Trackers = TrackerSettings()
    forge: ForgeSettings = ForgeSettings()
    log: LogSettings = Field(default_factory=LogSettings)
    folders: FolderSettings = FolderSettings()
    _layers: tuple[Layer, ...] = ()

    def from_layers(self, layers: Sequence[Layer]) -> Self:
        """Return these settings, which know from now on that they come from these layers, later ones winning."""
        self._layers = tuple(layers)
        return self

    @property
    def layers(self) -> tuple[Layer, ...]:
        """Where the values come from, later layers winning; what none of them sets has its default."""
        return self._layers

    @property
    def agents_socket(self) -> Path:
        """The socket for agents, beside that for people: alone in a folder, which is all that a sandbox shows of it."""
        return self.socket.with_suffix(".d") / "s"

    def policy(self, autonomy: Autonomy, usd: float | None = None) -> TaskPolicy:
        """Return the policy of a task that is submitted now; `usd` is a cost limit set by its submitter.

        Unless on_blocked is set, a task of which nobody is asked anything gets one more cycle with a smaller scope.
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

    def capacity(self) -> Capacity:
        """Return what admission may use."""
        return Capacity(
            places=self.max_agents,
            day=self.budget.day.caps(),
            turn_usd=self.budget.turn_usd,
            limit_margin=self.limits.margin,
        )

    def floors(self) -> Floors:
        """Return the resources of the machine below which agents are frozen."""
        return Floors(
            free_disk=self.free_space_floor,
            available_memory=self.free_memory_floor,
            load_per_core=self.load_ceiling,
        )

    def definition_folders(self) -> Folders:
        """Return the folders of pipelines and roles, the bundled ones first, so that all others override them."""
        homes = [folder for folder in config_folders() if folder.is_dir()]
        return Folders(
            pipelines=(bundled(Kind.PIPELINES), *(home / "pipelines" for home in homes), *self.folders.pipelines),
            roles=(bundled(Kind.AGENTS), *(home / "agents" for home in homes), *self.folders.agents),
        )


def load_settings(config: Path | None = None, options: Mapping[str, object] | None = None) -> Settings:
    """Return the settings of this machine, user, file, environment and command line. Raises SettingsError.

    `config` must exist if it is given; `options` are keyed as the settings are, tables inside tables.
    """
    try:
        layers = [_from_jira_variables(), *(layer_of_file(path) for path in _files(config))]
    except DefinitionError as error:
        raise SettingsError(error.problems) from error
    if problems := _secrets()[1]:
        raise SettingsError(problems)
    layers.append(_from_environment())
    layers.append(Layer(source="options", values=options or {}))
    values: Mapping[str, object] = {}
    for layer in layers:
        values = merge(values, layer.values)
    try:
        return Settings.model_validate(values).from_layers(layers)
    except ValidationError as error:
        problems = [_problem(layers, found["loc"], found["type"], found["msg"]) for found in error.errors()]
        raise SettingsError(problems) from error


class Places(BaseModel):
    """The settings that a command needs to find the daemon and its data."""

    model_config = ConfigDict(frozen=True, extra="ignore", validate_default=True)

    data_dir: WholePath = Field(default_factory=_data_dir)
    socket: WholePath = Field(default_factory=_socket)


def load_places(config: Path | None = None, options: Mapping[str, object] | None = None) -> Places:
    """Return where the daemon and its data are, even if other settings are wrong.

    Of a file that is not TOML, the lines count that set them. Raises SettingsError if they are wrong themselves, or if
    a file cannot be read.
    """
    values: dict[str, object] = {}
    try:
        for path in _files(config):
            values |= _places_in(read_declared(path))
    except DefinitionError as error:
        raise SettingsError(error.problems) from error
    given = {name.upper(): value for name, value in os.environ.items()}
    values |= {key: given[name] for key in Places.model_fields if (name := f"{PREFIX}{key.upper()}") in given}
    try:
        return Places.model_validate(values | dict(options or {}))
    except ValidationError as error:
        problems = [Problem(source=".".join(map(str, one["loc"])), text=one["msg"]) for one in error.errors()]
        raise SettingsError(problems) from error


def _places_in(text: str) -> dict[str, object]:
    """Return the values of a settings file that say where the daemon and its data are."""
    try:
        values = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        before_tables = takewhile(lambda line: not line.lstrip().startswith("["), text.splitlines())
        values = {}
        for line in before_tables:
            with suppress(tomllib.TOMLDecodeError, RecursionError):
                values |= tomllib.loads(line)
    return {key: value for key, value in values.items() if key in Places.model_fields}


def environment() -> dict[str, str]:
    """Return the environment of this process."""
    return dict(os.environ)


def environment_with_secrets() -> dict[str, str]:
    """Return the environment of this process, and what secret files hold for variables that it lacks. Blocks."""
    secrets, _ = _secrets()
    return {**secrets, **os.environ}


def _secrets() -> tuple[dict[str, str], list[Problem]]:
    """Return the secrets in systemd's credentials and beside the settings, and which files are not used."""
    given = credentials_folder()
    folders = [(folder / "credentials", False) for folder in config_folders()] + ([(given, True)] if given else [])
    found: dict[str, str] = {}
    problems: list[Problem] = []
    for folder, by_systemd in folders:
        secrets, wrong = read_secrets(folder, by_systemd=by_systemd)
        found |= secrets
        problems += [Problem(source="secrets", text=text) for text in wrong]
    return found, problems


def credentials_folder() -> Path | None:
    """Return where systemd puts what a unit's LoadCredential= names, if anywhere."""
    given = os.environ.get("CREDENTIALS_DIRECTORY")
    return Path(given) if given else None


def config_folders() -> tuple[Path, ...]:
    """Return the folders in which the machine and then the user keep settings, pipelines and roles."""
    home = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path("/etc/orchestrator"), Path(home).expanduser() / "orchestrator"


def keep_programs(changed: Settings, now: Settings) -> tuple[Settings, list[str]]:
    """Return changed settings with the programs that the daemon itself starts as they are now, and which differed."""
    kept, names = changed, []
    for section, keys in STARTED_BY_DAEMON.items():
        before, after = getattr(now, section), getattr(changed, section)
        differing = [key for key in keys if getattr(before, key) != getattr(after, key)]
        names += [f"{section}.{key}" for key in differing]
        values = {key: getattr(before, key) for key in differing}
        kept = kept.model_copy(update={section: after.model_copy(update=values)})
    return kept, names


def is_writable(file: Path) -> bool:
    """Return whether programs of this user can write a file, or put another in its place."""
    path, us = file.absolute(), os.geteuid()
    existing = [one for one in (path, *path.parents) if one.exists()]
    return any(os.access(one, os.W_OK) or one.stat().st_uid == us for one in existing)


def _files(config: Path | None) -> Iterator[Path]:
    yield from (file for folder in config_folders() if (file := folder / "orchestrator.toml").exists())
    if config is not None:
        yield config


def _from_jira_variables() -> Layer:
    """Return the layer of the usual variables for Jira: JIRA_BASE_URL and JIRA_USER_EMAIL."""
    names = {"url": "JIRA_BASE_URL", "user": "JIRA_USER_EMAIL"}
    given = {key: os.environ[name] for key, name in names.items() if os.environ.get(name)}
    return Layer(source="JIRA_… variables", values={"trackers": {"jira": given}} if given else {})


def _from_environment() -> Layer:
    known = Settings.model_fields
    problems = [
        Problem(source="environment", text=f"{name} is not a setting; {nearest(key, known)}")
        for name in os.environ
        if name.startswith(PREFIX)
        and (key := name.removeprefix(PREFIX).split("__")[0].lower()) not in known
        and name.removeprefix(PREFIX) not in AGENTS_VARIABLES
    ]
    if problems:
        raise SettingsError(problems)
    try:
        return Layer(source="environment", values=EnvSettingsSource(Settings)())
    except SourceError as error:
        text = f"{error}; write lists and tables as JSON"
        raise SettingsError([Problem(source="environment", text=text)]) from error


def _problem(layers: list[Layer], path: Where, kind: str, message: str) -> Problem:
    """Return what pydantic found, with the place that set the value last."""
    layer = layer_that_sets(layers, tuple(key for key in path if isinstance(key, str))) or layers[-1]
    line, name = layer.line_of(path), ".".join(map(str, path))
    if kind == "extra_forbidden":
        return Problem(
            source=layer.source, line=line, text=f"unknown key {name!r}; {nearest(str(path[-1]), _known(path))}"
        )
    return Problem(source=layer.source, line=line, text=f"{name}: {message[0].lower()}{message[1:]}")


def _known(path: Where) -> list[str]:
    """Return the known keys of the table in which the path ends, or of its entries if its own keys are free names."""
    fields = Settings.model_fields
    for key in path[:-1]:
        found = fields.get(str(key))
        inner = found.annotation if found else None
        inner = get_args(inner)[-1] if get_origin(inner) is Mapping else inner
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            fields = inner.model_fields
    return list(fields)
