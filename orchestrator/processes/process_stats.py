"""Measure what the processes of a run use, and find and kill all that belong to it.

A process belongs to a run if it descends from the run's holder, carries the run's marker in its environment, has the
run's limit of file locks, or is in the run's control group. The holder is recognised by its command line and by what
the journal says of it, so that a run is found although an agent moved its folder.
"""

import socket
import struct
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import cast

import psutil

from orchestrator.formats.codec import Json, from_json
from orchestrator.processes import files
from orchestrator.processes.cgroup import PREFIX, Cgroup, name_of, own_place, recorded
from orchestrator.processes.spec import BOOT, MARKER, Activity, PidRecord, Usage

NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY = 4, 20
REQUEST_DUMP, DUMP_DONE, DUMP_FAILED = 0x301, 3, 2
WANTS_INFO, ESTABLISHED, TCP_INFO = 1 << 1, 1 << 1, 2
HEADER, INODE_AT, ATTRIBUTES_AT, BYTES_RECEIVED_AT = struct.Struct("=IHHII"), 68, 72, 128
"""From linux/inet_diag.h and linux/tcp.h: a dump of TCP sockets, and where each message has what is read of it."""
SWEEP_LIMIT = 2.0  # seconds
SWEEP_PAUSE = 0.01
_ENDED = (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
SANDBOX = "bwrap"
"""The program whose processes surround an agent in a sandbox."""


def tree_of(folder: Path) -> list[psutil.Process]:
    """Return the holder of a run and every process below it; nothing if the holder is gone."""
    record = pid_record(folder)
    try:
        if record is None or record.boot_id != files.boot_id():
            return []
        holder = psutil.Process(record.holder)
        is_same = _start_ticks(holder.pid) == record.start_ticks
        return [holder, *holder.children(recursive=True)] if is_same else []
    except (OSError, psutil.NoSuchProcess):
        return []


def pid_record(folder: Path) -> PidRecord | None:
    """Return who serves a run; None before a holder wrote that, or if another program damaged it."""
    try:
        return from_json(PidRecord, cast(Json, files.decode(files.read(str(folder / files.PID)))))
    except (OSError, ValueError):
        return None


def cgroup_of(folder: Path) -> Cgroup:
    """Return the control group of this run's agent and its descendants; without a path if only signals stop them."""
    record = pid_record(folder)
    return recorded(record.cgroup, record.boot_id, record.holder, record.start_ticks) if record else Cgroup(None)


def remove_abandoned_groups() -> None:
    """Remove the empty control groups of holders that were killed and whose runs are not watched any more."""
    place = own_place()
    for group in Path(place).glob(f"{PREFIX}*") if place else ():
        pid = group.name.removeprefix(PREFIX).partition("-")[0]
        abandoned = Cgroup(str(group))
        if pid.isdecimal() and not _is_named_after(group.name, int(pid)) and not abandoned.members():
            abandoned.remove()


def usage_of(folder: Path) -> Usage:
    """Return what the run's tree uses now; nothing if it is gone."""
    cpu, rss = 0.0, 0
    for process in tree_of(folder):
        try:
            times = process.cpu_times()
            rss += process.memory_info().rss
        except (psutil.Error, OSError):  # it ends just now
            continue
        cpu += times.user + times.system + times.children_user + times.children_system
    return Usage(cpu_seconds=cpu, rss_bytes=rss)


def activity_of(folder: Path) -> Activity:
    """Return what the run's tree has done so far, without its holder and its sandbox; nothing if it is gone."""
    pids, cpu, io, wakes, inodes = set(), 0.0, 0, 0, set[int]()
    tree = tree_of(folder)
    for process in tree[1:]:
        try:
            if _is_sandbox(process, holder=tree[0]):
                continue
            times, counted, switches = process.cpu_times(), process.io_counters(), process.num_ctx_switches()
        except (psutil.Error, OSError):
            continue
        pids.add(process.pid)
        cpu += times.user + times.system + times.children_user + times.children_system
        io += counted.read_chars + counted.write_chars
        wakes += switches.voluntary
        inodes |= _sockets_of(process.pid)
    received = bytes_received() if inodes else {}
    heard = sum(received.get(inode, 0) for inode in inodes)
    return Activity(pids=frozenset(pids), cpu_seconds=cpu, io_bytes=io, wakes=wakes, received=heard)


def _sockets_of(pid: int) -> set[int]:
    """Return the inodes of a process's sockets."""
    found = set()
    with suppress(OSError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                kind, _, inode = str(descriptor.readlink()).partition(":[")
                if kind == "socket":
                    found.add(int(inode.rstrip("]")))
    return found


def bytes_received() -> Mapping[int, int]:
    """Return how many bytes each TCP connection of this network namespace has received, by the inode of its socket.

    It is empty where the kernel does not say; then other signs of life have to do.
    """
    found: dict[int, int] = {}
    with suppress(OSError), socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as kernel:
        kernel.settimeout(1.0)
        for family in (socket.AF_INET, socket.AF_INET6):
            wanted = struct.pack("=BBBxI48x", family, socket.IPPROTO_TCP, WANTS_INFO, ESTABLISHED)
            head = HEADER.pack(HEADER.size + len(wanted), SOCK_DIAG_BY_FAMILY, REQUEST_DUMP, 1, 0)
            kernel.send(head + wanted)
            found.update(_connections(kernel))
    return found


def _connections(kernel: socket.socket) -> Iterator[tuple[int, int]]:
    """Yield the inode of every connection in a dump, and the bytes that it has received."""
    while True:
        data = memoryview(kernel.recv(1 << 16))
        while len(data) >= HEADER.size:
            length, kind, *_ = HEADER.unpack_from(data)
            if kind in (DUMP_DONE, DUMP_FAILED) or length < HEADER.size:
                return
            yield from _connection(data[HEADER.size : length])
            data = data[(length + 3) & ~3 :]


def _connection(message: memoryview) -> Iterator[tuple[int, int]]:
    """Yield the inode and the received bytes of one connection, if the message has them."""
    at = ATTRIBUTES_AT
    while at + 4 <= len(message):
        length, kind = struct.unpack_from("=HH", message, at)
        if kind == TCP_INFO and length >= 4 + BYTES_RECEIVED_AT + 8:
            (inode,) = struct.unpack_from("=I", message, INODE_AT)
            (received,) = struct.unpack_from("=Q", message, at + 4 + BYTES_RECEIVED_AT)
            yield inode, received
        at += max(4, (length + 3) & ~3)


def _is_sandbox(process: psutil.Process, *, holder: psutil.Process) -> bool:
    """Return whether it is one of the two processes of bubblewrap: the agent's own, and PID 1 below it."""
    if process.name() != SANDBOX:
        return False
    parent = process.parent()
    return parent is not None and (parent == holder or (parent.name() == SANDBOX and parent.ppid() == holder.pid))


def holder_of(folder: Path) -> str:
    """Return what identifies the run's holder on this machine for good; empty before it wrote its pid."""
    record = pid_record(folder)
    return f"{record.boot_id} {record.holder} {record.start_ticks}" if record else ""


def has_processes(folder: Path, holder: str = "") -> bool:
    """Return whether any process of the run is left, or a holder that was stopped.

    `holder` is what `holder_of` returned when the run began.
    """
    holders, others = _processes_of(folder, holder)
    return bool(others) or any(_status_of(process) == psutil.STATUS_STOPPED for process in holders)


def kill_run(folder: Path, holder: str = "") -> tuple[int, ...]:
    """Kill every process of a run and its holder last; return their pids. Takes 2 s at most.

    `holder` is what `holder_of` returned when the run began.
    """
    groups = _groups_of(folder, holder)
    killed: dict[int, None] = {}
    deadline = time.monotonic() + SWEEP_LIMIT
    while True:
        holders, others = _processes_of(folder, holder)
        for group in groups:
            group.kill()
        for process in others or holders:
            killed[process.pid] = None
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                process.kill()
        if not (holders or others) or time.monotonic() > deadline:
            break
        time.sleep(SWEEP_PAUSE)
    for group in groups:
        group.remove()
    return tuple(killed)


def _processes_of(folder: Path, holder: str) -> tuple[list[psutil.Process], list[psutil.Process]]:
    """Return the living holders of a run, one at most unless it was forged, and every other process of it."""
    holders, others = list[psutil.Process](), dict[int, psutil.Process]()
    grouped = {pid for group in _groups_of(folder, holder) for pid in group.members()}
    for process in psutil.process_iter():
        try:
            if process.status() == psutil.STATUS_ZOMBIE:
                continue
            if _is_holder(process, str(folder), holder):
                holders.append(process)
                others |= {child.pid: child for child in process.children(recursive=True)}
            elif process.pid in grouped or _is_marked(process, str(folder)):
                others[process.pid] = process
        except (psutil.NoSuchProcess, psutil.AccessDenied, OSError):
            continue
    return holders, [one for one in others.values() if _status_of(one) not in _ENDED]


def _is_marked(process: psutil.Process, folder: str) -> bool:
    with suppress(psutil.AccessDenied):
        if process.environ().get(MARKER) == folder:
            return True
    return process.rlimit(files.RLIMIT_LOCKS)[1] == files.mark_of(folder)


def _status_of(process: psutil.Process) -> str:
    try:
        return str(process.status())
    except psutil.NoSuchProcess:
        return str(psutil.STATUS_DEAD)


def _is_holder(process: psutil.Process, folder: str, holder: str) -> bool:
    words = process.cmdline()
    if BOOT in words and words[-1] == folder:
        return True
    known = _known(holder)
    return known is not None and known[0] == process.pid and known[1] == _start_ticks(process.pid)


def _groups_of(folder: Path, holder: str) -> list[Cgroup]:
    """Return the control groups of a run: the one that its pid file names, and the one named after its holder."""
    groups, known, place = [cgroup_of(folder)], _known(holder), own_place()
    if known is not None and place is not None:
        groups.append(Cgroup(f"{place}/{name_of(*known)}"))
    return [group for group in groups if group.path is not None]


def _known(holder: str) -> tuple[int, int] | None:
    """Return pid and start of a holder of this boot."""
    match holder.split(" "):
        case [boot, pid, ticks] if boot == files.boot_id():
            return int(pid), int(ticks)
        case _:
            return None


def _is_named_after(name: str, pid: int) -> bool:
    """Return whether the group belongs to a holder that lives."""
    try:
        return name == name_of(pid, _start_ticks(pid))
    except (FileNotFoundError, ProcessLookupError):
        return False


def _start_ticks(pid: int) -> int:
    row = Path(f"/proc/{pid}/stat").read_bytes()
    return int(row[row.rindex(b")") + 2 :].split()[19])


def own_group(pid: int) -> str:
    """Return the path of the control group that a holder made for the run of this process; empty if it has none."""
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    paths = (line.split(":", 2)[-1] for line in lines)
    return next((path for path in paths if any(part.startswith(PREFIX) for part in path.split("/"))), "")
