"""Noticing files that other programs change: one watcher over a few folders, never over agents' output.

It uses watchfiles, whose step costs processor time while idle, so the step is not shorter than 50 ms. watchfiles cannot
be given other folders while it watches, and loses what it noticed but did not report when it is stopped; so after each
change of folders the files themselves are compared once.

Where the kernel gives no watch, because other programs of the user have used them all up, the files are compared every
few seconds instead.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
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
MOST_COMPARED = 10_000
"""Files of one folder that are compared; the kernel reports changes of all."""

FileVersions = Mapping[str, tuple[int, int, int]]
"""What identifies the version of each file of a folder, by its name."""


@dataclass(frozen=True, slots=True)
class _Watched:
    """The folders that are watched, with the versions of their files, and those that do not exist."""

    files: Mapping[Path, FileVersions] = field(default_factory=dict)
    missing: frozenset[Path] = frozenset()


class Watch:
    """Reports changes directly within the watched folders to `on_change`. Files are read in other threads."""

    def __init__(self, on_change: Callable[[set[Path]], None]) -> None:
        self._on_change = on_change
        self._watched = _Watched()
        self._has_complained = False
        self._changed = asyncio.Event()
        self._one_at_a_time = asyncio.Lock()

    async def look_at(self, folders: Collection[Path]) -> None:
        """Watch these folders from now on; one that does not exist is left out until a later call finds it.

        The files of such a folder are reported then.
        """
        async with self._one_at_a_time:
            before = self._watched
            now = await asyncio.to_thread(_watched, folders, before)
            if now.files.keys() != before.files.keys():
                self._changed.set()
            self._watched = now
        appeared = before.missing & now.files.keys()
        if new := {folder / name for folder in appeared for name in now.files[folder]}:
            self._on_change(new)

    async def run(self) -> None:
        """Watch until cancelled; the folders may change meanwhile."""
        while True:
            self._changed.clear()
            if not self._watched.files:
                await self._changed.wait()
                continue
            look = asyncio.create_task(self._compare_once_started())
            try:
                await self._until_changed()
            except FileNotFoundError as error:
                await self._leave_out_deleted(error)
            except (OSError, RuntimeError) as error:  # watchfiles raises RuntimeError if inotify gives no instance
                self._complain(str(error))
                await self._poll()
            except ExceptionGroup as errors:  # so watchfiles fails over a name that is not UTF-8
                _, others = errors.split((OSError, RuntimeError))
                if others is not None:
                    raise
                self._complain("; ".join(str(error) for error in errors.exceptions))
                await self._poll()
            finally:
                look.cancel()

    async def _until_changed(self) -> None:
        changes = awatch(
            *self._watched.files,
            watch_filter=None,
            recursive=False,
            step=STEP,
            debounce=SETTLE,
            stop_event=self._changed,
            rust_timeout=60_000,
            yield_on_timeout=False,
        )
        async for batch in changes:
            async with self._one_at_a_time:
                paths, files = await asyncio.to_thread(_with_changed, batch, self._watched.files)
                self._watched = _Watched(files, self._watched.missing)
            self._on_change(paths)

    async def _leave_out_deleted(self, error: FileNotFoundError) -> None:
        """Watch no deleted folder any more; if all are there, compare their files instead of trying at once again."""
        before = self._watched
        await self.look_at(before.files.keys() | before.missing)
        if self._watched.files.keys() == before.files.keys():
            self._complain(str(error))
            await self._poll()

    async def _compare_once_started(self) -> None:
        """Report what changed after one watch was stopped and before the next one had started."""
        await asyncio.sleep(STARTED_SECONDS)
        await self._compare()

    async def _poll(self) -> None:
        """Compare the files again and again until the folders change, which is when watching is tried again."""
        while not self._changed.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await self._changed.wait()
            if not self._changed.is_set():
                await self._compare()

    async def _compare(self) -> None:
        """Report the files that are not as they were when they were compared last."""
        async with self._one_at_a_time:
            before = self._watched
            files, changed = await asyncio.to_thread(_compared, before.files)
            self._watched = _Watched(files, before.missing)
        if changed:
            self._on_change(changed)

    def _complain(self, error: str) -> None:
        if not self._has_complained:
            self._has_complained = True
            log.warning(
                "files_not_watched",
                error=escape_text(error),
                instead=f"changed files are noticed every {POLL_SECONDS:g} s",
                hint="raise fs.inotify.max_user_instances and max_user_watches; rename files whose names are not UTF-8",
            )


def _watched(folders: Collection[Path], before: _Watched) -> _Watched:
    """Return what is watched from now on; what is known of the files of a folder stays known. Blocks."""
    named = frozenset(folders)
    there = frozenset(folder for folder in named if folder.is_dir())
    files = {folder: before.files[folder] if folder in before.files else _versions_in(folder) for folder in there}
    return _Watched(files, named - there)


def _with_changed(
    batch: Collection[tuple[object, str]], before: Mapping[Path, FileVersions]
) -> tuple[set[Path], Mapping[Path, FileVersions]]:
    """Return the paths that were reported to have changed, and all files with these as they are now. Blocks."""
    paths = {Path(path) for _, path in batch}
    changed: dict[Path, dict[str, tuple[int, int, int]]] = {}
    for path in paths:
        folder = changed.setdefault(path.parent, dict(before.get(path.parent, {})))
        folder.pop(path.name, None)
        folder |= _versions_of([path])
    return paths, {folder: changed.get(folder, files) for folder, files in before.items()}


def _compared(before: Mapping[Path, FileVersions]) -> tuple[Mapping[Path, FileVersions], set[Path]]:
    """Return all files as they are now, and those that are not as they were. Blocks."""
    now = {folder: _versions_in(folder) for folder in before}
    changed = {
        folder / name
        for folder, files in now.items()
        for name in before[folder].keys() | files.keys()
        if before[folder].get(name) != files.get(name)
    }
    return now, changed


def _versions_in(folder: Path) -> FileVersions:
    """Return what identifies a version of every file directly within a folder."""
    with suppress(OSError):
        return _versions_of(islice(folder.iterdir(), MOST_COMPARED))
    return {}


def _versions_of(paths: Iterable[Path]) -> dict[str, tuple[int, int, int]]:
    found = {}
    for path in paths:
        with suppress(OSError):
            row = path.stat()
            found[path.name] = (row.st_ino, row.st_size, row.st_mtime_ns)
    return found
