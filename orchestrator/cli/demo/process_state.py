"""Whether the processes of a paused agent are stopped, according to the kernel."""

from collections.abc import Mapping
from pathlib import Path

import orjson

GONE = "gone"
STILL = {"T", "frozen", GONE}
"""Stopped by a signal, as ps shows it; frozen with their control group; ended."""


def process_states(folder: Path, run: str) -> Mapping[int, str]:
    """Return the state of each process that the last freeze of a task recorded: one of STILL, or as ps shows it.

    `folder` is the task's folder, and `run` the folder of its run within.
    """
    held = _held(folder / run)
    return {pid: "frozen" if (state := state_of(pid)) != "T" and pid in held else state for pid in _on_record(folder)}


def state_of(pid: int) -> str:
    """Return the state of a process as ps shows it; `gone` if there is none."""
    try:
        return (Path("/proc") / str(pid) / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return GONE


def _on_record(folder: Path) -> list[int]:
    lines = (folder / "journal.jsonl").read_bytes().splitlines()
    frozen = [line for line in map(orjson.loads, lines) if line["trigger"] == "RunFrozen"]
    return list(frozen[-1]["event"]["stopped"]) if frozen else []


def _held(run: Path) -> set[int]:
    """Return the processes in the run's control group if that is frozen; none without a control group."""
    try:
        group = Path(orjson.loads((run / "pid").read_bytes())["cgroup"] or "")
        is_frozen = "frozen 1" in (group / "cgroup.events").read_text(encoding="utf-8")
        return set(map(int, (group / "cgroup.procs").read_text(encoding="utf-8").split())) if is_frozen else set()
    except OSError:
        return set()
