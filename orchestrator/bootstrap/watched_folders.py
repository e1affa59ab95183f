"""The folders in which changed files are noticed: those of the settings, of the definitions and of live tasks.

To change what is watched takes time in proportion to all of it. So a burst of new or ended tasks changes it once, and
what happened to the files of a new task before that is looked for then.
"""

import asyncio
from contextlib import suppress

from orchestrator.bootstrap.reloading import SettingsSource
from orchestrator.core.task.task import Task
from orchestrator.daemon.watch import Watch
from orchestrator.settings.settings import Settings
from orchestrator.wiring.daemon import Daemon

CHECK_SECONDS = 5.0
"""How often folders are looked for that were missing: they may have been created."""
GATHER_SECONDS = 0.5
"""How long changes of what is watched are collected."""


class WatchedFolders:
    """Tells a watch what to look at, as long as `run` runs."""

    def __init__(self, daemon: Daemon, sources: SettingsSource, watch: Watch) -> None:
        self._daemon, self._sources, self._watch = daemon, sources, watch
        self._known: tuple[Settings, frozenset[str]] = daemon.settings.now, frozenset()
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Follow what tasks live and what the settings name, until cancelled."""
        self._daemon.supervisor.listen(lambda task, _event: self._note(task))
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(CHECK_SECONDS):
                    await self._changed.wait()
                await asyncio.sleep(GATHER_SECONDS)
            self._changed.clear()
            await self.look()

    async def look(self) -> None:
        """Watch what is to be watched now, and look at the state of each task that was not watched yet."""
        daemon, before = self._daemon, self._known[1]
        self._known = settings, tasks = daemon.settings.now, frozenset(daemon.supervisor.tasks)
        declared = settings.definition_folders()
        own = (*self._sources.folders(), *self._sources.definition_folders())
        folders = [*own, *declared.pipelines, *declared.roles, *map(daemon.store.files.path_of, tasks)]
        await self._watch.look_at(folders)
        for task_id in tasks - before:
            daemon.supervisor.check_for_foreign_edit(task_id)
            await asyncio.sleep(0)  # each takes a moment of the event loop, and there may be thousands

    def _note(self, task: Task) -> None:
        settings, tasks = self._known
        is_live = task.id in self._daemon.supervisor.tasks
        if settings is not self._daemon.settings.now or (task.id in tasks) != is_live:
            self._changed.set()
