"""The model of the settings; config/orchestrator.toml documents each key."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, ByteSize, Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from orchestrator.core.schedule.admission import Capacity
from orchestrator.core.schedule.pressure import Floors
from orchestrator.core.task.task_policy import Autonomy, OnBlocked, TaskPolicy
from orchestrator.pipelines.bundled import Kind, bundled
from orchestrator.pipelines.definition_files import Folders
from orchestrator.processes.spec import HELD_BELOW
from orchestrator.settings.environment import config_folders, default_data_dir, default_socket
from orchestrator.settings.layers import Layer
from orchestrator.settings.sections.access import Listen
from orchestrator.settings.sections.agent import AgentSettings, GraceSettings
from orchestrator.settings.sections.backup import BackupSettings
from orchestrator.settings.sections.checks import CheckSettings
from orchestrator.settings.sections.folders import FolderSettings
from orchestrator.settings.sections.forge import ForgeSettings
from orchestrator.settings.sections.intake import Hooks, Inbox, InboxSettings, Queries
from orchestrator.settings.sections.monitoring import DoctorSettings, TelemetrySettings
from orchestrator.settings.sections.notify import NotifySettings
from orchestrator.settings.sections.people import CallbackSettings, PeopleSettings
from orchestrator.settings.sections.retention import RetentionSettings
from orchestrator.settings.sections.spending import BudgetSettings, LimitSettings
from orchestrator.settings.sections.trackers import Trackers, TrackerSettings
from orchestrator.settings.sections.types import Seconds, SettingsSection, WholePath
from orchestrator.settings.sections.windows import WindowTable, run_windows

PREFIX = "ORCHESTRATOR_"


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

    data_dir: WholePath = Field(default_factory=default_data_dir)
    socket: WholePath = Field(default_factory=default_socket)
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
    notify: NotifySettings = NotifySettings()
    callbacks: CallbackSettings = CallbackSettings()
    limits: LimitSettings = LimitSettings()
    budget: BudgetSettings = BudgetSettings()
    windows: WindowTable = {}
    trackers: Trackers = TrackerSettings()
    inbox: Inbox = InboxSettings()
    queries: Queries = {}
    hooks: Hooks = {}
    forge: ForgeSettings = ForgeSettings()
    doctor: DoctorSettings = DoctorSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    backup: BackupSettings = BackupSettings()
    log: LogSettings = Field(default_factory=LogSettings)
    folders: FolderSettings = FolderSettings()
    retention: RetentionSettings = RetentionSettings()
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
            windows=run_windows(self.windows),
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
