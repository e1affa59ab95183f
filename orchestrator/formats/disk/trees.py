"""Measure and remove whole folders of strangers, however deep and full they are, without following a link.

Agents fill these folders, so nothing here recurses, and both stop between slices, so that they can be spread over time.
"""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

MOST_FILES = 2_000_000
"""Files of one folder that are measured; what lies beyond is not counted."""
SLICE = 2_000
"""Files that are removed before somebody else gets a turn."""
_BLOCK = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a folder takes on the disk: bytes, files and folders, and when any of them was written last, as a timestamp.

    `complete` is False where there is more than was counted.
    """

    size: int = 0
    files: int = 0
    newest: float = 0.0
    complete: bool = True

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            size=self.size + other.size,
            files=self.files + other.files,
            newest=max(self.newest, other.newest),
            complete=self.complete and other.complete,
        )


NOTHING = Usage()


def usage_of(path: str | Path, most: int = MOST_FILES) -> Usage:
    """Return what a file or a folder takes on the disk, as du(1) counts: blocks, each hard-linked file once.

    What cannot be read, and paths longer than the kernel takes, are left out, and the usage is not complete then.
    """
    try:
        top = os.lstat(path)
    except OSError:
        return NOTHING
    size, files, newest, complete = top.st_blocks * _BLOCK, 1, top.st_mtime, True
    folders = [os.fspath(path)] if stat.S_ISDIR(top.st_mode) else []
    linked: set[tuple[int, int]] = set()
    while folders and files < most:
        try:
            for entry, found in _entries(folders.pop()):
                files += 1
                if found.st_nlink > 1 and not stat.S_ISDIR(found.st_mode):
                    if (found.st_dev, found.st_ino) in linked:
                        continue
                    linked.add((found.st_dev, found.st_ino))
                size += found.st_blocks * _BLOCK
                newest = max(newest, found.st_mtime)
                if stat.S_ISDIR(found.st_mode):
                    folders.append(entry.path)
        except OSError:
            complete = False
    return Usage(size=size, files=files, newest=newest, complete=complete and not folders)


def remove_tree(folder: Path) -> None:
    """Remove a folder and everything in it, whatever its permissions are. Raises OSError."""
    for _ in removing(folder):
        pass


def removing(folder: Path) -> Iterator[None]:
    """Remove a folder and everything in it, and yield after each SLICE files. Raises OSError.

    Folders in it are moved up to its top before they are emptied, so that no path becomes too long. It must not be used
    by anybody else. If it is stopped in between, doing it again goes on.
    """
    pending, done = [folder], 0
    while pending:
        top = pending.pop()
        os.chmod(top, 0o700)  # noqa: PTH101 - it is no link: lstat said that it is a folder
        inner: list[Path] = []
        with os.scandir(top) as entries:
            for entry in list(entries):
                if entry.is_dir(follow_symlinks=False):
                    inner.append(_moved_up(entry, folder))
                else:
                    os.unlink(entry.path)  # noqa: PTH108 - a path as text
                done += 1
                if done % SLICE == 0:
                    yield
        if top != folder:
            top.rmdir()
        pending += inner
    folder.rmdir()


def _moved_up(entry: "os.DirEntry[str]", folder: Path) -> Path:
    """Move a folder to the top of the one that is removed; it must be writable for that, because its `..` changes."""
    place = folder / uuid4().hex
    os.chmod(entry.path, 0o700)  # noqa: PTH101 - it is no link
    os.rename(entry.path, place)  # noqa: PTH104
    return place


def _entries(folder: str) -> Iterator[tuple["os.DirEntry[str]", os.stat_result]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            yield entry, entry.stat(follow_symlinks=False)
