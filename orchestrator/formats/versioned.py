"""Small JSON documents of ours that say in `format` which version of themselves they are.

One that is damaged, or of a version that this program does not know, is never guessed at.
"""

from pathlib import Path
from typing import TypeVar

import orjson
import structlog

from orchestrator.formats.codec import from_json, to_json
from orchestrator.formats.fields import object_of
from orchestrator.formats.files import parsed, read_file, write_atomically

log = structlog.get_logger()

T = TypeVar("T")


def encode_versioned(value: object, number: int, *, indent: bool = False) -> bytes:
    """Return a mapping or a dataclass as a document with the number of its format."""
    document = {"format": number, **object_of(to_json(value))}
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 if indent else 0)


def decode_versioned(kind: type[T], content: bytes | None, number: int) -> T:
    """Return the value in a document of this format. Raises ValueError, which says what the content is instead."""
    document = parsed(content or b"")
    if document is None:
        raise ValueError("it is not a JSON object")
    if (found := document.pop("format", None)) != number:
        raise ValueError(f"it has the format {found}, and this version reads {number}")
    return from_json(kind, document)


def read_versioned(kind: type[T], path: Path, number: int) -> T | None:
    """Return the value in a file; None if there is none, or one that cannot be read, which is logged. Blocks."""
    try:
        content = read_file(path)
        return None if content == b"" else decode_versioned(kind, content, number)
    except (OSError, ValueError) as error:
        log.warning("document_unreadable", file=str(path), reason=str(error))
        return None


def write_versioned(path: Path, value: object, number: int, *, indent: bool = False) -> None:
    """Replace a file by a document, and wait for the disk. Blocks. Raises OSError."""
    write_atomically(path, encode_versioned(value, number, indent=indent))
