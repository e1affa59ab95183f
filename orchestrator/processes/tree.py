"""The process tree below a holder: find its processes, stop them in place, continue them, signal what is left.

Membership is read from /proc by parent pids. A holder is the subreaper of everything below it, so a process belongs to
the tree exactly as long as its chain of parents leads to the holder, also after a double fork and in a session of its
own. A process outside the tree never joins it, because only descendants create descendants: one freeze looks at each
stranger once, and at kernel threads (session 0) not at all. Reading a row takes 7 µs, asking for a session 0.2 µs, and
on many machines most processes are such threads.

A freeze is complete when two scans in a row show the same processes and none of them moves: stopped processes create no
children. The agent's group gets SIGTSTP first, because a program may want to tidy up. Everything outside it gets
SIGSTOP at once: a tool's command lives in a session of its own, whose orphaned group ignores SIGTSTP (measured). So
does a process in state `D`: it may be waiting, unstoppable, for a child between vfork and exec that is stopped already.
Once it was sent SIGSTOP it runs no code of its own, whatever its state letter.

If the agent was started in a control group (cgroup.py), the kernel freezes the group once the agent's own group has
obeyed or 0.2 seconds are over. Then no process needs a signal of its own, and the two scans find those outside it.
"""
# pathlib takes 6 ms to import, and every run starts a holder:
# ruff: noqa: PTH208

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal

    from orchestrator.processes.cgroup import Cgroup
else:
    import _signal  # the C half: `signal` itself imports enum, half as long as the interpreter takes to start

OBEY_LIMIT = 0.2  # seconds that a group has to obey SIGTSTP
FREEZE_LIMIT = 2.0  # seconds until a freeze reports what still moves
FIRST_PAUSE, LONGEST_PAUSE = 0.0002, 0.01
LOOKS_FOR_WHOLE = 50  # scans that a parent's death may spoil before the last one is accepted
STILL = "TtZXx"


class Process:
    """One row of /proc: a living process at the time of reading."""

    __slots__ = ("depth", "group", "parent", "pid", "state", "threads", "ticks")

    def __init__(self, pid: int, row: bytes) -> None:
        fields = row[row.rindex(b")") + 2 :].split(None, 20)
        self.pid = pid
        self.state = fields[0].decode()
        self.parent = int(fields[1])
        self.group = int(fields[2])
        self.threads = int(fields[17])
        self.ticks = int(fields[19])
        self.depth = 0

    def is_dead(self) -> bool:
        """Whether it is a zombie, unless threads live on after the main thread ended."""
        return self.state in "ZXx" and self.threads <= 1

    def is_still(self, *, signalled: bool) -> bool:
        """Whether no thread runs; a process that was sent SIGSTOP during disk access (`D`) runs no code after it."""
        still = STILL + "D" if signalled else STILL
        if self.state not in still:
            return False
        return self.threads <= 1 or all(state in still for state in _thread_states(self.pid))


def process(pid: int) -> Process | None:
    """Return the process of this pid as it is now, or None if there is none."""
    row = _read(f"/proc/{pid}/stat")
    return Process(pid, row) if row else None


def descendants(root: int, strangers: set[int]) -> tuple[list[Process], bool]:
    """Return the tree below `root`, parents first, including zombies, and whether no parent vanished during the scan.

    `strangers` is the caller's memory of processes that are not in the tree: they are not read again.
    """
    rows: dict[int, Process] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit() or (pid := int(name)) in strangers:
            continue
        if _is_kernels(pid):
            strangers.add(pid)
        elif found := process(pid):
            rows[pid] = found
    tree, whole = [], True
    for row in rows.values():
        depth = _depth(row, root, rows, strangers)
        if depth is None:
            whole = False
        elif depth == 0:
            strangers.add(row.pid)
        else:
            row.depth = depth
            tree.append(row)
    tree.sort(key=lambda row: row.depth)
    return tree, whole


def whole_tree(root: int) -> list[Process]:
    """Return the tree below `root`, parents first, including zombies.

    Only if there is not even a zombie is nothing left: one that died during the scan may have left a child unseen.
    """
    strangers: set[int] = set()
    tree, whole = descendants(root, strangers)
    for _ in range(LOOKS_FOR_WHOLE):
        if whole:
            break
        tree, whole = descendants(root, strangers)
    return tree


def freeze(root: int, group: int, cgroup: Cgroup, *, is_wrapped: bool = False) -> tuple[list[int], list[int]]:
    """Stop everything below `root` in place; return the pids that are stopped, and those that still run after 2 s.

    If the agent is wrapped in a sandbox, PID 1 of it belongs to the group but cannot obey SIGTSTP.
    """
    began, pause = time.monotonic(), FIRST_PAUSE
    strangers: set[int] = set()
    signalled: set[int] = set()
    before: set[int] | None = None
    signal_group(group, _signal.SIGTSTP)
    if cgroup.path is not None:
        _wait_for_group(group, cgroup, is_wrapped=is_wrapped)
        cgroup.freeze()
    while True:
        tree, whole = descendants(root, strangers)
        tree = [row for row in tree if not row.is_dead()]
        held = cgroup.held()
        moving = [row for row in tree if row.pid not in held and not row.is_still(signalled=row.pid in signalled)]
        waited = time.monotonic() - began
        for row in moving:
            is_deaf = row.group != group or (is_wrapped and row.parent == group)
            if is_deaf or row.state == "D" or waited > OBEY_LIMIT:
                signalled.add(row.pid)
                send(row.pid, _signal.SIGSTOP)
        seen = {row.pid for row in tree} if whole else None
        if waited > FREEZE_LIMIT or (seen is not None and seen == before and not moving):
            survivors = {row.pid for row in moving}
            return [row.pid for row in tree if row.pid not in survivors], sorted(survivors)
        before = seen
        if moving:
            time.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)


def thaw(root: int, cgroup: Cgroup, frozen: list[int]) -> None:
    """Let everything below `root` continue, children before their parents; `frozen` are all that a freeze returned.

    If they are all still in the control group, it knows the tree, and /proc need not be scanned.
    """
    members = cgroup.members()
    cgroup.thaw()
    if members.issuperset(frozen):
        rows = sorted([row for pid in members if (row := process(pid))], key=lambda row: (row.ticks, row.pid))
    else:
        rows = whole_tree(root)
    for row in reversed(rows):
        send(row.pid, _signal.SIGCONT)


def send(pid: int, signum: int) -> None:
    """Signal one process; one that is gone, or that changed its uid, is left to the next scan."""
    try:
        os.kill(pid, signum)
    except (ProcessLookupError, PermissionError):
        return


def is_told_to_end(root: int, group: int) -> bool:
    """Return whether SIGTERM is pending for a process of the group below `root`, which is stopped or blocks it."""
    return any(_is_pending(row.pid, _signal.SIGTERM) for row in whole_tree(root) if row.group == group)


def signal_group(group: int, signum: int) -> None:
    """Signal a process group; an empty one is ignored."""
    try:
        os.killpg(group, signum)
    except (ProcessLookupError, PermissionError):
        return


def _is_pending(pid: int, signum: int) -> bool:
    lines = _read(f"/proc/{pid}/status").splitlines()
    waiting = next((int(line.split()[1], 16) for line in lines if line.startswith(b"ShdPnd:")), 0)
    return bool(waiting >> (signum - 1) & 1)


def _wait_for_group(group: int, cgroup: Cgroup, *, is_wrapped: bool) -> None:
    """Give the agent's own group its time to obey SIGTSTP, as long as it uses it."""
    began, pause = time.monotonic(), FIRST_PAUSE
    while time.monotonic() - began < OBEY_LIMIT:
        rows = [row for pid in cgroup.members() if (row := process(pid)) and row.group == group]
        rows = [row for row in rows if not (is_wrapped and row.parent == group)]
        if all(row.is_dead() or row.is_still(signalled=True) for row in rows):
            return
        time.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE)


def _depth(row: Process, root: int, rows: dict[int, Process], strangers: set[int]) -> int | None:
    """Return how far below `root` a process is: 0 outside the tree, None if a parent vanished while /proc was read."""
    depth = 1
    while row.parent != root:
        if row.pid == root or row.parent == 0 or row.parent in strangers:
            return 0
        above = rows.get(row.parent)
        if above is None:
            return 0 if _is_hidden(row.parent) else None
        row, depth = above, depth + 1
    return depth


def _is_hidden(pid: int) -> bool:
    """Return whether it is another user's process, where /proc shows only one's own (mount option hidepid)."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except ProcessLookupError:
        return False
    return False


def _is_kernels(pid: int) -> bool:
    """Return whether it is a kernel thread, or from before there were sessions: nothing that a holder started."""
    try:
        return os.getsid(pid) == 0
    except ProcessLookupError:
        return False


def _thread_states(pid: int) -> list[str]:
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except FileNotFoundError:
        return []
    rows = [_read(f"/proc/{pid}/task/{thread}/stat") for thread in threads]
    return [Process(pid, row).state for row in rows if row]


def _read(path: str) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(descriptor, 4096)
        finally:
            os.close(descriptor)
    except (FileNotFoundError, ProcessLookupError):
        return b""
