"""The FIFO through which holders wake the daemon, and the file whose age tells them that it lives."""

import asyncio
import os
import stat
from collections.abc import Callable
from pathlib import Path

LINE_LIMIT = 512


class Doorbell:
    """`<data>/doorbell` and `<data>/alive`."""

    def __init__(self, data_dir: Path) -> None:
        """Creates both, so that no holder ever finds them missing."""
        data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.path = data_dir / "doorbell"
        self.alive = data_dir / "alive"
        self._descriptor: int | None = None
        self._half = b""
        make_fifo(self.path)
        self.touch()

    def touch(self) -> None:
        """Update `alive`, which tells holders that the daemon lives."""
        self.alive.touch(mode=0o600)

    def listen(self, rung: Callable[[str], None]) -> None:
        """Call `rung(label)` in the running loop for each run that rings, once per burst."""
        if self._descriptor is None:
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            asyncio.get_running_loop().add_reader(self._descriptor, self._read, self._descriptor, rung)

    def close(self) -> None:
        """Stop listening; the FIFO stays for holders that ring."""
        if self._descriptor is not None:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = None

    def _read(self, descriptor: int, rung: Callable[[str], None]) -> None:
        try:
            received = self._half + os.read(descriptor, 1 << 16)
        except BlockingIOError:
            return
        *lines, rest = received.split(b"\n")
        self._half = rest[-LINE_LIMIT:]
        for line in dict.fromkeys(lines):
            rung(line.decode("utf-8", "replace"))


def make_fifo(path: Path) -> None:
    """Create a FIFO for this user alone; anything else at that path is replaced."""
    try:
        if stat.S_ISFIFO(path.lstat().st_mode):
            return
        path.unlink()
    except FileNotFoundError:
        pass
    os.mkfifo(path, 0o600)
