"""The settings in force, each with its value and where that comes from, as the daemon would read them."""

from collections.abc import Iterable

from rich.text import Text

from orchestrator.cli.output import console, table
from orchestrator.daemon.inspection.settings import DEFAULT, SettingsService
from orchestrator.server.schemas.base import compose_view
from orchestrator.server.schemas.oversight.inspection import SettingsFileView, SettingsView, SettingView
from orchestrator.settings.settings import Settings


def settings_view(settings: Settings) -> SettingsView:
    """Return every setting, with what may be a secret masked, and the files that are looked for."""
    found = SettingsService(settings=lambda: settings).in_force()
    return SettingsView(
        values=tuple(compose_view(SettingView, str, one) for one in found.values),
        files=tuple(SettingsFileView(path=str(path), is_read=is_read) for path, is_read in found.files),
    )


def files_text(files: Iterable[SettingsFileView]) -> str:
    """Return in a line which files were read, and which are not there."""
    read = ", ".join(one.path for one in files if one.is_read)
    missing = ", ".join(one.path for one in files if not one.is_read)
    return "; ".join((f"read: {read or 'no file'}", *([f"not there: {missing}"] if missing else [])))


def show_settings(found: SettingsView) -> None:
    """Print every setting on a line; those that have their defaults are dim."""
    console().print(table(("SETTING", "VALUE", "FROM"), map(_row, found.values)))


def _row(one: SettingView) -> tuple[Text, Text, Text]:
    style = "dim" if one.source == DEFAULT else ""
    source = f"{one.source}:{one.line}" if one.line else one.source
    return Text(one.name, style), Text(one.value or "none", style), Text(source, style)
