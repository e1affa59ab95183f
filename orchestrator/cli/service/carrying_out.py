"""Carry out the steps of a plan: write and remove files, and run commands."""

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from orchestrator.cli.service.plan import Deed, Step
from orchestrator.cli.service.record import Record, digest, read_record
from orchestrator.cli.service.scope import Places, Scope, ServiceRefused
from orchestrator.formats.files import write_atomically

READABLE, PRIVATE = 0o644, 0o600
COMMAND_SECONDS = 600.0
"""How long a command may take: to start the service is one, and the daemon may have thousands of tasks to read."""


def carry_out(places: Places, steps: Sequence[Step], tell: Callable[[Step], None]) -> None:
    """Do what these steps say, in order, and `tell` of each. Raises OSError, and ServiceRefused if a command fails.

    What is written is recorded before, so that an installation that was cut off can be repeated or removed.
    """
    before = read_record(places.record)
    written = {str(step.path): digest(step.content) for step in steps if step.deed is Deed.WRITE}
    links = {str(step.path): str(step.target) for step in steps if step.deed is Deed.LINK}
    if written or links or _makes_linger(steps):
        files = {name: (*before.files.get(name, ()), new) for name, new in written.items()}
        record = Record(
            files={**before.files, **files},
            links={**before.links, **links},
            lingers=before.lingers or _makes_linger(steps),
        )
        _write(places.record, record.document(), PRIVATE)
    for step in steps:
        tell(step)
        _do(places, step)
    if written:
        record = read_record(places.record)
        now = {**record.files, **{name: (new,) for name, new in written.items()}}
        _write(places.record, replace(record, files=now).document(), PRIVATE)


def forget(places: Places) -> None:
    """Remove the record, and the folders that a removal left empty."""
    places.record.unlink(missing_ok=True)
    empty = [places.drop_ins, places.config / "tokens", places.config]
    if places.scope is Scope.SYSTEM:
        empty += [Path("/run/orchestrator-proc/proc"), Path("/run/orchestrator-proc")]
    for folder in empty:
        if folder.is_dir() and not folder.is_symlink() and not any(folder.iterdir()):
            folder.rmdir()


def run(command: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    """Return how a command ended and what it said. Raises ServiceRefused if it cannot be started, or takes too long."""
    try:
        return subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=COMMAND_SECONDS, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ServiceRefused(f"{' '.join(command)}: {error}") from error


def lingers(account: str) -> bool:
    """Return whether the services of a user outlive the user's logins."""
    return (Path("/var/lib/systemd/linger") / account).exists()


def _do(places: Places, step: Step) -> None:
    match step.deed:
        case Deed.WRITE if step.path is not None:
            _write(step.path, step.content, READABLE if places.scope is Scope.SYSTEM else PRIVATE)
        case Deed.LINK if step.path is not None and step.target is not None:
            step.path.unlink(missing_ok=True)
            step.path.parent.mkdir(parents=True, exist_ok=True)
            step.path.symlink_to(step.target)
        case Deed.REMOVE if step.path is not None:
            step.path.unlink(missing_ok=True)
        case Deed.DELETE_DATA if step.path is not None:
            shutil.rmtree(step.path)
        case Deed.TRY:
            run(step.command)
        case Deed.RUN:
            done = run(step.command)
            if done.returncode:
                said = (done.stderr or done.stdout).strip()
                raise ServiceRefused(f"`{' '.join(step.command)}` failed ({done.returncode}): {said[-2000:]}")
        case _:
            return


def _makes_linger(steps: Sequence[Step]) -> bool:
    return any("enable-linger" in step.command for step in steps)


def _write(path: Path, content: bytes, mode: int) -> None:
    made = [folder for folder in path.parents if not folder.exists()]
    for folder in reversed(made):
        folder.mkdir(mode=0o755 if mode == READABLE else 0o700, exist_ok=True)
    if path.is_symlink():
        raise ServiceRefused(f"{path} is a link, and nothing is written through one; move it away and try again")
    write_atomically(path, content)
    os.chmod(path, mode)  # noqa: PTH101 - write_atomically makes it private
