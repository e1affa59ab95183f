"""Measure what the processes of a run use, and kill those whose holder died."""

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
from orchestrator.processes.spec import MARKER, Activity, PidRecord, Usage

NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY = 4, 20
REQUEST_DUMP, DUMP_DONE, DUMP_FAILED = 0x301, 3, 2
WANTS_INFO, ESTABLISHED, TCP_INFO = 1 << 1, 1 << 1, 2
HEADER, INODE_AT, ATTRIBUTES_AT, BYTES_RECEIVED_AT = struct.Struct("=IHHII"), 68, 72, 128
"""From linux/inet_diag.h and linux/tcp.h: a dump of TCP sockets, and where each message has what is read of it."""
SWEEP_LIMIT = 2.0  # seconds
SWEEP_PAUSE = 0.01


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
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
        cpu += times.user + times.system + times.children_user + times.children_system
    return Usage(cpu_seconds=cpu, rss_bytes=rss)


def activity_of(folder: Path) -> Activity:
    """Return what the run's tree has done so far, without its holder; nothing if it is gone."""
    pids, cpu, io, wakes, inodes = set(), 0.0, 0, 0, set[int]()
    for process in tree_of(folder)[1:]:
        try:
            times, counted, switches = process.cpu_times(), process.io_counters(), process.num_ctx_switches()
        except (psutil.NoSuchProcess, psutil.AccessDenied):
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


def kill_marked(folder: Path) -> tuple[int, ...]:
    """Kill everything in this run's control group and everything with its marker; return their pids.
    Takes 2 s at most.
    """
    cgroup = cgroup_of(folder)
    killed = sorted(cgroup.members())
    cgroup.kill()
    deadline = time.monotonic() + SWEEP_LIMIT
    while ((marked := _marked(str(folder))) or cgroup.members()) and time.monotonic() < deadline:
        for process in marked:
            if process.pid not in killed:
                killed.append(process.pid)
            try:
                process.kill()
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
        time.sleep(SWEEP_PAUSE)
    cgroup.remove()
    return tuple(killed)


def _marked(value: str) -> list[psutil.Process]:
    marked = []
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE and process.environ().get(MARKER) == value:
                marked.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied, OSError):
            continue
    return marked


def _is_named_after(name: str, pid: int) -> bool:
    """Return whether the group belongs to a holder that lives."""
    try:
        return name == name_of(pid, _start_ticks(pid))
    except (FileNotFoundError, ProcessLookupError):
        return False


def _start_ticks(pid: int) -> int:
    row = Path(f"/proc/{pid}/stat").read_bytes()
    return int(row[row.rindex(b")") + 2 :].split()[19])
