"""Read the state of a run from its folder: whether it has begun, is alive, or has ended, and how."""

import fcntl
import os
from datetime import UTC, datetime
from hmac import compare_digest
from pathlib import Path
from typing import TypeVar, cast

from orchestrator.formats.codec import Json, from_json, to_json
from orchestrator.processes import files
from orchestrator.processes.process_stats import kill_run, pid_record
from orchestrator.processes.spec import Exit, Status

T = TypeVar("T")

LOCK_TRIES = 20  # another daemon's or command's probe holds the lock for microseconds


def is_alive(folder: Path) -> bool:
    """Return whether a holder serves this run."""
    try:
        descriptor = os.open(folder / files.LOCK, os.O_RDWR | os.O_CLOEXEC)
    except (*files.GONE, IsADirectoryError):
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(descriptor)


def exit_of(folder: Path, key: str, holder: str = "") -> Exit | None:
    """Return how a run ended; None while it runs or has not begun. What is not signed with the run's key is ignored.

    If the run's holder died without writing that, kill what is left, record it in the exit file, and return `lost`.
    The same if the folder is gone or empty, but the run's `holder` is known.
    """
    found = _signed_exit(folder, key)
    if found or is_alive(folder) or not (holder or (folder / files.PID).exists()):
        return found
    return _signed_exit(folder, key) or _note_loss(folder, key, holder)


def status_of(folder: Path) -> Status | None:
    """Return what the holder last reported; None before its first report."""
    try:
        return _record(Status, folder / files.STATUS)
    except OSError:
        return None


def pid_of(folder: Path) -> int | None:
    """Return the pid of the run's first process below its holder; None before it was spawned."""
    record = pid_record(folder)
    return record.agent if record else None


def has_begun(folder: Path) -> bool:
    """Return whether a holder ever reported its pid; the run may have ended since."""
    return (folder / files.PID).exists() or (folder / files.EXIT).exists()


def seconds_of(folder: Path) -> float:
    """Return how long a run took, by the times of the files that its holder wrote first and last."""
    try:
        return round((folder / files.EXIT).stat().st_mtime - (folder / files.PID).stat().st_mtime, 2)
    except OSError:
        return 0.0


def is_spawned(folder: Path) -> bool:
    """Return whether the run's first process exists, or it is known that there will be none."""
    return pid_of(folder) is not None or (folder / files.EXIT).exists()


def take_lock(folder: Path) -> int | None:
    """Return the descriptor of a run's lock, now held; None if another process holds it."""
    descriptor = os.open(folder / files.LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    for _ in range(LOCK_TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if is_alive(folder):
                break
        else:
            return descriptor
    os.close(descriptor)
    return None


def _record(kind: type[T], path: Path) -> T | None:
    """Return what one of the holder's files says; None if it is missing, or another program damaged it."""
    try:
        return from_json(kind, cast(Json, files.decode(files.read(str(path)))))
    except (*files.GONE, ValueError):
        return None


def _signed_exit(folder: Path, key: str) -> Exit | None:
    try:
        text = files.read(str(folder / files.EXIT))
        record = files.decode(text)
        is_signed = compare_digest(files.signed_exit(record, key), text)
        return from_json(Exit, cast(Json, record)) if is_signed else None
    except (*files.GONE, ValueError, TypeError):
        return None


def _note_loss(folder: Path, key: str, holder: str) -> Exit:
    ended_at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    lost = Exit(lost=True, swept=kill_run(folder, holder), ended_at=ended_at)
    try:
        files.replace(str(folder / files.EXIT), files.signed_exit(to_json(lost), key), durable=True)
    except (*files.GONE, IsADirectoryError):  # another program moved the folder, or put one there
        return lost
    return lost


def appearance_of(folder: Path) -> tuple[object, ...]:
    """Return inodes, sizes and times of a run's files, which differ if the run has changed."""
    looks: list[object] = []
    for name in ("".join(files.STDOUT), "".join(files.STDERR), files.STATUS, files.EXIT):
        try:
            row = (folder / name).lstat()
            looks.append((row.st_ino, row.st_size, row.st_mtime_ns))
        except files.GONE:
            looks.append(None)
    return tuple(looks)
