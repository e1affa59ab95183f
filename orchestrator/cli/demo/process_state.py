"""Whether the processes of a paused agent stand still, by what the kernel says of each."""

from collections.abc import Mapping
from pathlib import Path

import orjson

GONE = "gone"
STILL = {"T", "frozen", GONE}
"""Stopped by a signal, as ps shows it; held by their control group; not there any more."""


def process_states(folder: Path, run: str) -> Mapping[int, str]:
    """How each process that the newest freeze of a task has on record is kept still: one of STILL, or its state.

    `folder` is the task's, and `run` its run's within.
    """
    held = _held(folder / run)
    return {pid: "frozen" if (state := state_of(pid)) != "T" and pid in held else state for pid in _on_record(folder)}


def state_of(pid: int) -> str:
    """The state of a process as ps shows it; `gone` if there is none."""
    try:
        return (Path("/proc") / str(pid) / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return GONE


def _on_record(folder: Path) -> list[int]:
    lines = (folder / "journal.jsonl").read_bytes().splitlines()
    frozen = [line for line in map(orjson.loads, lines) if line["trigger"] == "RunFrozen"]
    return list(frozen[-1]["event"]["stopped"]) if frozen else []


def _held(run: Path) -> set[int]:
    """Who is in the run's control group while the kernel holds that; nobody where there is none."""
    try:
        group = Path(orjson.loads((run / "pid").read_bytes())["cgroup"] or "")
        is_frozen = "frozen 1" in (group / "cgroup.events").read_text(encoding="utf-8")
        return set(map(int, (group / "cgroup.procs").read_text(encoding="utf-8").split())) if is_frozen else set()
    except OSError:
        return set()
