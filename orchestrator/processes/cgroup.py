"""A control group for one agent's processes, where the machine permits it: one write freezes, thaws or kills all.

A holder creates it below its own group, and the agent is started in it (`clone3` with CLONE_INTO_CGROUP, Linux 5.7), so
that every descendant is in it from its first moment on. Moving a process there, or the holder there and back around a
spawn, would need a lock that a single writer waits 7 ms for (median; 28 ms at worst; starting in the group takes 0.5
ms). No controllers are enabled: with one, systemd could not start the service again while agents are alive.

Hybrid machines have version 2 beside version 1, containers show a part of it, and in many places it cannot be written.
If anything is missing, the path becomes None, nothing here has an effect, and only signals stop the tree. Signals are
also used for processes that leave the group (root can; rootless containers do): the scan of /proc is authoritative.
"""
# pathlib takes 6 ms to import, and every run starts a holder:
# ruff: noqa: PTH102, PTH106, PTH119, PTH123

from __future__ import annotations

import os
import sys
import time
from _ctypes import call_function, dlopen, dlsym  # the C half: `ctypes` takes another 3 ms

from orchestrator.processes import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
else:
    import _signal  # the C half: `signal` itself imports enum, half as long as the interpreter takes to start

PREFIX = "orchestrator-"
FREEZE_TAKES = 0.2  # seconds
FIRST_PAUSE, LONGEST_PAUSE = 0.0001, 0.01
REMOVE_TRIES = 100  # a group is empty a moment after its last process was reaped
REMOVE_PAUSE = 0.001

CLONE3 = 435  # the same on every machine that Linux runs on
CLONE_INTO_CGROUP = 0x200000000
SIGNAL_AT, GROUP_AT, WORDS = 4, 10, 11  # of the 64-bit words of clone_args: linux/sched.h


class Cgroup:
    """One run's control group; `path` is None if there is none."""

    __slots__ = ("path",)

    def __init__(self, path: str | None) -> None:
        """Does not create the group yet."""
        self.path = path

    def fork(self) -> int | None:
        """Create the group and fork into it; return 0 in the child, its pid in the holder, None if it cannot be done.

        The child bypasses Python's own hooks around a fork: it has to execute another program at once.
        """
        try:
            os.mkdir(self.path or "")
            group = os.open(self.path or "", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            self.path = None
            return None
        words = [0] * WORDS
        words[0], words[SIGNAL_AT], words[GROUP_AT] = CLONE_INTO_CGROUP, _signal.SIGCHLD, group
        clone_args = b"".join([int(word).to_bytes(8, sys.byteorder) for word in words])
        libc = dlopen(None, 0)  # type: ignore[arg-type]  # the stub does not know that None means this very process
        child: int = call_function(dlsym(libc, "syscall"), (CLONE3, clone_args, len(clone_args)))
        if child == 0:
            return child
        os.close(group)
        if child > 0:
            return child
        self.remove()
        self.path = None
        return None

    def freeze(self) -> None:
        """Freeze everything in the group; give up after 0.2 seconds and freeze nothing, so that signals have to do it.

        One process that waits for a dead disk keeps the group from freezing, and while a group is freezing the other
        processes in it react to no signal.
        """
        deadline, pause = time.monotonic() + FREEZE_TAKES, FIRST_PAUSE
        self._write("cgroup.freeze", b"1")
        while self.path and not self._is_frozen() and time.monotonic() < deadline:
            time.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)
        if not self._is_frozen():
            self.thaw()

    def thaw(self) -> None:
        """Let everything in the group continue that no signal has stopped."""
        self._write("cgroup.freeze", b"0")

    def kill(self) -> None:
        """Kill everything in the group at once, frozen or not (Linux 5.14)."""
        self._write("cgroup.kill", b"1")

    def members(self) -> set[int]:
        """Return the pids in the group and its subgroups; the kernel writes 0 for processes outside our namespace."""
        return {int(pid) for group in self._groups() for pid in _lines(f"{group}/cgroup.procs")} - {0}

    def held(self) -> set[int]:
        """Return the pids that the kernel reports as frozen."""
        return self.members() if self._is_frozen() else set()

    def remove(self) -> None:
        """Remove the group with all subgroups that a member created; a group with a living process stays."""
        for _ in range(REMOVE_TRIES):
            for group in reversed(self._groups()):
                try:
                    os.rmdir(group)
                except OSError:
                    time.sleep(REMOVE_PAUSE)
            if not self._groups():
                return

    def _groups(self) -> list[str]:
        """Return the paths of this group and all groups below it, parents first."""
        found = [self.path] if self.path and os.path.isdir(self.path) else []  # noqa: PTH112
        for group in found:
            try:
                with os.scandir(group) as entries:
                    found += [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
            except OSError:
                continue
        return found

    def _is_frozen(self) -> bool:
        return self.path is not None and "frozen 1" in _lines(f"{self.path}/cgroup.events")

    def _write(self, file: str, word: bytes) -> None:
        """Write to a control file; if that fails, the scan of /proc finds what is left to do."""
        if self.path is None:
            return
        try:
            descriptor = os.open(f"{self.path}/{file}", os.O_WRONLY | os.O_CLOEXEC)
        except OSError:
            return
        try:
            os.write(descriptor, word)
        except OSError:
            return
        finally:
            os.close(descriptor)


def planned(holder: int, start_ticks: int) -> Cgroup:
    """Return the group that this holder creates for its agent; no other holder of this boot has its name."""
    place = own_place()
    return Cgroup(place and f"{place}/{name_of(holder, start_ticks)}")


def recorded(path: str | None, boot_id: str, holder: int, start_ticks: int) -> Cgroup:
    """Return the group that a pid file of this boot names; without a path if no holder could have written it."""
    if not path or boot_id != files.boot_id():
        return Cgroup(None)
    named = os.path.basename(path) == name_of(holder, start_ticks)
    return Cgroup(path if named and path == os.path.normpath(path) else None)


def name_of(holder: int, start_ticks: int) -> str:
    """Return the name of the group of this holder's agent."""
    return f"{PREFIX}{holder}-{start_ticks}"


def own_place() -> str | None:
    """Return the folder of this process's own group in the version 2 tree; None if none is visible."""
    return place_in(_lines("/proc/self/cgroup"), _lines("/proc/self/mountinfo"))


def place_in(memberships: list[str], mounts: list[str]) -> str | None:
    """Return the folder of the group in /proc/PID/cgroup, under one of the mounts of mountinfo; see cgroups(7).

    A mount may show only a part of the tree, and a process may be in a group above everything that its namespace shows.
    """
    own = next((line[3:].rstrip("/") for line in memberships if line.startswith("0::/")), None)
    if own is None or "/.." in own:
        return None
    for line in mounts:
        mount, _, kind = line.partition(" - ")
        if kind.startswith("cgroup2 "):
            root, point = (_unescape(word).rstrip("/") for word in mount.split(" ")[3:5])
            if f"{own}/".startswith(f"{root}/"):
                return point + own.removeprefix(root)
    return None


def _unescape(word: str) -> str:
    """Decode a word of mountinfo, where blanks, tabs, newlines and backslashes are octal numbers."""
    first, *rest = word.split("\\")
    return first + "".join([chr(int(part[:3], 8)) + part[3:] for part in rest])


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read().splitlines()
    except OSError:
        return []
