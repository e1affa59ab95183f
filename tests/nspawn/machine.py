"""A Debian 12 with systemd 252, booted in a container on this machine, and orchestrator installed from this checkout.

It has a systemd with control groups v2, a journal, the watchdog and the sandboxing options of units, and no network.
Needs root, systemd-nspawn, debootstrap and, for building it, a network.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

BASE = Path(os.environ.get("ORCHESTRATOR_NSPAWN", "/var/tmp/orchestrator-nspawn"))
ROOT, WHEELS, LEADER = BASE / "root", BASE / "wheels", BASE / "leader"
SOURCES = Path(__file__).resolve().parents[2]
PACKAGES = (
    *("systemd", "systemd-sysv", "libpam-systemd", "dbus", "procps", "passwd", "sudo", "util-linux"),
    *("python3", "python3-venv", "git", "bubblewrap", "ca-certificates"),
)
NEEDED = ("systemd-nspawn", "debootstrap", "nsenter")
PROGRAM, PYTHON = "/usr/local/bin/orchestrator", "/opt/orchestrator/bin/python"
ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
    "HOME": "/root",
    "TERM": "dumb",
    "LANG": "C.UTF-8",
}
T = TypeVar("T")
PATIENCE = 90.0


def obstacle() -> str:
    """Return why no machine can be made here; empty if one can."""
    if os.geteuid() != 0:
        return "this needs root"
    missing = [name for name in NEEDED if shutil.which(name) is None]
    return f"not installed: {', '.join(missing)}" if missing else ""


def build() -> None:
    """Make the machine's files, once: Debian's packages, and those that orchestrator and a receiver of mail need."""
    if not (ROOT / "usr/lib/systemd/systemd").exists():
        ROOT.parent.mkdir(parents=True, exist_ok=True)
        _host("debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", "bookworm", str(ROOT))
    if not list(WHEELS.glob("aiosmtpd-*")):
        collect = (sys.executable, "-m", "pip", "wheel", "-q", "-c", ".ci/constraints.txt", "-w", str(WHEELS))
        _host(*collect, ".", "aiosmtpd")


def make_wheel() -> Path:
    """Return a wheel of this checkout, as the machine sees it."""
    for old in WHEELS.glob("orchestrator-*.whl"):
        old.unlink()
    _host(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(WHEELS), ".")
    (made,) = WHEELS.glob("orchestrator-*.whl")
    return Path("/wheels") / made.name


def boot() -> None:
    """Boot the machine, unless it runs."""
    if is_running():
        return
    machine_id = ROOT / "etc/machine-id"
    machine_id.unlink(missing_ok=True)
    machine_id.touch()
    words = ("systemd-nspawn", "-q", "--boot", "--register=no", "--keep-unit", "--private-network", "--console=pipe")
    binds = (f"--bind-ro={SOURCES}:/src", f"--bind-ro={WHEELS}:/wheels")
    with (BASE / "boot.log").open("wb") as log:
        process = subprocess.Popen(
            (*words, f"--directory={ROOT}", "--machine=orchestrator-tests", *binds),
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            env={**os.environ, "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1", "SYSTEMD_NSPAWN_API_VFS_WRITABLE": "1"},
        )  # fmt: skip
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    leader = until("the machine's first process", lambda: children.read_text().split())[0]
    LEADER.write_text(leader)
    until("the end of booting", lambda: run("systemctl", "is-system-running").stdout.strip() in {"running", "degraded"})


def stop() -> None:
    """Power the machine off."""
    if is_running():
        leader = int(LEADER.read_text())
        os.kill(leader, signal.SIGRTMIN + 4)  # systemd's signal for that
        until("the end of the machine", lambda: not Path(f"/proc/{leader}").exists())
    LEADER.unlink(missing_ok=True)


def cut_power() -> None:
    """End every process of the machine at once; what they had not yet handed to the kernel is lost."""
    leader = int(LEADER.read_text())
    keeper = int(Path(f"/proc/{leader}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(leader, signal.SIGKILL)
    until("the end of the machine", lambda: not Path(f"/proc/{leader}").exists() and not _lives(keeper))
    LEADER.unlink()


def _lives(pid: int) -> bool:
    """Return whether a process runs; one that ended and that nobody asked about is a zombie."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def is_running() -> bool:
    """Return whether the machine runs."""
    with suppress(OSError, ValueError):
        return (
            Path(f"/proc/{int(LEADER.read_text())}/cmdline")
            .read_bytes()
            .startswith((b"/usr/lib/systemd", b"/sbin/init"))
        )
    return False


def entering(*command: str) -> list[str]:
    """Return a command that runs another one in the machine, as root."""
    variables = [f"{name}={value}" for name, value in ENVIRONMENT.items()]
    return ["nsenter", "-t", LEADER.read_text(), "-a", "--", "env", "-i", *variables, *command]


def run(*command: str) -> "subprocess.CompletedProcess[str]":
    """Return how a command in the machine ended."""
    return subprocess.run(
        entering(*command), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE, check=False
    )


def out(*command: str) -> str:
    """Return what a command in the machine printed; it must not fail."""
    done = run(*command)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def as_account(*command: str) -> Sequence[str]:
    """Return a command that runs as the service's account in its home folder."""
    return (
        "runuser",
        "-u",
        "orchestrator",
        "--",
        "env",
        "-C",
        "/home/orchestrator",
        "HOME=/home/orchestrator",
        *command,
    )


def until(what: str, look: Callable[[], T], patience: float = PATIENCE) -> T:
    """Look again and again until there is something to see, and return that."""
    deadline = time.monotonic() + patience
    while True:
        with suppress(OSError, RuntimeError):
            if seen := look():
                return seen
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {patience:.0f} s in vain for {what}")
        time.sleep(0.2)


def _host(*command: str) -> None:
    subprocess.run(command, cwd=SOURCES, stdin=subprocess.DEVNULL, check=True)
