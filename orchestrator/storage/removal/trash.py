"""Remove files of tasks so that a crash leaves them whole or gone: they are renamed into the trash and emptied there.

    <data>/trash/<entry>/record.json     what is removed, by which rule, on whose word; only of what retention removes
    <data>/trash/<entry>/content/<n>     the files and folders themselves

A rename takes no time, however large a folder is; `emptying` does the rest later, in slices. Removals with a record are
written into the log of removals once: after the rename, before the first file is lost, or after the last one where the
disk was too full before.
"""

import os
import stat
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import orjson
import structlog

from orchestrator.formats.codec import JsonObject
from orchestrator.formats.disk.trees import removing
from orchestrator.formats.files import make_private, parsed, read_file, sync_folder, write_atomically
from orchestrator.storage.removal.log import RemovalLog, is_full

log = structlog.get_logger()

TRASH, RECORD, CONTENT = "trash", "record.json", "content"
_PATHS = "paths"


class Trash:
    """The trash of one data folder; every method blocks and raises OSError."""

    def __init__(self, data_dir: Path) -> None:
        self._data, self.folder = data_dir, data_dir / TRASH
        self.removals = RemovalLog(data_dir)

    def discard(self, paths: Sequence[Path], record: JsonObject | None = None) -> None:
        """Move files and folders below the data folder into the trash, those that are there; a link is only unlinked.

        With a `record`, which is written first, the removal is logged.
        """
        present = [path for path in paths if os.path.lexists(path)]
        if not present:
            return
        entry = Path(tempfile.mkdtemp(dir=make_private(self.folder), prefix=""))
        (entry / CONTENT).mkdir(mode=0o700)
        if record is not None:
            names = [os.fsdecode(path.relative_to(self._data)) for path in present]
            try:
                write_atomically(entry / RECORD, orjson.dumps({**record, _PATHS: names}))
            except OSError as error:
                if not is_full(error):
                    raise
                log.warning("removal_not_logged", entry=entry.name, removal=record)
        self._move(entry, present)
        self._is_logged(entry)

    def emptying(self) -> Iterator[None]:
        """Remove for good what is in the trash, and yield now and then; what cannot be removed is logged and stays.

        Removals that a crash interrupted are completed if any of their files had been moved, and else dropped.
        """
        if not self.folder.is_dir():
            return
        for entry in sorted(self.folder.iterdir()):
            try:
                if not self._resume(entry):
                    yield from removing(entry / CONTENT)
                    self._log(entry)
                yield from removing(entry)
            except OSError as error:
                log.warning("trash_not_emptied", entry=entry.name, error=str(error))

    def _resume(self, entry: Path) -> bool:
        """Complete a removal; return whether it is logged, for which the disk may be too full."""
        record = self._record(entry)
        content = entry / CONTENT
        if record is None or self.removals.has(entry.name) or not (content.is_dir() and any(content.iterdir())):
            return True
        names = record.get(_PATHS)
        paths = [self._data / str(name) for name in names] if isinstance(names, list) else []
        self._move(entry, [path for path in paths if ".." not in path.parts and path.is_relative_to(self._data)])
        return self._is_logged(entry)

    def _move(self, entry: Path, paths: Sequence[Path]) -> None:
        for number, path in enumerate(paths):
            with suppress(FileNotFoundError):
                _make_movable(path)
                path.rename(entry / CONTENT / f"{number}-{path.name[:100]}")
        sync_folder(entry / CONTENT)

    def _is_logged(self, entry: Path) -> bool:
        """Log a removal unless the disk is full; then there will be space once its files are gone."""
        try:
            self._log(entry, self.removals.add)
        except OSError as error:
            if not is_full(error):
                raise
            return False
        return True

    def _log(self, entry: Path, write: Callable[[str, JsonObject], None] | None = None) -> None:
        record = self._record(entry)
        if record is not None:
            line = {name: value for name, value in record.items() if name != _PATHS}
            (write or self.removals.note)(entry.name, line)

    def _record(self, entry: Path) -> JsonObject | None:
        return parsed(read_file(entry / RECORD) or b"")


def _make_movable(path: Path) -> None:
    """Make a folder writable, as it must be to be moved, because its `..` changes. Raises OSError."""
    if stat.S_ISDIR(path.lstat().st_mode):
        path.chmod(0o700)
