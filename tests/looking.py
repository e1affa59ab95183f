"""Looking through folders in which others are at work, whose files come and go meanwhile, and taking them away."""

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def plain_files(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """Every plain file below a folder with what it holds; one that is gone before it is read is passed over."""
    for parent, _, names in os.walk(folder):
        for path in (Path(parent, name) for name in names):
            with suppress(FileNotFoundError):
                if path.is_file() and not path.is_symlink():
                    yield path, path.read_bytes()


def files_with(folder: Path, *forms: bytes) -> list[str]:
    """The files below a folder in which any of these stands."""
    return [str(path) for path, held in plain_files(folder) if any(form in held for form in forms)]


def taken_away(folder: Path) -> bool:
    """Take a folder away; False if a file came into it meanwhile, and it has to be tried again."""
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()


def opened_by(pid: int) -> list[str]:
    """What a process has open; one that is closed before it is looked at is passed over."""
    found = []
    for name in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208 - names alone
        with suppress(FileNotFoundError):
            found.append(str(Path(f"/proc/{pid}/fd/{name}").readlink()))
    return found
