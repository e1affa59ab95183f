"""What an agent shows to be let at the state of its own task: a word of its attempt, kept hashed in its run's folder.

The word stands in the agent's environment, which every process of the same user can read. So it opens nothing by
itself: whoever shows it must also descend from the very run that it was given to (api/callers.py).
"""

import secrets
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path

from orchestrator.formats.files import read_file, write_atomically

NAME = "token"


def issue_token(run: Path) -> str:
    """A new word for a run that has not begun; the one before is good for nothing any more. Raises OSError."""
    word = secrets.token_urlsafe(32)
    write_atomically(run / NAME, _hashed(word))
    return word


def is_token_of(run: Path, word: str) -> bool:
    """Whether it is the word of that run."""
    kept = read_file(run / NAME)
    return bool(kept) and compare_digest(kept or b"", _hashed(word))


def _hashed(word: str) -> bytes:
    return sha256(word.encode("utf-8", "replace")).hexdigest().encode()
