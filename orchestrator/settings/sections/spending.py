"""What happens at usage limits, and what a task and a day may cost."""

from typing import Annotated

from pydantic import Field

from orchestrator.core.task.budget import Caps
from orchestrator.settings.sections.types import Positive, Seconds, SettingsSection


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
