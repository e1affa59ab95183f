"""The key of a data folder, with which the daemon signs what it must recognise as its own or its holders' later.

The key is a file of the data folder that is created with it and that no sandbox shows. So a signature proves that the
content was not written by an agent or a check. Without sandboxes a program of the same user can read the key.
"""

import os
import secrets
from contextlib import suppress
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path

from orchestrator.formats.files import read_file

FILE = "signing.key"
KEY_BYTES = 32


def signing_key(data_dir: Path | str, purpose: str) -> bytes:
    """Return the key of a data folder for one purpose alone: it tells nothing of others. Raises OSError.

    It is created when there is none. A damaged one is replaced, and then nothing signed before is recognised.
    """
    path = f"{data_dir}/{FILE}"
    try:
        found = os.stat(path)  # noqa: PTH116  (for each of ten thousand tasks at a start)
    except FileNotFoundError:
        _create(Path(path))
        found = os.stat(path)  # noqa: PTH116
    key = _content(path, found.st_ino, found.st_mtime_ns)
    return blake2b(purpose.encode("utf-8", "surrogateescape"), key=key, digest_size=KEY_BYTES).digest()


@lru_cache(maxsize=16)
def _content(path: str, _inode: int, _changed: int) -> bytes:
    """Return what a key file holds, read once for as long as it is the same file."""
    while len(key := read_file(Path(path)) or b"") != KEY_BYTES:
        _create(Path(path), replace=key != b"")
    return key


def _create(path: Path, *, replace: bool = False) -> None:
    """Write a new key so that, of two processes that do so at once, both read the same one afterwards."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, secrets.token_bytes(KEY_BYTES))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    if replace:
        draft.replace(path)
        return
    with suppress(FileExistsError):
        path.hardlink_to(draft)
    draft.unlink()
