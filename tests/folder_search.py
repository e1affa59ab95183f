"""Read and remove folders in which other processes work, whose files appear and vanish meanwhile."""

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def plain_files(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """Return every plain file below a folder with its content; files that vanish before they are read are skipped."""
    for parent, _, names in os.walk(folder):
        for path in (Path(parent, name) for name in names):
            with suppress(FileNotFoundError):
                if path.is_file() and not path.is_symlink():
                    yield path, path.read_bytes()


def files_with(folder: Path, *forms: bytes) -> list[str]:
    """Return the files below a folder that contain any of these texts."""
    return [str(path) for path, held in plain_files(folder) if any(form in held for form in forms)]


def try_remove(folder: Path) -> bool:
    """Remove a folder; return False if a file was created in it meanwhile, and it has to be tried again."""
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()


def open_files(pid: int) -> list[str]:
    """Return the open files of a process; those closed meanwhile are skipped."""
    found = []
    for name in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208 - names alone
        with suppress(FileNotFoundError):
            found.append(str(Path(f"/proc/{pid}/fd/{name}").readlink()))
    return found
