"""Making one backup: a private file that appears whole or not at all, after a look at the space that it may need."""

import os
import platform
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO

from orchestrator import __version__
from orchestrator.errors import NotPossibleNow
from orchestrator.formats.codec import Json, JsonObject, stamp
from orchestrator.formats.files import sync_folder
from orchestrator.formats.units import size as shown
from orchestrator.storage.backup.archive import FORMAT, PIECE, ArchiveWriter, BackupError
from orchestrator.storage.backup.contents import MADE_HERE, Part
from orchestrator.storage.backup.snapshot import Snapshot, estimate, free_space
from orchestrator.storage.folder.format import require_readable

_ANEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class BackupExists(BackupError, NotPossibleNow):
    """There is a file of that name already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupOrder:
    """What is to be backed up: a data folder, without these parts, with these folders of settings.

    `floor` are the bytes that must stay free on the disk. `tell` is called with the files and bytes so far, and with
    the bytes in all.
    """

    data_dir: Path
    at: datetime
    exclude: frozenset[Part] = frozenset()
    settings: tuple[Path, ...] = ()
    floor: int = 0
    tell: Callable[[int, int, int], None] = lambda _files, _size, _whole: None


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupMade:
    """What a backup has: files and bytes as they were, and the bytes that it takes.

    `unsettled` are tasks that changed all the time, `unreadable` files that this user may not read; `needs_key` says
    that it has sealed values, whose key is not in it.
    """

    files: int
    size: int
    packed: int
    unsettled: tuple[str, ...]
    unreadable: tuple[str, ...]
    needs_key: bool


def make_backup(order: BackupOrder, target: Path, *, replace: bool = False) -> BackupMade:
    """Write a backup to the file `target`. Raises BackupError, StoreError and OSError; then there is no such file."""
    if target.is_dir():
        raise BackupError(f"{target} is a folder; name a file in it, such as {target / 'orchestrator.tar.zst'}")
    if os.path.lexists(target) and not replace:
        raise BackupExists(f"{target} exists already; give another name, or replace it with --force")
    _refuse_inside(order.data_dir, target.absolute())
    _require_space(order, target.absolute().parent)
    partial = target.with_name(f".{target.name}.partial")
    partial.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(partial, _ANEW, 0o600), "w+b") as file:
            made = _write(order, file, partial.parent)
            os.fsync(file.fileno())
        _put_in_place(partial, target, replace=replace)
    except BaseException:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise
    sync_folder(target.absolute().parent)
    return made


def stream_backup(order: BackupOrder, out: IO[bytes]) -> BackupMade:
    """Write a backup to a stream, by way of a scratch file in the folder for temporary files. Raises as make_backup."""
    _require_space(order, Path(tempfile.gettempdir()))
    with tempfile.TemporaryFile() as file:
        made = _write(order, file, None)
        file.seek(0)
        while piece := file.read(PIECE):
            out.write(piece)
        out.flush()
    return made


def _write(order: BackupOrder, file: IO[bytes], scratch: Path | None) -> BackupMade:
    if not (order.data_dir / "tasks").is_dir():
        raise BackupError(f"{order.data_dir} is no data folder: it has no tasks/; name it with --data-dir")
    found = require_readable(order.data_dir)
    needs_key = _has_sealed_values(order.data_dir)
    _, whole = estimate(order.data_dir, order.exclude)
    header: JsonObject = {
        "format": FORMAT,
        "program": __version__,
        "host": platform.node(),
        "created_at": stamp(order.at),
        "data_dir": str(order.data_dir),
        "folder": found.get("id"),
        "folder_format": found.get("format", 1),
        "excluded": list[Json](sorted(part.value for part in order.exclude)),
        "settings": list[Json](str(folder) for folder in order.settings),
        "needs_key": needs_key,
    }
    with tempfile.TemporaryFile(dir=scratch) as manifest:
        writer = ArchiveWriter(file, manifest, header)
        snapshot = Snapshot(
            data_dir=order.data_dir,
            writer=writer,
            exclude=order.exclude,
            tell=lambda files, size: order.tell(files, size, whole),
        )
        snapshot.take(order.settings)
        summary: dict[str, Json] = {"unsettled": list(snapshot.unsettled), "unreadable": list(snapshot.unreadable)}
        writer.finish(summary)
    return BackupMade(
        files=writer.files,
        size=writer.size,
        packed=file.tell(),
        unsettled=tuple(snapshot.unsettled),
        unreadable=tuple(snapshot.unreadable),
        needs_key=needs_key,
    )


def _put_in_place(partial: Path, target: Path, *, replace: bool) -> None:
    if replace:
        partial.replace(target)
        return
    try:
        target.hardlink_to(partial)
    except FileExistsError:
        raise BackupExists(f"{target} was made meanwhile; give another name") from None
    except OSError:  # a file system without hard links
        if os.path.lexists(target):
            raise BackupExists(f"{target} was made meanwhile; give another name") from None
        partial.replace(target)
    partial.unlink(missing_ok=True)


def _refuse_inside(data_dir: Path, target: Path) -> None:
    """Refuse a file in the data folder, where the next backup would take it in; `backups/` there is left out."""
    where = target.parent.resolve()
    if where.is_relative_to(data_dir.resolve()) and not where.is_relative_to(data_dir.resolve() / MADE_HERE):
        raise BackupError(f"{target} lies in the data folder itself; name a file elsewhere, best on another disk")


def _require_space(order: BackupOrder, folder: Path) -> None:
    """Refuse a backup for which there may be too little space: what is in it may be packed already."""
    _, whole = estimate(order.data_dir, order.exclude)
    free = free_space(folder)
    if free - order.floor < whole:
        raise BackupError(
            f"the backup may take up to {shown(whole)}, and {folder} has {shown(free)} free, of which"
            f" {shown(order.floor)} must stay so; name a file on another disk, or leave parts out with --exclude"
        )


def _has_sealed_values(data_dir: Path) -> bool:
    with suppress(OSError):
        return any((folder / "secrets").is_file() for folder in (data_dir / "tasks").iterdir())
    return False


@contextmanager
def opened_backup(path: Path | None, stdin: IO[bytes]) -> Iterator[IO[bytes]]:
    """Open a backup for reading; None is standard input. Raises OSError."""
    if path is None:
        yield stdin
        return
    with path.open("rb") as file:
        yield file


def sources_of(folders: Sequence[Path]) -> tuple[Path, ...]:
    """Return the folders that are there."""
    return tuple(folder for folder in folders if folder.is_dir())
