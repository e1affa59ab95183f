"""Noticing files that other hands change: one watcher over a few folders, never over agents' output.

Behind it is watchfiles. Its step costs idle processor time (measured.md, "Figures to plan with"), so it is no shorter
than 50 ms.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from watchfiles import awatch

STEP, SETTLE = 200, 400
"""Milliseconds between looks, and until a burst of changes is told of."""


class Watch:
    """Tells of changes directly within the folders that are watched now."""

    def __init__(self, told: Callable[[set[Path]], None]) -> None:
        self._told = told
        self._folders: frozenset[Path] = frozenset()
        self._changed = asyncio.Event()

    def look_at(self, folders: Iterable[Path]) -> None:
        """Watch these folders from now on; those that do not exist are left out."""
        wanted = frozenset(folder for folder in folders if folder.is_dir())
        if wanted != self._folders:
            self._folders = wanted
            self._changed.set()

    async def run(self) -> None:
        """Watch until cancelled; the set of folders may change meanwhile."""
        while True:
            self._changed.clear()
            if not self._folders:
                await self._changed.wait()
                continue
            with suppress(FileNotFoundError):
                await self._until_changed(self._folders)

    async def _until_changed(self, folders: frozenset[Path]) -> None:
        changes = awatch(
            *folders,
            recursive=False,
            step=STEP,
            debounce=SETTLE,
            stop_event=self._changed,
            rust_timeout=60_000,
            yield_on_timeout=False,
        )
        async for batch in changes:
            self._told({Path(path) for _, path in batch})
