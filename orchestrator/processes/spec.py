"""What a run is told at its start, and what it answers, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from orchestrator.errors import OrchestratorError
from orchestrator.processes import files
from orchestrator.redaction.masking import NO_MASKS, Masks

MARKER = "ORCHESTRATOR_RUN"


class RunGone(OrchestratorError):
    """A run that nobody holds any more was asked for something."""

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
    """A line was sent to a run whose end of input was sent before."""

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
    """Who began the stop of a run that did not end by itself."""

    REQUEST = files.BY_REQUEST
    TIMEOUT = files.BY_TIMEOUT
    ORPHAN = files.BY_ORPHAN  # its folder was taken away
    SHUTDOWN = files.BY_SHUTDOWN  # everybody was told to end, its holder too


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a run may take; times in seconds, sizes in bytes."""

    orphan_after: float | None = 300.0  # a daemon silent for so long: the run freezes by itself
    rotate_bytes: int = 256 << 20
    floor_bytes: int = 64 << 20  # below this much free space output waits in the pipe
    eof_grace: float = 5.0
    term_grace: float = 10.0
    kill_grace: float = 5.0
    sweep_grace: float = 1.0  # for what an ended agent leaves behind, between TERM and KILL
    oom_score_adj: int = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """A run to be started; `run` is its label, at most 500 bytes without a newline, unique within the daemon."""

    run: str
    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str] = field(repr=False)
    secret: frozenset[str] = frozenset()  # variables of `env` that are handed over in memory and written nowhere
    masks: Masks = field(default=NO_MASKS, repr=False)  # what must not be readable in what the run says
    timeout: float | None = None  # seconds, frozen time not counted
    stdin: Stdin = Stdin.PUMP
    limits: Limits = Limits()
    cgroup: bool = True  # hold its tree by a control group, where the machine lets us make one

    def record(self, folder: Path, doorbell: Path, alive: Path) -> files.Spec:
        """The same for spec.json, with the marker by which a lost run's processes are found."""
        limits = self.limits
        return {
            "run": self.run,
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

    def handover(self) -> files.Handover:
        """What the holder has to know and no disk may."""
        is_json = self.stdin is Stdin.PUMP
        return {
            "env": {name: self.env[name] for name in self.secret & self.env.keys()},
            "stdout": [list(mask) for mask in (self.masks.json if is_json else self.masks.plain)],
            "stderr": [list(mask) for mask in self.masks.plain],
            "stdout_is_json": is_json,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """How a run ended: by itself (`code`), by a signal, never begun (`spawn_error`), or unseen (`lost`)."""

    code: int | None
    signal: int | None
    timed_out: bool
    spawn_error: str | None
    stopped_by: StoppedBy | None
    swept: tuple[int, ...]
    lost: bool
    ended_at: str  # UTC, ISO 8601


@dataclass(frozen=True, slots=True, kw_only=True)
class Frozen:
    """What a freeze did: who stands still, who could not be stopped, and in which control group they are, if in one."""

    stopped: tuple[int, ...]
    survivors: tuple[int, ...]
    cgroup: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What a holder last said about itself; `request` is `orphan` when it froze by itself."""

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
    """What the processes below a holder have done so far; bytes are those of read(2) and write(2), on anything.

    `wakes` counts how often their first threads had waited for something. Sums fall when a process ends, so two of them
    tell activity by any difference.
    """

    pids: frozenset[int]
    cpu_seconds: float
    io_bytes: int
    wakes: int


def exit_from(text: str) -> Exit:
    """The exit that an exit file tells of; raises ValueError, KeyError or TypeError on anything else."""
    record: files.ExitRecord = files.decode(text)  # type: ignore[assignment]  # checked by the constructor calls below
    stopped_by = record["stopped_by"]
    return Exit(
        code=record["code"],
        signal=record["signal"],
        timed_out=record["timed_out"],
        spawn_error=record["spawn_error"],
        stopped_by=None if stopped_by is None else StoppedBy(stopped_by),
        swept=tuple(record["swept"]),
        lost=record["lost"],
        ended_at=record["ended_at"],
    )


def status_from(text: str) -> Status:
    """What a status.json tells; raises ValueError, KeyError or TypeError on anything else."""
    record: files.StatusRecord = files.decode(text)  # type: ignore[assignment]  # as above
    return Status(
        state=State(record["state"]),
        request=record["request"],
        stopped=tuple(record["stopped"]),
        survivors=tuple(record["survivors"]),
    )
