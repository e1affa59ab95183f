"""How long files of ended tasks are kept."""

from datetime import timedelta
from typing import Annotated

from pydantic import ByteSize, Field

from orchestrator.core.retention.policy import Kind, Limits, Policy
from orchestrator.settings.sections.types import Positive, Seconds, SettingsSection

Days = Annotated[float, Field(ge=0, le=36_500, allow_inf_nan=False)]


class KeepSettings(SettingsSection):
    """How much of one kind of files is kept; what is not given is without limit, and so are 0 days."""

    days: Days = 0.0
    count: int | None = Field(default=None, ge=0)
    bytes: ByteSize | None = Field(default=None, ge=0)

    def limits(self) -> Limits:
        """Return the same as the planning knows it."""
        return Limits(age=_age(self.days), count=self.count, size=self.bytes)


class RetentionSettings(SettingsSection):
    """What housekeeping does by itself, and after how long."""

    automatic: bool = True
    every: Annotated[Seconds, Field(ge=60)] = 3600.0
    least_days: Positive = 1.0
    compress_days: Days = 3.0
    archive_days: Days = 90.0
    worktrees: KeepSettings = KeepSettings(days=14)
    clones: KeepSettings = KeepSettings(days=180)
    sources: KeepSettings = KeepSettings(days=30)
    logs: KeepSettings = KeepSettings(days=60)
    transcripts: KeepSettings = KeepSettings(days=90)
    sessions: KeepSettings = KeepSettings(days=30)
    checkpoints: KeepSettings = KeepSettings(days=90)
    foreign_edits: KeepSettings = KeepSettings(days=90)
    quarantine: KeepSettings = KeepSettings()
    tasks: KeepSettings = KeepSettings()

    def policy(self) -> Policy:
        """Return the policy that these settings make."""
        return Policy(
            limits={kind: getattr(self, kind.value.replace("-", "_")).limits() for kind in Kind},
            least_age=timedelta(days=self.least_days),
            compress_after=_age(self.compress_days),
            archive_after=_age(self.archive_days),
        )


def _age(days: float) -> timedelta | None:
    return timedelta(days=days) if days else None
