"""The lock of a data folder: one process at a time may write there."""

import fcntl
import os
import time
from pathlib import Path

from orchestrator.storage.records import StoreInUse

DEAD_OWNER_LIMIT, LOCK_RETRY = 2.0, 0.02
"""Seconds to wait for the lock of a daemon that is dead, and between two tries."""


def lock_folder(data_dir: Path) -> int:
    """Return the descriptor that holds the folder's lock.

    A child that a killed daemon was about to start shares its lock until it runs its program, so a dead owner's lock is
    waited for. Raises StoreInUse.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(data_dir / "lock", flags, 0o600)
    try:
        deadline = time.monotonic() + DEAD_OWNER_LIMIT
        while not _try_lock(descriptor):
            _refuse_owned(data_dir, descriptor, waited_too_long=time.monotonic() > deadline)
            time.sleep(LOCK_RETRY)
        pid = f"{os.getpid()}\n".encode()
        os.pwrite(descriptor, pid, 0)
        os.ftruncate(descriptor, len(pid))
    except (OSError, StoreInUse):
        os.close(descriptor)
        raise
    return descriptor


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _refuse_owned(data_dir: Path, descriptor: int, *, waited_too_long: bool) -> None:
    owner = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
    if waited_too_long or _is_alive(owner):
        raise StoreInUse(
            f"{data_dir} is in use by the daemon with pid {owner}; stop that one, or give this one another --data-dir"
        )


def _is_alive(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except (ValueError, ProcessLookupError):
        return False
    except PermissionError:
        return True
    return True
