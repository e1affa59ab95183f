"""Opening folders of a tree in which others write: a link never leads out of it.

Each folder is opened from the one above it, so a link that is put into a path meanwhile is met, and refused, as well.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def open_folder(name: str, above: int) -> int:
    """Open a folder in an open one and return the descriptor. Raises OSError, ENOTDIR or ELOOP for a link."""
    return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=above)


@contextmanager
def opened_folder(base: Path, below: str = "") -> Iterator[int]:
    """Open a folder at a path below another, following no link below that one. Raises OSError."""
    folder = os.open(base, _FOLDER)
    try:
        for name in filter(None, below.split("/")):
            inner = open_folder(name, folder)
            os.close(folder)
            folder = inner
        yield folder
    finally:
        os.close(folder)
