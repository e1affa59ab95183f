"""Checks that the daemon runs."""

from collections.abc import Mapping

from pydantic import Field

from orchestrator.core.task.checks import MOST_CHECKS, Integration, Rules
from orchestrator.settings.sections.types import Seconds, SettingsSection


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
