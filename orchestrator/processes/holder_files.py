"""Write the files that a holder leaves for the daemon, and ring the doorbell."""

from __future__ import annotations

import os
import time

from orchestrator.processes import files, tree

# pathlib takes 6 ms to import, and every run starts a holder:
# ruff: noqa: PTH110

TRY_AGAIN_AFTER = 1.0  # seconds, on a full disk


def write_pid(holder: tree.Process, agent: int | None, cgroup: str | None) -> None:
    """Write who serves this run; from then on the run counts as begun."""
    record: files.PidRecord = {
        "holder": holder.pid,
        "agent": agent,
        "boot_id": files.boot_id(),
        "start_ticks": holder.ticks,
        "cgroup": cgroup,
    }
    files.replace(files.PID, files.encode(record))


def write_exit(record: files.ExitRecord, key: str) -> None:
    """Write how a run ended, last of all and signed, so that only the holder can have written it.

    On a full disk, retry until there is room, unless the folder is gone.
    """
    while os.path.exists(files.LOCK):
        try:
            files.replace(files.EXIT, files.signed_exit(record, key), durable=True)
        except OSError:
            time.sleep(TRY_AGAIN_AFTER)
        else:
            return


def ring(spec: files.Spec, kind: str = "") -> None:
    """Wake the daemon, with `files.SAID` for output alone; its check each second covers a lost ring."""
    try:
        bell = os.open(spec["doorbell"], os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return
    try:
        os.write(bell, f"{kind}{spec['run']}\n".encode())
    except OSError:
        return
    finally:
        os.close(bell)
