"""Files in which a person declares pipelines and roles: where they are, and how they are read safely.

Links are followed, because people keep their configuration elsewhere and link it. The target must be a plain file of
sensible size, and is opened without waiting for a FIFO or a device.
"""

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from orchestrator.formats.table import definition_error

LARGEST_FILE = 1024 * 1024
"""Bytes; a longer definition is refused unread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Folders:
    """Folders of definitions; a later folder hides what an earlier one has under the same name."""

    pipelines: tuple[Path, ...]
    roles: tuple[Path, ...]


def read_declared(path: Path) -> str:
    """Return the text of a definition file. Raises DefinitionError if it is not a plain, readable file of UTF-8."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise definition_error(path, "this is not a regular file")
            body = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise definition_error(path, f"cannot be read: {error.strerror}") from error
    if len(body) > LARGEST_FILE:
        raise definition_error(path, f"larger than {LARGEST_FILE // 1024} KiB, which no definition is")
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        line = body.count(b"\n", 0, error.start) + 1
        raise definition_error(path, "this is not UTF-8 text", line) from error
    if "\0" in text:
        raise definition_error(path, "this is binary, not text", text.count("\n", 0, text.index("\0")) + 1)
    return text
