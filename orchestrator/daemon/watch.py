"""Noticing files that other programs change: one watcher over a few folders, never over agents' output.

It uses watchfiles, whose step costs processor time while idle, so the step is not shorter than 50 ms. watchfiles cannot
be given other folders while it watches, and loses what it noticed but did not report when it is stopped; so after each
change of folders the files themselves are compared once.

Where the kernel gives no watch, because other programs of the user have used them all up, the files are compared every
few seconds instead.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import structlog
from watchfiles import awatch

from orchestrator.redaction.display import escape_text

log = structlog.get_logger()

STEP, SETTLE = 200, 400
"""Milliseconds between looks, and until a burst of changes is reported."""
STARTED_SECONDS = 1.0
"""After so long a new watch sees every change."""
POLL_SECONDS = 2.0
"""Between comparisons of the files, if they cannot be watched."""

FileVersions = dict[Path, tuple[int, int, int]]


class Watch:
    """Reports changes directly within the watched folders to `on_change`."""

    def __init__(self, on_change: Callable[[set[Path]], None]) -> None:
        self._on_change = on_change
        self._folders: frozenset[Path] = frozenset()
        self._missing: frozenset[Path] = frozenset()
        self._has_complained = False
        self._versions: FileVersions = {}
        self._changed = asyncio.Event()

    def look_at(self, folders: Iterable[Path]) -> None:
        """Watch these folders from now on; one that does not exist is left out until a later call finds it.

        The files of such a folder are reported then.
        """
        named = frozenset(folders)
        wanted = frozenset(folder for folder in named if folder.is_dir())
        appeared, self._missing = wanted & self._missing, named - wanted
        if wanted != self._folders:
            kept = {path: version for path, version in self._versions.items() if path.parent in wanted}
            self._versions = _versions_in(wanted - self._folders) | kept
            self._folders = wanted
            self._changed.set()
        if new := {path for path in self._versions if path.parent in appeared}:
            self._on_change(new)

    async def run(self) -> None:
        """Watch until cancelled; the folders may change meanwhile."""
        while True:
            self._changed.clear()
            if not self._folders:
                await self._changed.wait()
                continue
            look = asyncio.get_running_loop().call_later(STARTED_SECONDS, self._compare)
            try:
                await self._until_changed(self._folders)
            except FileNotFoundError:
                pass
            except (OSError, RuntimeError) as error:  # watchfiles raises RuntimeError if inotify gives no instance
                self._complain(str(error))
                await self._poll(self._folders)
            except ExceptionGroup as errors:  # so watchfiles fails over a name that is not UTF-8
                _, others = errors.split((OSError, RuntimeError))
                if others is not None:
                    raise
                self._complain("; ".join(str(error) for error in errors.exceptions))
                await self._poll(self._folders)
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

    async def _poll(self, folders: frozenset[Path]) -> None:
        """Compare the files again and again until the folders change, which is when watching is tried again."""
        while not self._changed.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await self._changed.wait()
            found = await asyncio.to_thread(_versions_in, folders)
            if not self._changed.is_set():
                self._report(found)

    def _complain(self, error: str) -> None:
        if not self._has_complained:
            self._has_complained = True
            log.warning(
                "files_not_watched",
                error=escape_text(error),
                instead=f"changed files are noticed every {POLL_SECONDS:g} s",
                hint="raise fs.inotify.max_user_instances and max_user_watches; rename files whose names are not UTF-8",
            )

    def _compare(self) -> None:
        """Report what changed after one watch was stopped and before the next one had started."""
        self._report(_versions_in(self._folders))

    def _report(self, found: FileVersions) -> None:
        before, self._versions = self._versions, found
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
