"""Writing files so that a power cut leaves either the old content or the new."""

import os
from contextlib import suppress
from pathlib import Path


def write_atomically(path: Path, content: bytes, *, durable: bool = True) -> None:
    """Replace a file's content by rename, readable by its owner only; `durable` waits for the disk."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        with open(partial, "wb", opener=_private) as file:
            file.write(content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        partial.replace(path)
    except OSError:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise
    if durable:
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_private(folder: Path) -> Path:
    """Make a folder for its owner only, with its parents; an existing one is left as it is."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
