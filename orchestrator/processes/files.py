"""The files of one run's folder: their names and formats, and how holder and daemon read and replace them.

The holder imports this module, so it imports nothing slow: `json`, `pathlib` and `typing` together take longer than the
interpreter takes to start. `_json` is the C part of `json`; its scanner reads the same documents.
"""
# pathlib takes 6 ms to import, and every run starts a holder:
# ruff: noqa: PTH105, PTH120

from __future__ import annotations

import errno
import os
import stat
from _blake2 import blake2b
from _json import encode_basestring_ascii, make_scanner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypedDict

    class Graces(TypedDict):
        """How long each step of a stop may take, in seconds."""

        eof: float
        term: float
        kill: float
        sweep: float

    class Spec(TypedDict):
        """The content of spec.json, which the holder reads; times in seconds, sizes in bytes.

        `wrap` are the words of a sandbox, which precede those of the command; empty without one.
        """

        run: str
        wrap: list[str]
        argv: list[str]
        cwd: str
        env: dict[str, str]
        stdin: str
        doorbell: str
        alive: str
        orphan_after: float | None
        timeout: float | None
        rotate_bytes: int
        floor_bytes: int
        graces: Graces
        oom_score_adj: int
        cgroup: bool

    class Handover(TypedDict):
        """What the holder gets in memory only: secret variables of the agent's environment, and masks.

        `stdout` and `stderr` are the masks of these streams, each a pattern and the word that replaces it. `exit_key`
        signs the exit file, in hexadecimal.
        """

        env: dict[str, str]
        stdout: list[list[str]]
        stderr: list[list[str]]
        stdout_is_json: bool
        exit_key: str

    class PidRecord(TypedDict):
        """Who serves a run: pids mean something only together with the boot and the holder's start.

        `cgroup` is the control group that holds the agent's tree, None where signals do.
        """

        holder: int
        agent: int | None
        boot_id: str
        start_ticks: int
        cgroup: str | None

    class StatusRecord(TypedDict):
        """What the holder is doing and which request it did last; `survivors` could not be stopped."""

        state: str
        request: str | None
        stopped: list[int]
        survivors: list[int]

    class ExitRecord(TypedDict):
        """How a run ended; `lost` is written only by the daemon, if a holder died without writing this file."""

        code: int | None
        signal: int | None
        timed_out: bool
        spawn_error: str | None
        stopped_by: str | None
        swept: list[int]
        lost: bool
        ended_at: str


LOCK, PID, CONTROL, STATUS, EXIT, SPEC = "lock", "pid", "control", "status.json", "exit", "spec.json"
STDIN, STDIN_OFFSET = "stdin.jsonl", "stdin.offset"
GONE = (FileNotFoundError, NotADirectoryError)
"""What is raised for a file that is missing, or whose folder another program removed."""
STDOUT, STDERR = ("stdout", ".jsonl"), ("stderr", ".log")
END_OF_INPUT = b'{"eof":true}\n'
LOCK_FD, CONTROL_FD, HANDOVER_FD = 3, 4, 5  # where the daemon puts the descriptors that a holder inherits

RUNNING, FROZEN, STOPPING = "running", "frozen", "stopping"
RLIMIT_LOCKS, MARKS_FROM = 10, 1 << 40
"""A limit that Linux has not used since 2.4.25: processes inherit it, and only root can raise it again."""
SAID = "+"
"""Precedes a run's name on the doorbell if only its output has grown."""
BY_REQUEST, BY_TIMEOUT, BY_ORPHAN, BY_SHUTDOWN = "request", "timeout", "orphan", "shutdown"


class _Decoding:
    """The settings of a plain JSON decoder, in the form that `make_scanner` expects."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    array_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float


_scan = make_scanner(_Decoding())  # type: ignore[arg-type]  # the stub asks for a scanner, the C code for these attributes


def decode(text: str) -> object:
    """Return the value of a JSON document. Raises ValueError if it is not one."""
    try:
        value: object = _scan(text.strip(), 0)[0]
    except StopIteration:
        raise ValueError(f"not a JSON document: {text[:80]!r}") from None
    return value


def encode(value: object) -> str:
    """Return strings, numbers, booleans, None, lists and dicts as JSON. Raises TypeError for anything else."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return encode_basestring_ascii(value)
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, dict):
        return "{" + ", ".join([f"{encode(key)}: {encode(item)}" for key, item in value.items()]) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join([encode(item) for item in value]) + "]"
    raise TypeError(f"no JSON for {type(value)}")


def open_plain(path: str) -> int:
    """Open a regular file for reading. Raises OSError, also for anything else that an agent may have put there.

    Opening a FIFO could block forever.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a link, a socket
            raise FileNotFoundError(errno.ENOENT, "there is no regular file", path) from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise FileNotFoundError(errno.ENOENT, "there is no regular file", path)
    return descriptor


def read(path: str) -> str:
    """Return the text of a small regular file. Raises OSError."""
    descriptor = open_plain(path)
    try:
        return read_all(descriptor)
    finally:
        os.close(descriptor)


def read_all(descriptor: int) -> str:
    """Return the whole text of an open file, from its beginning."""
    pieces: list[bytes] = []
    position = 0
    while piece := os.pread(descriptor, 1 << 20, position):
        pieces.append(piece)
        position += len(piece)
    return b"".join(pieces).decode()


def write_all(descriptor: int, text: str) -> None:
    """Write a whole text, in as many writes as that takes."""
    rest = memoryview(text.encode())
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def replace(path: str, text: str, *, durable: bool = False) -> None:
    """Replace a file atomically; `durable` makes that survive a power cut too."""
    draft = f"{path}.new"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        write_all(descriptor, text)
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.replace(draft, path)
    if durable:
        folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def signed_exit(record: object, key: str) -> str:
    """Return the text of an exit file: the record, and on a second line its signature with the run's key."""
    text = encode(record)
    return f"{text}\n{blake2b(text.encode(), key=bytes.fromhex(key), digest_size=32).hexdigest()}\n"


def mark_of(folder: str) -> int:
    """Return the limit of file locks that marks the processes of the run of this folder."""
    return MARKS_FROM + int.from_bytes(blake2b(os.fsencode(folder), digest_size=5).digest(), "big")


def boot_id() -> str:
    """Return the id of the machine's current boot, which distinguishes its pids from those of an earlier one."""
    return read("/proc/sys/kernel/random/boot_id").strip()
