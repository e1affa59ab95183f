"""Which copies of repositories are being fetched, so that nobody removes one meanwhile; for any thread."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


class SourcesInUse:
    """The names of the folders that are in use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = Counter[str]()

    @contextmanager
    def using(self, name: str) -> Iterator[None]:
        """Keep a copy from being removed; waits for the end of a removal."""
        with self._lock:
            self._users[name] += 1
        try:
            yield
        finally:
            with self._lock:
                self._users[name] -= 1

    @contextmanager
    def unused(self, name: str) -> Iterator[bool]:
        """Yield whether nobody uses a copy; nobody begins to before this is left."""
        with self._lock:
            yield not self._users[name]
