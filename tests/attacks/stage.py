"""The stage of an attack: a real daemon, a victim at work, planted secrets, and the judgement of what came of it."""

import ctypes
import json
import os
import socket
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from orchestrator.core.task.task import TaskStatus
from orchestrator.storage.vault import Vault
from tests.acceptance.harness import ENDED, SOURCES, DaemonHarness, Json, state_of
from tests.attacks.hostile import ADD_KEY, SESSION_KEYRING, WRITABLE, began_at
from tests.browser.site import free_port
from tests.fakes.repositories import commit, git

HOSTILE = Path(__file__).with_name("hostile.py")
SECRET, TOKEN = "the-secret-of-the-victim", "the-token-of-the-daemon"
WITHHELD = ("GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "NPM_TOKEN")
"""Variables that the daemon has and no run may see."""
CONTROLS = "\x1b]0;planted\x07\x1b[2J"
HUGE = 24 << 20  # bytes of one line of output
MOST_MEMORY = 400 << 20  # bytes that the daemon may take for it
IPC_CREAT = 0o1000
PATIENT: Json = {"max_agents": 2, "turn_timeout": 600}


@dataclass(slots=True)
class Stage:
    """One daemon, its victim, and a folder `shared` in which the attacker reports; nothing else there is writable."""

    harness: DaemonHarness
    shared: Path
    outside: Json
    victim: str = ""
    results: dict[str, str] = field(default_factory=dict)

    def wait_for_the_victim(self) -> None:
        """Start a task whose agent works on; write down what an attacker could find out about it."""
        self.victim = self.harness.submit()
        run = self.harness.wait_until(self.victim, lambda now: now.run and now.agent.pid and now.worktree).run
        assert run is not None
        folder = self.harness.folder(self.victim) / run.folder
        Vault(self.harness.data).put(self.harness.folder(self.victim), self.victim, "DB_PASSWORD", SECRET)
        self.tell(json.loads((folder / "pid").read_text()))

    def tell(self, pids: Json) -> None:
        """Write down what an attacker knows of the victim's holder and agent, and of everything else."""
        below = psutil.Process(pids["holder"]).children(recursive=True)
        agent = next((one for one in below if "ORCHESTRATOR_TOKEN" in one.environ()), psutil.Process(pids["agent"]))
        others = {"a holder": pids["holder"], "another agent": agent.pid}
        self._write_targets(others, agent.environ().get("ORCHESTRATOR_TOKEN", SECRET))

    def tell_nothing(self) -> None:
        """Write down what an attacker knows where there is no victim."""
        self._write_targets({}, SECRET)

    def _write_targets(self, others: dict[str, int], secret: str) -> None:
        known = {"the daemon": self.daemon(), **others}
        targets = {
            **self.outside,
            "data": str(self.harness.data),
            "home": str(self.harness.root / "home"),
            "root": str(self.harness.root),
            "repo": str(self.harness.repo),
            "victim": self.victim,
            "shared": str(self.shared),
            "pids": {who: (pid, began_at(pid)) for who, pid in known.items()},
            "secret": secret,
            "token": TOKEN,
            "withheld": WITHHELD,
            "program": str(SOURCES / "orchestrator/__init__.py"),
        }
        (self.shared / "targets.json").write_text(json.dumps(targets))

    def was_done(self, report: str, name: str) -> bool:
        """Return whether nothing kept the attacker from an attempt."""
        said = map(json.loads, (self.shared / report).read_text().splitlines())
        return any(one["name"] == name and not one["why"] for one in said)

    def daemon(self) -> int:
        """Return the pid of the daemon."""
        return int((self.harness.data / "lock").read_text())

    def require_the_victim(self) -> None:
        """Raise RuntimeError if the victim did not work until now: then there was nobody to attack."""
        now = self.harness.client.task(self.victim)
        if now.run is None or now.agent.attempt != 1:
            raise RuntimeError(f"the victim has ended: {now.status}, {now.block_reason}")

    def reported(self, report: str) -> None:
        """Take over what the attacker reported; what it says of files is checked from here."""
        file = self.shared / report
        for line in file.read_text().splitlines() if file.exists() else ():
            said = json.loads(line)
            self.results[said["name"]] = _told(said["got"]) if _is_true(said["got"]) else ""


@contextmanager
def stage(
    isolation: str, scenario: Mapping[str, object], checks: Mapping[str, object], offline: str = ""
) -> Iterator[Stage]:
    """Yield a stage whose agents follow the scenario; `SHARED` in it stands for the stage's shared folder.

    `offline` is the command of a check that has no network where there are sandboxes.
    """
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="attacks-", ignore_cleanup_errors=True)))
        shared = root / "shared"
        shared.mkdir()
        text = json.dumps({"scenario": scenario, "checks": checks}).replace("SHARED", str(shared))
        told = json.loads(text)
        outside = stack.enter_context(_outside(root))
        settings = {**PATIENT, "isolation": isolation, "checks": {"commands": told["checks"]}}
        listen = outside["listen"] = f"127.0.0.1:{free_port()}"
        harness = DaemonHarness(root / "harness", told["scenario"], listen=listen, **settings)
        _plant(harness)
        if offline:
            limits = "" if isolation == "none" else "network = false\n"
            command = json.dumps(offline.replace("SHARED", str(shared)))
            present = (harness.repo / ".orchestrator.toml").read_text()
            declared = f"\n[checks.offline]\ncommand = {command}\n{limits}"
            commit(harness.repo, {".orchestrator.toml": present + declared})
        harness.writable = [shared, harness.root / "agent"]
        (harness.root / "agent").mkdir()
        with _environment(dict.fromkeys(WITHHELD, TOKEN)):
            stack.enter_context(harness)
        yield Stage(harness, shared, outside)


def _plant(harness: DaemonHarness) -> None:
    """Put secrets where a user has them."""
    home = harness.root / "home"
    for name in (".ssh/id_ed25519", ".netrc", ".git-credentials", ".aws/credentials", ".config/gh/hosts.yml"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(SECRET)
    for name in (".cache/pip", ".npm/_cacache", ".cargo/registry", ".claude"):
        (home / name).mkdir(parents=True)
    quarantine = harness.data / "quarantine"
    quarantine.mkdir(parents=True, mode=0o700)
    (quarantine / "ticket.txt").write_text(SECRET)
    git(harness.root, "init", "--quiet", "--bare", "origin.git")
    git(harness.repo, "remote", "add", "origin", str(harness.root / "origin.git"))


@contextmanager
def _outside(root: Path) -> Iterator[Json]:
    """Yield what runs on the machine beside the daemon: services, shared memory, temporary files."""
    libc = ctypes.CDLL(None, use_errno=True)
    segment = libc.shmget(0, 4096, IPC_CREAT | 0o600)
    name = f"attacks-{os.getpid()}-{time.monotonic_ns()}"
    memory = Path("/dev/shm", name)
    libc.syscall(ADD_KEY, b"user", name.encode(), SECRET.encode(), len(SECRET), SESSION_KEYRING)
    with (
        tempfile.NamedTemporaryFile(dir="/tmp", prefix=name) as temporary,
        socket.socket(socket.AF_UNIX) as abstract,
        socket.create_server(("127.0.0.1", 0)) as loopback,
    ):
        temporary.write(SECRET.encode())
        temporary.flush()
        memory.write_text(SECRET)
        abstract.bind("\0" + name)
        abstract.listen()
        for server in (abstract, loopback):
            threading.Thread(target=_serve, args=(server,), daemon=True).start()
        try:
            yield {
                "segment": segment,
                "key": name,
                "temporary": temporary.name,
                "shared_memory": str(memory),
                "abstract": name,
                "port": loopback.getsockname()[1],
                "origin": str(root / "harness/origin.git"),
            }
        finally:
            memory.unlink(missing_ok=True)
            libc.shmctl(segment, 0, None)


def _serve(server: socket.socket) -> None:
    while True:
        try:
            peer, _ = server.accept()
        except OSError:
            return
        with peer:
            peer.sendall(SECRET.encode())


@contextmanager
def _environment(more: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(more)
    try:
        yield
    finally:
        for name in more:
            os.environ.pop(name)
        os.environ.update(before)


def _is_true(got: str) -> bool:
    """Return whether a file that was opened for writing is where it seems to be, and not in memory of a sandbox."""
    if not got.startswith(WRITABLE):
        return bool(got)
    identity, _, path = got.removeprefix(f"{WRITABLE} ").partition(" ")
    try:
        found = Path(path).parent.stat()
    except OSError:
        return False
    return identity == f"{found.st_dev}:{found.st_ino}"


def _told(got: str) -> str:
    """Return what was got as the table shows it."""
    if not got.startswith(WRITABLE):
        return got
    return f"{WRITABLE} {Path(got.rsplit(' ', maxsplit=1)[-1]).name}"


def is_growing(file: Path) -> bool:
    """Return whether somebody still writes to a file."""
    before = file.stat().st_size if file.exists() else 0
    time.sleep(1)
    return file.exists() and file.stat().st_size > before


def halt_of(stage: Stage, task: str) -> TaskStatus:
    """Return the status of a task that has come to a halt."""
    ended = stage.harness.wait_until(task, lambda now: now.status in ENDED and now.run is None, 180)
    return TaskStatus(ended.status)


def alive(pids: list[int]) -> list[int]:
    """Return those of the processes that live."""
    return [pid for pid in pids if state_of(pid) not in "-ZX"]
