"""The folders in which changed files are noticed: those of the settings, of the definitions and of tasks at work.

To change what is watched takes time in proportion to all of it. So a burst of tasks changes it once, and thousands of
tasks that have not begun are left out. What happened to the files of a task before it is watched is looked for then.
"""

import asyncio
from contextlib import suppress

from orchestrator.bootstrap.reloading import SettingsSource
from orchestrator.core.task.task import Task, TaskStatus
from orchestrator.daemon.watch import Watch
from orchestrator.settings.settings import Settings
from orchestrator.wiring.daemon import Daemon

NOT_BEGUN = frozenset({TaskStatus.DRAFT, TaskStatus.PENDING})
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
        """Watch what is to be watched now, and look at the state of each task that was not watched before."""
        daemon, before = self._daemon, self._known[1]
        tasks = frozenset(task.id for task in daemon.supervisor.tasks.values() if _has_begun(task))
        settings = daemon.settings.now
        self._known = settings, tasks
        declared = settings.definition_folders()
        own = (*self._sources.folders(), *self._sources.definition_folders())
        folders = [*own, *declared.pipelines, *declared.roles, *map(daemon.store.files.path_of, tasks)]
        await self._watch.look_at(folders)
        for task_id in tasks - before:
            daemon.supervisor.check_for_foreign_edit(task_id)
            await asyncio.sleep(0)  # each takes a moment of the event loop, and there may be thousands

    def _note(self, task: Task) -> None:
        settings, tasks = self._known
        is_at_work = task.id in self._daemon.supervisor.tasks and _has_begun(task)
        if settings is not self._daemon.settings.now or (task.id in tasks) != is_at_work:
            self._changed.set()


def _has_begun(task: Task) -> bool:
    """Return whether anything was done about a task."""
    return task.status not in NOT_BEGUN
