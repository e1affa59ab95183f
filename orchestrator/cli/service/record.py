"""What `service install` wrote: with which content, so that nothing else is ever overwritten or removed."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator import __version__
from orchestrator.formats.fields import list_of, object_of, text_of
from orchestrator.formats.files import parsed, read_file

FORMAT = 1
LONGEST = 4096
"""Characters of a path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The digests of the files that were written, the targets of links, and whether lingering was switched on.

    While a file is rewritten it has two digests.
    """

    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    lingers: bool = False

    def is_ours(self, path: Path) -> bool:
        """Return whether a file is still as it was written."""
        content = None if path.is_symlink() else read_file(path)
        return bool(content) and digest(content or b"") in self.files.get(str(path), ())

    def document(self) -> bytes:
        """Return it as it is stored."""
        document = {
            "format": FORMAT,
            "version": __version__,
            "files": dict(self.files),
            "links": dict(self.links),
            "lingers": self.lingers,
        }
        return json.dumps(document, indent=2).encode() + b"\n"


def read_record(path: Path) -> Record:
    """Return the record in a file; an empty one where there is none that can be read."""
    document = parsed(read_file(path) or b"") or {}
    if document.get("format") != FORMAT:
        return Record()
    files = {
        name: tuple(text_of(one, LONGEST) for one in list_of(digests))
        for name, digests in object_of(document.get("files")).items()
        if name.startswith("/")
    }
    links = {
        name: text_of(target, LONGEST)
        for name, target in object_of(document.get("links")).items()
        if name.startswith("/")
    }
    return Record(files=files, links=links, lingers=document.get("lingers") is True)


def digest(content: bytes) -> str:
    """Return what tells one content from another."""
    return hashlib.sha256(content).hexdigest()
