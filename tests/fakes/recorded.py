"""Unpack the data folder that was recorded when the last version with format 1 was killed.

    with recorded() as there:
        store = FolderStore(there.data)

tests/data/data_folder_v1/record.py says how it was recorded. Its files hold absolute paths, and other files say how
many bytes those files have. So it is unpacked into a folder whose path is as long as the recorded one, each occurrence
of the path is replaced, and the checksums are computed again.
"""

import hashlib
import json
import os
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

FOLDER = Path(__file__).resolve().parent.parent / "data/data_folder_v1"
RECORDED = Path("/tmp/orchestrator-data-folder-v1")
"""The folder in which it was recorded."""

_RANDOM = 8
"""The number of characters that `tempfile` appends to a prefix."""
_SEAL, _END = b',\n  "checksum": "', b'"\n}\n'
"""What stands before and after the SHA-256 at the end of a document of format 1."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """The unpacked files below `root`, and what the version that wrote them reads there."""

    root: Path
    expected: dict[str, Any]

    @property
    def data(self) -> Path:
        """The data folder itself."""
        return self.root / "data"


@contextmanager
def recorded() -> Iterator[Recorded]:
    """Unpack the recording into a folder of its own, which is removed at the end."""
    with TemporaryDirectory(prefix=RECORDED.name[:-_RANDOM], dir=RECORDED.parent) as name:
        assert len(name) == len(str(RECORDED)), f"{name} is not as long as {RECORDED}"
        _unpack(Path(name))
        yield Recorded(Path(name), _expected(name))


def parts() -> tuple[str, ...]:
    """The parts that the recorded tasks play, such as `running`: the names in `expected["tasks"]`."""
    return tuple(_expected(str(RECORDED))["tasks"])


def _expected(root: str) -> dict[str, Any]:
    text = (FOLDER / "expected.json").read_text("utf-8")
    return dict(json.loads(text.replace(str(RECORDED), root)))


def _unpack(root: Path) -> None:
    with tarfile.open(FOLDER / "data_folder.tar.xz") as archive:
        for entry in archive:
            path = root / entry.name
            if entry.issym():
                path.symlink_to(entry.linkname.replace(str(RECORDED), str(root)))
                continue
            file = archive.extractfile(entry)
            if file is None:
                path.mkdir()
            else:
                path.write_bytes(_moved(file.read(), root))
            path.chmod(entry.mode)
            os.utime(path, (entry.mtime, entry.mtime))


def _moved(content: bytes, root: Path) -> bytes:
    """The content of a recorded file with `root` for the recorded path, and with a new checksum if it had one."""
    body, seal, rest = content.replace(bytes(RECORDED), bytes(root)).rpartition(_SEAL)
    if not (seal and rest.endswith(_END)):
        return body + seal + rest
    return body + seal + hashlib.sha256(body).hexdigest().encode() + _END
