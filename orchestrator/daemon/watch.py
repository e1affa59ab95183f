"""Noticing files that other programs change: one watcher over a few folders, never over agents' output.

It uses watchfiles, whose step costs processor time while idle, so the step is not shorter than 50 ms. watchfiles cannot
be given other folders while it watches, and loses what it noticed but did not report when it is stopped; so after each
change of folders the files themselves are compared once.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from watchfiles import awatch

STEP, SETTLE = 200, 400
"""Milliseconds between looks, and until a burst of changes is reported."""
STARTED_SECONDS = 1.0
"""After so long a new watch sees every change."""

FileVersions = dict[Path, tuple[int, int, int]]


class Watch:
    """Reports changes directly within the watched folders to `on_change`."""

    def __init__(self, on_change: Callable[[set[Path]], None]) -> None:
        self._on_change = on_change
        self._folders: frozenset[Path] = frozenset()
        self._versions: FileVersions = {}
        self._changed = asyncio.Event()

    def look_at(self, folders: Iterable[Path]) -> None:
        """Watch these folders from now on; those that do not exist are left out."""
        wanted = frozenset(folder for folder in folders if folder.is_dir())
        if wanted != self._folders:
            kept = {path: version for path, version in self._versions.items() if path.parent in wanted}
            self._versions = _versions_in(wanted - self._folders) | kept
            self._folders = wanted
            self._changed.set()

    async def run(self) -> None:
        """Watch until cancelled; the folders may change meanwhile."""
        while True:
            self._changed.clear()
            if not self._folders:
                await self._changed.wait()
                continue
            look = asyncio.get_running_loop().call_later(STARTED_SECONDS, self._compare)
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
                self._versions.pop(path, None)
            self._versions |= _versions_of(paths)
            self._on_change(paths)

    def _compare(self) -> None:
        """Report what changed after one watch was stopped and before the next one had started."""
        before, self._versions = self._versions, _versions_in(self._folders)
        changed = {path for path in before | self._versions if before.get(path) != self._versions.get(path)}
        if changed:
            self._on_change(changed)


def _versions_in(folders: Iterable[Path]) -> FileVersions:
    """Return what identifies a version of every file directly within some folders."""
    found: FileVersions = {}
    for folder in folders:
        with suppress(OSError):
            found |= _versions_of(folder.iterdir())
    return found


def _versions_of(paths: Iterable[Path]) -> FileVersions:
    found: FileVersions = {}
    for path in paths:
        with suppress(OSError):
            row = path.stat()
            found[path] = (row.st_ino, row.st_size, row.st_mtime_ns)
    return found
