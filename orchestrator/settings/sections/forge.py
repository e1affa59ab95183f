"""What happens to a finished change if its repository has a forge."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from orchestrator.settings.sections.types import SettingsSection


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
