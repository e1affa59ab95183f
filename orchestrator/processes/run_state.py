"""What a run's folder tells by itself, to whoever reads it: alive, begun, ended and how."""

import fcntl
import os
from datetime import UTC, datetime
from pathlib import Path

from orchestrator.processes import files
from orchestrator.processes.process_stats import kill_marked
from orchestrator.processes.spec import Exit, Status, exit_from, status_from

LOCK_TRIES = 20  # another daemon's or command's probe holds the lock for microseconds


def is_alive(folder: Path) -> bool:
    """True while a holder serves this run."""
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


def exit_of(folder: Path) -> Exit | None:
    """How a run ended; None while it goes on or has not begun.

    Of a run whose holder died without a word this ends what is left, notes that in the exit file, and says `lost`.
    """
    found = _read_exit(folder)
    if found or is_alive(folder) or not (folder / files.PID).exists():
        return found
    return _read_exit(folder) or _note_loss(folder)


def status_of(folder: Path) -> Status | None:
    """What the holder last said about itself; None before it said anything."""
    try:
        return status_from(files.read(str(folder / files.STATUS)))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def pid_of(folder: Path) -> int | None:
    """The run's first process below its holder; None before it was spawned."""
    try:
        record: files.PidRecord = files.decode(files.read(str(folder / files.PID)))  # type: ignore[assignment]  # ours
        return record["agent"]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def has_begun(folder: Path) -> bool:
    """True once a holder said who it is; what became of the run since is another question."""
    return (folder / files.PID).exists() or (folder / files.EXIT).exists()


def is_spawned(folder: Path) -> bool:
    """True once the run's first process is there, or it is known that there will be none."""
    return pid_of(folder) is not None or (folder / files.EXIT).exists()


def take_lock(folder: Path) -> int | None:
    """The lock of a run that nobody holds; None if somebody does."""
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


def _read_exit(folder: Path) -> Exit | None:
    """What the exit file tells; one that another hand damaged tells nothing."""
    try:
        return exit_from(files.read(str(folder / files.EXIT)))
    except (*files.GONE, ValueError, KeyError, TypeError):
        return None


def _note_loss(folder: Path) -> Exit:
    record: files.ExitRecord = {
        "code": None,
        "signal": None,
        "timed_out": False,
        "spawn_error": None,
        "stopped_by": None,
        "swept": list(kill_marked(folder)),
        "lost": True,
        "ended_at": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    text = files.encode(record)
    files.replace(str(folder / files.EXIT), text, durable=True)
    return exit_from(text)


def appearance_of(folder: Path) -> tuple[object, ...]:
    """What tells a changed run from an unchanged one without reading it."""
    looks: list[object] = []
    for name in ("".join(files.STDOUT), "".join(files.STDERR), files.STATUS, files.EXIT):
        try:
            row = (folder / name).lstat()
            looks.append((row.st_ino, row.st_size, row.st_mtime_ns))
        except files.GONE:
            looks.append(None)
    return tuple(looks)
