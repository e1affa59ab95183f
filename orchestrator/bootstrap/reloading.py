"""Settings and definitions that are put in force while the daemon runs: when a file changes, or at a signal."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import structlog

from orchestrator import clock
from orchestrator.daemon.watchdog.service_manager import READY, STATUS, ServiceManager
from orchestrator.settings.environment import config_folders
from orchestrator.settings.loading import SettingsError, is_writable, keep_programs
from orchestrator.settings.settings import Settings
from orchestrator.wiring.daemon import Daemon

log = structlog.get_logger()

SHOWN_FOR = timedelta(minutes=10)
"""How long the service's status says that a reload succeeded; that one was refused it says until one succeeds."""
LONGEST_OUTCOME = 300
"""Characters of what the service's status says about a reload."""


@dataclass(frozen=True, slots=True)
class SettingsSource:
    """Where the settings come from: a function that reads them, and the file given with --config, if any.

    `config` is an absolute path, as changed files are reported.
    """

    load: Callable[[], Settings]
    config: Path | None

    def folders(self) -> list[Path]:
        """Return the folders in which a changed file may change the settings."""
        return [*config_folders(), *([self.config.parent] if self.config else [])]

    def files(self) -> list[Path]:
        """Return the files that may hold settings."""
        return [*(folder / "orchestrator.toml" for folder in config_folders()), *([self.config] if self.config else [])]

    def definition_folders(self) -> list[Path]:
        """Return the folders in which definitions may be created beside the settings."""
        return [folder / kind for folder in config_folders() for kind in ("pipelines", "agents")]


class Reloader:
    """Puts changed settings and definitions in force; what is invalid is refused, and the last valid ones stay."""

    def __init__(self, daemon: Daemon, sources: SettingsSource, manager: ServiceManager) -> None:
        self._daemon, self._sources, self._manager = daemon, sources, manager
        self._refused: dict[str, list[str]] = {}
        self._applied_at: datetime | None = None

    @property
    def outcome(self) -> str:
        """Say in one line how the last reload went; empty if nothing is refused and the last one is long ago."""
        if refused := [problem for problems in self._refused.values() for problem in problems]:
            more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
            words = " ".join("".join(c if c.isprintable() else " " for c in refused[0]).split())
            return f"refused: {words[:LONGEST_OUTCOME]}{more}"
        if self._applied_at is None or clock.now() - self._applied_at > SHOWN_FOR:
            return ""
        return f"reloaded at {self._applied_at:%H:%M:%S} UTC"

    def reload_all(self) -> None:
        """Reload settings and definitions at once, and tell the service manager how that went."""
        self._manager.begin_reload()
        try:
            self._reload_settings()
            self._reload_definitions()
            tell = log.warning if self._refused else log.info
            tell("reload_ended", outcome=self.outcome)
        finally:
            self._manager.notify(READY, STATUS + self.outcome)

    def on_change(self, paths: set[Path]) -> None:
        """React to changed files: settings, definitions, or the state of a live task."""
        daemon = self._daemon
        for folder in {path.parent for path in paths if path.name in {"state.json", "journal.jsonl"}}:
            daemon.supervisor.check_for_foreign_edit(folder.name)
        declared = {path for path in paths if path.parent.parent != daemon.store.files.root}
        if any(path.name == "orchestrator.toml" or path == self._sources.config for path in declared):
            self._reload_settings()
        if any(path.suffix in {".toml", ".md"} for path in declared):
            self._reload_definitions()

    def _reload_settings(self) -> None:
        daemon = self._daemon
        try:
            settings = self._sources.load()
        except SettingsError as error:
            self._note("settings", [str(problem) for problem in error.problems])
            log.warning("settings_refused", problems=self._refused["settings"])
            return
        if daemon.launching().isolation.program is None and any(map(is_writable, self._sources.files())):
            settings, kept = keep_programs(settings, daemon.settings.now)
            if kept:
                reason = "agents can write the file without a sandbox"
                log.warning("settings_wait_for_restart", settings=kept, reason=reason)
        if settings != daemon.settings.now:
            daemon.settings.replace(settings)
            log.info("settings_applied")
        self._note("settings", [])

    def _reload_definitions(self) -> None:
        daemon = self._daemon
        problems = daemon.definitions.reload(daemon.settings.now.definition_folders())
        self._note("definitions", [str(problem) for problem in problems])
        if problems:
            log.warning("definitions_refused", problems=self._refused["definitions"])
        else:
            log.info("definitions_loaded", pipelines=list(daemon.definitions.now.pipelines))

    def _note(self, kind: str, refused: list[str]) -> None:
        self._refused.pop(kind, None)
        if refused:
            self._refused[kind] = refused
        else:
            self._applied_at = clock.now()
