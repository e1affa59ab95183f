"""The parameters of a run and what its holder reports, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from orchestrator.errors import OrchestratorError
from orchestrator.processes import files
from orchestrator.redaction.masking import NO_MASKS, Masks

MARKER = "ORCHESTRATOR_RUN"
BOOT = "import sys; sys.path.append(sys.argv[1]); from orchestrator.processes.holder import main; main(sys.argv[2])"
"""What a holder's interpreter runs: its arguments are where this program is installed, and the run's folder."""


STOP_MARGIN = 10.0  # seconds that a busy machine may take for a stop, beyond its steps


class RunGone(OrchestratorError):
    """A request was sent to a run that no holder serves any more."""

    def __init__(self, folder: Path, request: str) -> None:
        super().__init__(f"cannot {request} the run in {folder}: it has ended; its exit says how")


class HolderSilent(OrchestratorError):
    """A holder lives but did not answer."""

    def __init__(self, folder: Path, request: str) -> None:
        super().__init__(f"the holder of {folder} did not {request} in time; see its pid file and the machine's load")


class HolderFailed(OrchestratorError):
    """A holder ended before its run began."""

    def __init__(self, folder: Path, status: int) -> None:
        log = folder / "".join(files.STDERR)
        super().__init__(f"the holder for {folder} could not start (exit {status}); {log} says why")


class InputClosed(OrchestratorError):
    """A line was sent to a run after the end of its input."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"the input of the run in {folder} is closed; start another run to say more")


class Stdin(StrEnum):
    """Where an agent's standard input comes from."""

    PUMP = "pump"
    NULL = "null"


class State(StrEnum):
    """What a holder does with its tree."""

    RUNNING = files.RUNNING
    FROZEN = files.FROZEN
    STOPPING = files.STOPPING


class StoppedBy(StrEnum):
    """Who stopped a run that did not end by itself."""

    REQUEST = files.BY_REQUEST
    TIMEOUT = files.BY_TIMEOUT
    ORPHAN = files.BY_ORPHAN  # its folder was removed
    SHUTDOWN = files.BY_SHUTDOWN  # the machine shuts down: every process was sent TERM


HELD_BELOW = 64 << 20
"""Bytes of free space below which a holder leaves the output of its run in the pipe, so that no line is cut short."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a run may use; times in seconds, sizes in bytes."""

    orphan_after: float | None = 300.0  # the run freezes by itself if the daemon is silent for this long
    rotate_bytes: int = 256 << 20
    floor_bytes: int = HELD_BELOW
    eof_grace: float = 5.0
    term_grace: float = 10.0
    kill_grace: float = 5.0
    sweep_grace: float = 1.0  # for what an ended agent leaves behind, between TERM and KILL
    oom_score_adj: int = 500

    @property
    def longest_stop(self) -> float:
        """After how many seconds a run that was told to stop has ended, unless its holder does not do its work."""
        return self.eof_grace + self.term_grace + self.kill_grace + self.sweep_grace + self.kill_grace + STOP_MARGIN


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """A run to be started; `run` is its label, at most 500 bytes without a newline, unique within the daemon."""

    run: str
    argv: tuple[str, ...]
    wrap: tuple[str, ...] = ()  # the words of a sandbox, which precede those of the command
    cwd: Path
    env: Mapping[str, str] = field(repr=False)
    secret: frozenset[str] = frozenset()  # variables of `env` that are passed in memory only and never written
    masks: Masks = field(default=NO_MASKS, repr=False)  # what must not be readable in the run's output
    timeout: float | None = None  # seconds, frozen time not counted
    stdin: Stdin = Stdin.PUMP
    limits: Limits = Limits()
    cgroup: bool = True  # use a control group if the machine permits one

    def record(self, folder: Path, doorbell: Path, alive: Path) -> files.Spec:
        """Return the document of spec.json, with the marker by which a lost run's processes are found."""
        limits = self.limits
        return {
            "run": self.run,
            "wrap": list(self.wrap),
            "argv": list(self.argv),
            "cwd": str(self.cwd),
            "env": {**{name: self.env[name] for name in self.env if name not in self.secret}, MARKER: str(folder)},
            "stdin": self.stdin.value,
            "doorbell": str(doorbell),
            "alive": str(alive),
            "orphan_after": limits.orphan_after,
            "timeout": self.timeout,
            "rotate_bytes": limits.rotate_bytes,
            "floor_bytes": limits.floor_bytes,
            "graces": {
                "eof": limits.eof_grace,
                "term": limits.term_grace,
                "kill": limits.kill_grace,
                "sweep": limits.sweep_grace,
            },
            "oom_score_adj": limits.oom_score_adj,
            "cgroup": self.cgroup,
        }

    def handover(self, exit_key: str) -> files.Handover:
        """Return what the holder has to know and what must not be on disk."""
        is_json = self.stdin is Stdin.PUMP
        return {
            "env": {name: self.env[name] for name in self.secret & self.env.keys()},
            "stdout": [list(mask) for mask in (self.masks.json if is_json else self.masks.plain)],
            "stderr": [list(mask) for mask in self.masks.plain],
            "stdout_is_json": is_json,
            "exit_key": exit_key,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PidRecord:
    """Who serves a run, as its pid file says; `cgroup` is the control group of the agent's tree, if it has one."""

    holder: int
    agent: int | None
    boot_id: str
    start_ticks: int
    cgroup: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """How a run ended: by itself (`code`), by a signal, never begun (`spawn_error`), or unseen (`lost`)."""

    code: int | None = None
    signal: int | None = None
    timed_out: bool = False
    spawn_error: str | None = None
    stopped_by: StoppedBy | None = None
    swept: tuple[int, ...] = ()
    lost: bool = False
    ended_at: str  # UTC, ISO 8601


@dataclass(frozen=True, slots=True, kw_only=True)
class Frozen:
    """The result of a freeze: which processes are stopped, which could not be, and their control group, if any."""

    stopped: tuple[int, ...]
    survivors: tuple[int, ...]
    cgroup: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What a holder last reported; `request` is `orphan` if it froze by itself."""

    state: State
    request: str | None
    stopped: tuple[int, ...]
    survivors: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a run's whole tree uses: processor seconds since its start, resident bytes now."""

    cpu_seconds: float
    rss_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """What the processes below a holder have done so far; bytes are those of read(2) and write(2), on any descriptor.

    `wakes` counts how often their main threads had waited for something, `received` the bytes of their TCP connections.
    Sums fall when a process or a connection ends, so any difference between two of them means activity.
    """

    pids: frozenset[int]
    cpu_seconds: float
    io_bytes: int
    wakes: int
    received: int = 0
