"""`<data>/format`: which format a data folder has, which program wrote it, and which folder it is.

    1   every version before this file existed; tasks may have states of format 1
    2   this file; a task's state is taken to its present format by its next decision

A program refuses a folder of a later format. Before a folder is taken to a later one, whatever that changes is copied
to `before-format-<number>-<time>/` in the folder: by reflink where the file system can, else whole. Copies of ended
tasks are not made, for nothing is written to them any more. What was done is a line in `migrations`.

The id tells a folder from a restored copy of it.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import cast
from uuid import uuid4

import orjson
import structlog

from orchestrator import __version__
from orchestrator.errors import NotPossibleNow
from orchestrator.formats.codec import Json, JsonObject, stamp
from orchestrator.formats.fields import list_of, text_of
from orchestrator.formats.files import make_private, parsed, read_file, sync_folder, write_atomically
from orchestrator.storage.journal import NAME as JOURNAL
from orchestrator.storage.migration import is_current
from orchestrator.storage.records import StoreError
from orchestrator.storage.state_file import NAME as STATE

log = structlog.get_logger()

FILE = "format"
CURRENT = 2
RESTORING = ".restoring"
"""The folder that a restore works in until it is done."""
_FICLONE = 0x40049409
"""From linux/fs.h: let a file share the blocks of another until one of them is written."""


class UnfitFolder(StoreError, NotPossibleNow):
    """A data folder cannot be used by this program."""


class UnfinishedRestore(UnfitFolder):
    """A data folder cannot be used until the restore into it has ended."""


def read_format(data_dir: Path) -> JsonObject:
    """Return what a data folder says of its format; empty if it does not. Raises UnfitFolder and OSError."""
    content = read_file(data_dir / FILE)
    if content == b"":
        return {}
    found = parsed(content or b"")
    if found is None or not isinstance(found.get("format"), int):
        raise UnfitFolder(
            f"{data_dir / FILE} does not say which format the folder has; restore the file from a backup, or remove it"
            f" if orchestrator {__version__} or an earlier one wrote the folder last"
        )
    return found


def require_readable(data_dir: Path) -> JsonObject:
    """Return what a data folder says of its format. Raises UnfitFolder if this program must not touch it."""
    if (data_dir / RESTORING).exists():
        raise UnfinishedRestore(
            f"a restore into {data_dir} has not ended; wait for it, or remove the folder and restore again"
        )
    found = read_format(data_dir)
    number = cast(int, found.get("format", 1))
    if number > CURRENT:
        writer, copies = text_of(found.get("program")), sorted(one.name for one in data_dir.glob("before-format-*"))
        back = f"what it changed is kept in {data_dir / copies[-1]}; " if copies else ""
        raise UnfitFolder(
            f"{data_dir} has format {number}, which orchestrator {writer} wrote; this is orchestrator {__version__},"
            f" which reads up to {CURRENT}. Nothing was changed. Install orchestrator {writer} or later again, or go"
            f" back to the state before it: {back}`orchestrator help backup` says how"
        )
    return found


def adopt_folder(data_dir: Path, at: datetime) -> JsonObject:
    """Take a data folder to the present format, and return what it says of itself then. Raises UnfitFolder, OSError.

    Nothing is written to a folder that has the present format.
    """
    found = require_readable(data_dir)
    before = cast(int, found.get("format", 1))
    if found and before == CURRENT:
        return found
    old = list(_earlier(data_dir))
    steps = list_of(found.get("migrations"))
    if old:
        kept = _keep(data_dir, old, at)
        step: JsonObject = {"from": before, "to": CURRENT, "at": stamp(at), "program": __version__, "kept": kept}
        steps.append(cast(Json, step))
        log.info("data_folder_migrated", **{"from": before, "to": CURRENT, "kept": kept, "tasks": len(old)})
    return write_format(data_dir, text_of(found.get("id")) or uuid4().hex, steps)


def write_format(data_dir: Path, folder_id: str, migrations: list[Json], **more: Json) -> JsonObject:
    """Write the present format, and return what was written. Raises OSError."""
    document: JsonObject = {
        "format": CURRENT,
        "program": __version__,
        "id": folder_id,
        "migrations": migrations,
        **more,
    }
    write_atomically(data_dir / FILE, orjson.dumps(document, option=orjson.OPT_INDENT_2))
    return document


def _earlier(data_dir: Path) -> Iterator[Path]:
    """Yield the folders of live tasks whose state has an earlier format."""
    with suppress(FileNotFoundError):
        for folder in sorted((data_dir / "tasks").iterdir()):
            state = parsed(read_file(folder / STATE) or b"") if folder.is_dir() else None
            if state is not None and not is_current(state):
                yield folder


def _keep(data_dir: Path, folders: list[Path], at: datetime) -> str:
    """Copy what the migration of these tasks changes, and return the name of the copy's folder."""
    name = f"before-format-{CURRENT}-{at:%Y%m%dT%H%M%S}"
    partial = data_dir / f".before-format-{CURRENT}.partial"
    if partial.exists():  # of a start that was cut short
        shutil.rmtree(partial)
    for folder in folders:
        target = make_private(partial / "tasks" / folder.name)
        for file in (JOURNAL, STATE):
            if (folder / file).is_file():
                _copy(folder / file, target / file)
    partial.rename(data_dir / name)
    sync_folder(data_dir)
    return name


def _copy(source: Path, target: Path) -> None:
    """Copy a file, sharing its blocks where the file system can; a hard link to a journal would grow with it."""
    with source.open("rb") as old, target.open("wb") as new:
        os.fchmod(new.fileno(), 0o600)
        try:
            fcntl.ioctl(new.fileno(), _FICLONE, old.fileno())
        except OSError:
            while piece := old.read(1 << 20):
                new.write(piece)
        new.flush()
        os.fsync(new.fileno())
