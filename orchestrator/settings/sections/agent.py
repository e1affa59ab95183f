"""The program that plays the roles, and how it is stopped."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from orchestrator.settings.sections.types import Seconds, SettingsSection, WholePath

CACHES = tuple(map(Path, ("~/.cache/pip", "~/.npm", "~/.cargo/registry", "~/.cargo/git")))
"""What package managers download, which every task would otherwise download again."""
PermissionMode = Literal["default", "acceptEdits", "plan", "auto", "dontAsk", "bypassPermissions"]


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
