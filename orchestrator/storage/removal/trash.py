"""Remove files of tasks so that a crash leaves them whole or gone: they are renamed into the trash and emptied there.

    <data>/trash/<entry>/record.json     what is removed, by which rule, on whose word; only of what retention removes
    <data>/trash/<entry>/content/<n>     the files and folders themselves, numbered as in the record
    <data>/trash/bare-<id>               a file or folder alone, where the disk was too full for an entry

A rename takes no time, however large a folder is, and no space; `emptying` does the rest later, in slices. Removals
with a record are written into the log of removals once: after the rename, before the first file is lost, or after the
last one where the disk was too full before. Many share one entry, because each entry waits for the disk four times.
"""

import os
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from uuid import uuid4

import orjson
import structlog

from orchestrator.formats.codec import Json, JsonObject
from orchestrator.formats.disk.trees import removing
from orchestrator.formats.files import make_private, parsed, read_file, sync_folder, write_atomically
from orchestrator.storage.removal.log import RemovalLog, is_full

log = structlog.get_logger()

TRASH, RECORD, CONTENT, BARE = "trash", "record.json", "content", "bare-"
FORMAT = 2
_PATHS, _REMOVALS = "paths", "removals"


@dataclass(frozen=True, slots=True, kw_only=True)
class Discard:
    """Files and folders below the data folder that go together, and what the log of removals says of that."""

    paths: Sequence[Path]
    record: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class _Removal:
    """A removal of an entry: its id in the log, and the paths by their numbers in the content."""

    id: str
    record: JsonObject
    paths: Mapping[int, Path]


class Trash:
    """The trash of one data folder; every method blocks and raises OSError."""

    def __init__(self, data_dir: Path) -> None:
        self._data, self.folder = data_dir, data_dir / TRASH
        self.removals = RemovalLog(data_dir)

    def prepare(self) -> None:
        """Make the folder of the trash while the disk has space for one."""
        try:
            make_private(self.folder)
        except OSError as error:
            if not is_full(error):
                raise
            log.warning("trash_not_made", error=str(error))

    def discard(self, paths: Sequence[Path]) -> None:
        """Move files and folders below the data folder into the trash, those that are there; a link is only unlinked.

        Nothing is logged.
        """
        if present := _present(paths):
            entry = self._new_entry()
            if entry is None:
                self._move_bare(present)
            else:
                self._move(entry, dict(enumerate(present)))

    def discard_all(self, several: Sequence[Discard]) -> list[bool]:
        """Do the same with several removals and log them; return of which there was anything."""
        found = [_present(one.paths) for one in several]
        there = [(one.record, paths) for one, paths in zip(several, found, strict=True) if paths]
        if there:
            self._discard_logged(there)
        return [bool(paths) for paths in found]

    def emptying(self) -> Iterator[None]:
        """Remove for good what is in the trash, and yield now and then; what cannot be removed is logged and stays.

        Removals that a crash interrupted are completed if any of their files had been moved, and else dropped.
        """
        if not self.folder.is_dir():
            return
        for entry in sorted(self.folder.iterdir()):
            try:
                if entry.name.startswith(BARE):
                    yield from _removing_bare(entry)
                    continue
                unlogged = self._resume(entry)
                if unlogged:
                    yield from removing(entry / CONTENT)
                    self.removals.note(_lines(unlogged))
                yield from removing(entry)
            except OSError as error:
                log.warning("trash_not_emptied", entry=entry.name, error=str(error))

    def _new_entry(self) -> Path | None:
        """Return a new entry; None if the disk is too full for one. Raises OSError if there is no trash either."""
        try:
            entry = Path(tempfile.mkdtemp(dir=make_private(self.folder), prefix=""))
            (entry / CONTENT).mkdir(mode=0o700)
        except OSError as error:
            if not is_full(error) or not self.folder.is_dir():
                raise
            return None
        return entry

    def _discard_logged(self, there: Sequence[tuple[JsonObject, Sequence[Path]]]) -> None:
        entry = self._new_entry()
        if entry is None:
            self._move_bare([path for _, paths in there for path in paths])
            self.removals.note({uuid4().hex: record for record, _ in there})
            return
        removals: list[Json] = [{**record, _PATHS: list(map(self._name, paths))} for record, paths in there]
        document: JsonObject = {"format": FORMAT, _REMOVALS: removals}
        is_recorded = True
        try:
            write_atomically(entry / RECORD, orjson.dumps(document))
        except OSError as error:
            if not is_full(error):
                raise
            is_recorded = False
        numbered = self._numbered(entry, document)
        self._move(entry, {number: path for one in numbered for number, path in one.paths.items()})
        if is_recorded:
            self._is_logged(numbered)
        else:
            self.removals.note(_lines(numbered))

    def _resume(self, entry: Path) -> list[_Removal]:
        """Complete the removals that had begun; return those that the disk is too full to log."""
        content = entry / CONTENT
        record = parsed(read_file(entry / RECORD) or b"")
        moved = {_number(path) for path in content.iterdir()} if content.is_dir() else set()
        begun = [one for one in self._numbered(entry, record) if moved & one.paths.keys()]
        logged = self.removals.known({one.id for one in begun})
        open_ones = [one for one in begun if one.id not in logged]
        for one in open_ones:
            self._move(entry, {number: path for number, path in one.paths.items() if number not in moved})
        return [] if self._is_logged(open_ones) else open_ones

    def _move(self, entry: Path, paths: Mapping[int, Path]) -> None:
        for number, path in paths.items():
            with suppress(FileNotFoundError):
                _make_movable(path)
                path.rename(entry / CONTENT / f"{number}-{path.name[:100]}")
        sync_folder(entry / CONTENT)

    def _move_bare(self, paths: Sequence[Path]) -> None:
        for path in paths:
            with suppress(FileNotFoundError):
                _make_movable(path)
                path.rename(self.folder / f"{BARE}{uuid4().hex}")
        sync_folder(self.folder)

    def _is_logged(self, removals: Sequence[_Removal]) -> bool:
        """Log removals unless the disk is full; then there will be space once their files are gone."""
        try:
            self.removals.add(_lines(removals))
        except OSError as error:
            if not is_full(error):
                raise
            return False
        return True

    def _numbered(self, entry: Path, document: JsonObject | None) -> list[_Removal]:
        """Return the removals of an entry's record; before format 2 it had one."""
        if document is None:
            return []
        listed = document.get(_REMOVALS)
        several = listed if isinstance(listed, list) else [document]
        numbers, found = count(), []
        for place, record in enumerate(several):
            names = record.get(_PATHS) if isinstance(record, dict) else None
            if isinstance(record, dict) and isinstance(names, list):
                line = {name: value for name, value in record.items() if name != _PATHS}
                paths = {next(numbers): self._data / str(name) for name in names}
                within = {number: path for number, path in paths.items() if self._holds(path)}
                name = f"{entry.name}-{place}" if several is listed else entry.name
                found.append(_Removal(id=name, record=line, paths=within))
        return found

    def _holds(self, path: Path) -> bool:
        return ".." not in path.parts and path.is_relative_to(self._data)

    def _name(self, path: Path) -> str:
        return os.fsdecode(path.relative_to(self._data))


def _lines(removals: Sequence[_Removal]) -> dict[str, JsonObject]:
    return {one.id: one.record for one in removals}


def _present(paths: Sequence[Path]) -> list[Path]:
    return [path for path in paths if os.path.lexists(path)]


def _number(path: Path) -> int:
    number = path.name.partition("-")[0]
    return int(number) if number.isdecimal() else -1


def _removing_bare(path: Path) -> Iterator[None]:
    if path.is_dir() and not path.is_symlink():
        yield from removing(path)
    else:
        path.unlink()


def _make_movable(path: Path) -> None:
    """Make a folder writable, as it must be to be moved, because its `..` changes. Raises OSError."""
    if stat.S_ISDIR(path.lstat().st_mode):
        path.chmod(0o700)
