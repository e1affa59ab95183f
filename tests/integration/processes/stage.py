"""A stage for runs with real processes: start them, wait for events, leave no process behind."""

import os
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

from orchestrator.processes.cgroup import own_place
from orchestrator.processes.output import read_lines_from
from orchestrator.processes.process_stats import kill_run, tree_of
from orchestrator.processes.runs import Runs
from orchestrator.processes.sandbox.bubblewrap import find_program, probe, wrap
from orchestrator.processes.sandbox.mounts import Access, mounts_of
from orchestrator.processes.spec import Exit, Limits, RunSpec, Stdin
from tests.fakes.waiting import until

PATIENCE = 60.0
QUICK = Limits(eof_grace=0.2, term_grace=0.3, kill_grace=2.0, sweep_grace=0.2, floor_bytes=0)

# Prints a number every 10 ms, endlessly.
TICKER = "i=0; while :; do i=$((i+1)); echo $i; sleep 0.01; done"


def python(code: str) -> tuple[str, ...]:
    """Return a command that runs this Python code."""
    return (sys.executable, "-I", "-S", "-c", code)


def shell(code: str) -> tuple[str, ...]:
    """Return a command that runs this shell text."""
    return ("sh", "-c", code)


def state_of(pid: int) -> str:
    """Return the kernel's state letter of a process, `-` if it does not exist."""
    try:
        row = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return "-"
    return row[row.rindex(")") + 2]


def stands_still(pid: int) -> bool:
    """Whether a process is stopped, in `D` with its child stopped between vfork and exec, or frozen by its group.

    One that was in `D` at its exit, waiting for a lock of control groups, is a zombie later: its parent is stopped.
    """
    try:
        events = (group_of(pid) / "cgroup.events").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):  # it has exited, or is in no group that could be frozen
        events = []
    return state_of(pid) in {"T", "D", "Z"} or "frozen 1" in events


def group_of(pid: int) -> Path:
    """Return the folder of a process's control group, seen from the mount of the tree's root."""
    rows = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    name = next((row for row in rows if row.startswith("0::")), "").rpartition("/")[2]
    return Path(own_place() or "", name)


def skip_without_groups() -> None:
    """Skip a test that needs control groups where none can be created."""
    place = own_place()
    if not (place and os.access(place, os.W_OK)):
        pytest.skip(f"no control group of the second version may be made here (in {place})")


def skip_without_sandboxes() -> None:
    """Skip a test that needs a sandbox where none can be made."""
    program = find_program(os.environ["PATH"])
    objection = probe(program) if program else "bwrap is not installed"
    if objection:
        pytest.skip(f"NOT TESTED IN A SANDBOX: {objection}")


def sandbox_around(base: Path, cwd: Path) -> tuple[str, ...]:
    """Return the words of a sandbox in which a run may write below `base` and `cwd` alone."""
    program = find_program(os.environ["PATH"])
    assert program is not None
    wanted = [(Path(tempfile.gettempdir()), Access.PRIVATE), (base, Access.WRITABLE), (cwd, Access.WRITABLE)]
    return wrap(program, mounts_of(wanted), Path(os.devnull), cwd, is_root=os.geteuid() == 0)


class Stage:
    """One daemon's runs under a folder of their own."""

    def __init__(self, base: Path, *, cgroup: bool = True, sandbox: bool = False) -> None:
        self.base = self.cwd = base
        self.cgroup, self.sandbox = cgroup, sandbox
        self.runs = Runs(data_dir=base / "data")
        self.folders: list[Path] = []

    def folder(self, attempt: int = 1) -> Path:
        """Return the folder of a run."""
        folder = self.base / "data" / "tasks" / "LOCAL-1" / "agents" / str(attempt)
        if folder not in self.folders:
            self.folders.append(folder)
        return folder

    async def start(
        self,
        argv: tuple[str, ...],
        *,
        attempt: int = 1,
        limits: Limits = QUICK,
        timeout: float | None = None,  # noqa: ASYNC109  (the run's, not this call's)
        stdin: Stdin = Stdin.PUMP,
    ) -> Path:
        """Start a run and return its folder."""
        folder = self.folder(attempt)
        spec = RunSpec(
            run=f"LOCAL-1/{attempt}",
            wrap=sandbox_around(self.base, self.cwd) if self.sandbox else (),
            argv=argv,
            cwd=self.cwd,
            env={"PATH": os.environ["PATH"]},
            timeout=timeout,
            stdin=stdin,
            limits=limits,
            cgroup=self.cgroup,
        )
        await self.runs.start(folder, spec)
        return folder

    async def exit_of(self, folder: Path) -> Exit:
        """Return the run's exit, once there is one."""
        found: list[Exit] = []

        def has_ended() -> bool:
            ended = self.runs.exit_of(folder)
            found.extend([ended] if ended else [])
            return bool(found)

        await until(has_ended, f"the exit of {folder}")
        return found[0]

    async def says(self, folder: Path, words: bytes) -> bytes:
        """Return the run's output, once it contains this text."""
        await until(lambda: words in self.output(folder), f"{words!r} from {folder}")
        return self.output(folder)

    def output(self, folder: Path) -> bytes:
        """Return all output of the run so far."""
        return read_lines_from(folder, 0, 1 << 30)[0]

    def pid_of(self, folder: Path, inside: int) -> int:
        """Return the pid of a process of the run that knows itself by this number."""
        for process in tree_of(folder):
            status = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
            own = next(line for line in status.splitlines() if line.startswith("NSpid:"))
            if own.split()[-1] == str(inside) and (len(own.split()) > 2) == self.sandbox:
                return process.pid
        raise AssertionError(f"no process of {folder} is {inside}")

    def holder(self, folder: Path) -> int:
        """Return the pid of the run's holder."""
        return tree_of(folder)[0].pid

    def clear(self) -> None:
        """End every run that a test left behind."""
        for folder in self.folders:
            for process in reversed(tree_of(folder)):
                try:
                    process.kill()
                except psutil.NoSuchProcess:
                    continue
            kill_run(folder)
