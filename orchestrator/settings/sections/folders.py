"""Folders with more definitions."""

from orchestrator.settings.sections.types import SettingsSection, WholePath


class FolderSettings(SettingsSection):
    """Folders with more definitions."""

    agents: tuple[WholePath, ...] = ()
    pipelines: tuple[WholePath, ...] = ()
