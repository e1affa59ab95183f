"""The key of a data folder, with which the daemon signs what it must recognise as its own or its holders' later.

The key is a file of the data folder that is created with it and that no sandbox shows. So a signature proves that the
content was not written by an agent or a check. Without sandboxes a program of the same user can read the key.
"""

import os
import secrets
from contextlib import suppress
from functools import cached_property
from hashlib import blake2b
from hmac import compare_digest
from pathlib import Path

from orchestrator.formats.files import read_file

FILE = "signing.key"
KEY_BYTES = 32


class SigningKey:
    """The key of one data folder, read or created when it is first needed. Raises OSError then."""

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / FILE

    def sign(self, content: bytes) -> str:
        """Return the signature of a content, in hexadecimal."""
        return blake2b(content, key=self._key, digest_size=KEY_BYTES).hexdigest()

    def is_signed(self, content: bytes, signature: str) -> bool:
        """Return whether this is the content's signature."""
        return compare_digest(self.sign(content).encode(), signature.encode("utf-8", "replace"))

    def derived(self, purpose: str) -> str:
        """Return a key for one purpose alone, in hexadecimal: it tells nothing of this one or of others."""
        return self.sign(b"key for\0" + purpose.encode("utf-8", "surrogateescape"))

    @cached_property
    def _key(self) -> bytes:
        """The key; one that is damaged is replaced, and then nothing signed before is recognised."""
        while len(key := read_file(self._path) or b"") != KEY_BYTES:
            _create(self._path, replace=key != b"")
        return key


def _create(path: Path, *, replace: bool) -> None:
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
