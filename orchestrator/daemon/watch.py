"""Noticing files that other hands change: one watcher over a few folders, never over agents' output.

Behind it is watchfiles. Its step costs idle processor time (measured.md, "Figures to plan with"), so it is no shorter
than 50 ms. It cannot be given other folders while it watches, and forgets what it had noticed and not yet told when it
is ended; so after each change of folders the files themselves are looked at once.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from watchfiles import awatch

STEP, SETTLE = 200, 400
"""Milliseconds between looks, and until a burst of changes is told of."""
UNDER_WAY = 1.0
"""Seconds after which a new watch sees everything."""

Stamps = dict[Path, tuple[int, int, int]]


class Watch:
    """Tells of changes directly within the folders that are watched now."""

    def __init__(self, told: Callable[[set[Path]], None]) -> None:
        self._told = told
        self._folders: frozenset[Path] = frozenset()
        self._stamps: Stamps = {}
        self._changed = asyncio.Event()

    def look_at(self, folders: Iterable[Path]) -> None:
        """Watch these folders from now on; those that do not exist are left out."""
        wanted = frozenset(folder for folder in folders if folder.is_dir())
        if wanted != self._folders:
            kept = {path: stamp for path, stamp in self._stamps.items() if path.parent in wanted}
            self._stamps = _stamps(wanted - self._folders) | kept
            self._folders = wanted
            self._changed.set()

    async def run(self) -> None:
        """Watch until cancelled; the set of folders may change meanwhile."""
        while True:
            self._changed.clear()
            if not self._folders:
                await self._changed.wait()
                continue
            look = asyncio.get_running_loop().call_later(UNDER_WAY, self._look)
            with suppress(FileNotFoundError):
                await self._until_changed(self._folders)
            look.cancel()

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
            paths = {Path(path) for _, path in batch}
            for path in paths:
                self._stamps.pop(path, None)
            self._stamps |= _stamps_of(paths)
            self._told(paths)

    def _look(self) -> None:
        """Tell of what changed while one watch was ended and the next not yet under way."""
        before, self._stamps = self._stamps, _stamps(self._folders)
        changed = {path for path in before | self._stamps if before.get(path) != self._stamps.get(path)}
        if changed:
            self._told(changed)


def _stamps(folders: Iterable[Path]) -> Stamps:
    """What tells changed files from unchanged ones, of everything directly within some folders."""
    found: Stamps = {}
    for folder in folders:
        with suppress(OSError):
            found |= _stamps_of(folder.iterdir())
    return found


def _stamps_of(paths: Iterable[Path]) -> Stamps:
    found: Stamps = {}
    for path in paths:
        with suppress(OSError):
            row = path.stat()
            found[path] = (row.st_ino, row.st_size, row.st_mtime_ns)
    return found
