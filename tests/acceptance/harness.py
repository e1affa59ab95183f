"""A harness for one daemon: a user's repository, settings, a data folder, and the real daemon as a process of its own.

    with DaemonHarness(tmp_path, scenario={"ANALYSIS": [{"think_ms": 500}]}) as harness:
        task = harness.submit()
        harness.kill()            # SIGKILL
        harness.start()
        harness.wait_for_end(task)

Agents are the scripted one, as real processes. Whatever happens in a test, nothing that it started outlives the
harness: every process that carries the marker of this data folder is ended with it.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self, TypeVar
from uuid import uuid4

import httpx
import orjson
import pytest

import orchestrator
from orchestrator.core.task.agent import ProcessState
from orchestrator.core.task.task import TaskStatus
from orchestrator.pipelines.bundled import Kind, bundled
from orchestrator.processes.spec import BOOT, MARKER
from orchestrator.server.client import Client, RequestRefused
from orchestrator.server.schemas.task_input import SubmissionBody
from orchestrator.server.schemas.tasks import TaskView
from orchestrator.server.schemas.user_requests import RequestView
from tests import fork_server
from tests.fakes.repositories import commit, git

Json = dict[str, Any]
T = TypeVar("T")
Process = subprocess.Popen[bytes] | fork_server.ForkedProcess
Stream = int | IO[bytes]
"""Where a process reads from or writes to."""

PATIENCE = 90.0
LOOK_EVERY = 0.01
ASK_EVERY = 0.03
"""Seconds: how long a test waits for what must come, between two looks, and between two requests to the daemon."""

SOURCES = Path(orchestrator.__file__).parent.parent
TICKET = "Add slugify(text)\n\nIt turns a title into a part of a URL.\n"
FILES = {
    "textkit/__init__.py": "def shout(text: str) -> str:\n    return text.upper()\n",
    "tests/__init__.py": "",
    "tests/test_textkit.py": "import unittest\n\nfrom textkit import shout\n\n\nclass ShoutTest(unittest.TestCase):\n"
    '    def test_shout(self) -> None:\n        self.assertEqual(shout("a"), "A")\n',
    "README.md": "# textkit\n",
    ".gitignore": "__pycache__/\n",
}
UNIT_TEST = f"{sys.executable} -B -m unittest"
ISOLATION = os.environ.get("TESTS_ISOLATION", "auto")
"""The setting `isolation` of all daemons in tests: run them with TESTS_ISOLATION=none too."""
QUICK: Mapping[str, object] = {
    "isolation": ISOLATION,
    "retry_delay": 0.1,
    "turn_timeout": 60,
    "graces": {"interrupt": 0.3, "eof": 0.3, "term": 0.5, "kill": 2},
    "log": {"format": "json"},
}
ENDED = frozenset({TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.BLOCKED, TaskStatus.CANCELLED})


class DaemonHarness:
    """One daemon with all that it needs; entered, it answers.

    `program` is started in place of `orchestrator`; without it, the fork server starts `orchestrator`.
    """

    def __init__(
        self, root: Path, scenario: Json | None = None, program: Sequence[str] = (), **settings: object
    ) -> None:
        self.program = program
        self.root, self.data = root, root / "data"
        self.scenario, self.settings = scenario or {}, {**QUICK, **settings}
        self.writable = [root]  # for agents and checks, beside their own folders
        self.client = Client(self.data / "orchestrator.sock")
        self.daemon: Process | None = None
        self.repo = self.make_repository("repo")

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self._sweep()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self.client:
            self._sweep()

    @property
    def checks_run(self) -> Path:
        """Has a line, the commit, for every time that the repository's own check really ran."""
        return self.root / "checks-run"

    @property
    def log(self) -> list[Json]:
        """What every daemon of this harness has logged so far; a line cut off by SIGKILL is left out."""
        lines = (self.root / "daemon.log").read_bytes().splitlines()
        return [orjson.loads(line) for line in lines if line.startswith(b"{") and line.endswith(b"}")]

    def make_repository(self, name: str, check: str = UNIT_TEST) -> Path:
        """A user's repository with the package `textkit`, whose check leaves a line in `checks_run`."""
        folder = self.root / name
        folder.mkdir(parents=True)
        git(folder, "init", "--quiet", "--initial-branch=main")
        command = f"git rev-parse HEAD >> '{self.checks_run}' && {check}"
        commit(folder, {**FILES, ".orchestrator.toml": f"[checks.unit_test]\ncommand = {json.dumps(command)}\n"})
        return folder

    def launch(self, stdin: Stream = subprocess.DEVNULL) -> Process:
        """Start a daemon and do not wait until it answers."""
        agent = {
            "driver": "command",
            "command": [sys.executable, str(bundled(Kind.SCRIPTED_AGENT))],
            "env": {
                "ORCHESTRATOR_SCENARIO": json.dumps(self.scenario),
                "ORCHESTRATOR_SCRIPTED_HOME": str(self.root / "agent"),
            },
            "writable": [str(path) for path in self.writable],
        }
        (self.root / "orchestrator.toml").write_text(toml({"agent": agent, **self.settings}))
        with (self.root / "daemon.log").open("ab") as log:
            self.daemon = self.begin("serve", out=log, err=log, stdin=stdin)
        return self.daemon

    def start(self, stdin: Stream = subprocess.DEVNULL) -> None:
        """Start a daemon and wait until it answers."""
        daemon = self.launch(stdin)
        self.wait_for("an answer of the daemon", lambda: self.answers() or daemon.poll() is not None)
        assert daemon.poll() is None, self._story()

    def answers(self) -> bool:
        """Whether a daemon answers."""
        return answers(self.client)

    def kill(self) -> None:
        """End the daemon with SIGKILL; everything else runs on."""
        if self.daemon is not None:
            self.daemon.kill()
            self.daemon.wait()

    def stop_all(self) -> None:
        """End the daemon and every process of its runs with SIGKILL, as a power cut does."""
        self._sweep()

    def stop(self) -> int:
        """Tell the daemon to end with SIGTERM; its exit code."""
        assert self.daemon is not None
        self.daemon.terminate()
        return self.daemon.wait(PATIENCE)

    def cli(
        self, *arguments: str, stdin: str = "", environment: Mapping[str, str] | None = None
    ) -> "subprocess.CompletedProcess[str]":
        """What a command of `orchestrator` printed and how it ended."""
        arguments, env = (*self._options(), *arguments), {**self._environment(), **(environment or {})}
        return fork_server.run(*arguments, stdin=stdin, cwd=SOURCES, env=env, timeout=PATIENCE)

    def begin(
        self, *arguments: str, out: Stream, err: Stream = subprocess.DEVNULL, stdin: Stream = subprocess.DEVNULL
    ) -> Process:
        """Begin a command of `orchestrator` and do not wait for its end."""
        arguments, env = (*self._options(), *arguments), self._environment()
        if self.program:
            return subprocess.Popen(
                [*self.program, *arguments], stdin=stdin, stdout=out, stderr=err, cwd=SOURCES, env=env
            )
        return fork_server.start(*arguments, stdin=stdin, stdout=out, stderr=err, cwd=SOURCES, env=env)

    def submit(self, text: str = TICKET, key: str = "", **more: Any) -> str:
        """Hand in a ticket, under an Idempotency-Key of its own if none is given; the id of its task."""
        return self.client.submit(SubmissionBody(text=text, **{"repo": self.repo, **more}), key or uuid4().hex).id

    def folder(self, task: str) -> Path:
        """Where a task's files lie."""
        return self.data / "tasks" / task

    def state(self, task: str) -> Json:
        """What state.json says, whether a daemon runs or not."""
        return dict(orjson.loads((self.folder(task) / "state.json").read_bytes()))

    def journal(self, task: str, trigger: str = "") -> list[Json]:
        """The whole lines of a task's journal, those of one kind of event if it is named."""
        every = whole_lines(self.folder(task) / "journal.jsonl")
        return [line for line in every if not trigger or line["trigger"] == trigger]

    def request(self, method: str, path: str, body: Json | None = None) -> Json:
        """What the daemon answers to a request of a person's; it must not be refused."""
        return send_request(self.client.socket, method, path, body)

    def turn_texts(self, task: str, attempt: int) -> list[str]:
        """The text of every turn that was handed to one agent of the task."""
        lines = whole_lines(self.folder(task) / f"agents/{attempt}/stdin.jsonl")
        turns = [line for line in lines if line.get("type") == "user"]
        return [turn["message"]["content"][0]["text"] for turn in turns]

    def sent_turns(self, task: str) -> list[str]:
        """The uuid of every turn that was handed to an agent of the task, in order of attempts."""
        files = sorted(self.folder(task).glob("agents/*/stdin.jsonl"), key=lambda file: int(file.parent.name))
        lines = [line for file in files for line in whole_lines(file)]
        return [line["uuid"] for line in lines if line.get("type") == "user"]

    def taken_turns(self) -> list[str]:
        """The uuid of every turn that an agent of this harness began to work at."""
        files = sorted((self.root / "agent").glob("*.jsonl"))
        turns = [line["uuid"] for file in files for line in whole_lines(file)]
        return [uuid for uuid in turns if uuid]

    def subjects(self, task: str) -> list[str]:
        """The subjects of the delivered branch's own commits, oldest first."""
        state = self.state(task)
        own = f"{state['base_commit']}..{state['branch']}"
        return git(Path(state["repo"]), "log", "--reverse", "--format=%s", own).splitlines()

    def wait_for(self, what: str, look: Callable[[], T], patience: float = PATIENCE, every: float = LOOK_EVERY) -> T:
        """Look until there is something to see; AssertionError with the daemon's story after so many seconds."""
        deadline = time.monotonic() + patience
        while not (seen := look()):
            assert time.monotonic() < deadline, f"waited {patience} s in vain for {what}\n{self._story()}"
            time.sleep(every)
        return seen

    def wait_until(self, task: str, reached: Callable[[TaskView], object], patience: float = PATIENCE) -> TaskView:
        """Ask the daemon about a task until something is reached; fails at once if the daemon ended."""
        assert self.daemon is not None
        daemon, told = self.daemon, [self.client.task(task)]

        def look() -> bool:
            assert daemon.poll() is None, f"the daemon ended\n{self._story()}"
            told.append(self.client.task(task))
            return bool(reached(told[-1]))

        self.wait_for(f"{task}, now {told[-1].stage}", look, patience, ASK_EVERY)
        return told[-1]

    def wait_for_end(self, task: str, status: TaskStatus = TaskStatus.COMPLETED) -> TaskView:
        """The task when it has come to a halt and nothing of it runs; it must have this status then."""
        ended = self.wait_until(task, lambda now: now.status in ENDED and now.run is None)
        assert ended.status is status, f"{ended.status}: {ended.block_reason}\n{self._story()}"
        return ended

    def wait_until_it_asks(self, task: str) -> RequestView:
        """What a task asks for, when it stands still for that."""
        waiting = self.wait_until(task, lambda now: now.waiting and _process(now) in (ProcessState.FROZEN, None))
        return waiting.waiting[0]

    def wait_until_it_works(self, task: str, stage: str) -> TaskView:
        """The task when an agent runs in that stage."""
        return self.wait_until(task, lambda now: now.stage == stage and _process(now) is ProcessState.RUNNING)

    def wait_until_frozen(self, task: str) -> TaskView:
        """The task when its processes are frozen."""
        return self.wait_until(task, lambda now: _process(now) is ProcessState.FROZEN)

    def looks(self, seconds: float) -> Iterator[None]:
        """Comes back again and again for so long, for looking at what must not happen."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            yield
            time.sleep(LOOK_EVERY)

    def overwrite(self, file: Path, text: str) -> None:
        """Put a text into a file's place in one piece: who watches the file never reads half of it."""
        fresh = self.root / "fresh"
        fresh.write_text(text)
        fresh.replace(file)

    def end_run(self, task: str) -> None:
        """End the task's agent with SIGKILL, whether it stands still or not."""
        pid = self.client.task(task).agent.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)

    def survivors(self) -> list[int]:
        """The pids of agents, checks and holders of this harness that live."""
        return [pid for pid in _pids() if _belongs_to(pid, str(self.data))]

    def nothing_is_left(self) -> bool:
        """Wait until no process of any run lives."""
        return self.wait_for("the end of every process", lambda: not self.survivors())

    def _sweep(self) -> None:
        """End the daemon, then every process of its runs; holders first, which would report what they lose."""
        self.kill()
        while pids := self.survivors():
            for pid in pids:
                _signal(pid, signal.SIGKILL)
            time.sleep(LOOK_EVERY)

    def _options(self) -> tuple[str, ...]:
        return ("--config", str(self.root / "orchestrator.toml"), "--data-dir", str(self.data))

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ORCHESTRATOR_")}
        return {**kept, "HOME": str(self.root / "home"), "XDG_CONFIG_HOME": str(self.root / "config")}

    def _story(self) -> str:
        log = self.root / "daemon.log"
        return "\n".join(log.read_text(errors="replace").splitlines()[-25:]) if log.exists() else "no daemon ran"


def answers(client: Client) -> bool:
    """Whether a daemon answers: to a dead one's child the door may be open until that child is another program.

    It is asked through one connection: the door may close before a second one, which httpx then leaves unclosed.
    """
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(PATIENCE)
        try:
            probe.connect(str(client.socket))
            probe.sendall(b"GET /api/status HTTP/1.1\r\nHost: daemon\r\nConnection: close\r\n\r\n")
            return probe.recv(64).startswith(b"HTTP/1.1 200 ")
        except OSError:
            return False


def send_request(socket: Path, method: str, path: str, body: Json | None = None) -> Json:
    """What the daemon behind a socket answers; it must not refuse."""
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(socket)), base_url="http://daemon") as http:
        response = http.request(method, path, json=body)
    assert response.is_success, response.text
    return dict(response.json())


@contextmanager
def refused(kind: str, *names: str) -> Iterator[None]:
    """Expect a refusal with a problem of this kind, whose detail has these names."""
    with pytest.raises(RequestRefused) as caught:
        yield
    assert caught.value.kind == kind
    assert [name for name in names if name not in caught.value.problem.detail] == []


def state_of(pid: int) -> str:
    """The kernel's letter for a process, `-` when there is none."""
    row = _read(pid, "stat")
    return row[row.rindex(")") + 2] if row else "-"


def frozen_pids(harness: DaemonHarness, task: str) -> list[int]:
    """The pids that the newest freeze on record stopped."""
    return list(harness.journal(task, "RunFrozen")[-1]["event"]["stopped"])


def whole_lines(file: Path) -> list[Json]:
    """The documents of a file that others append to, without one that is being written."""
    *lines, _ = file.read_bytes().split(b"\n")
    return [orjson.loads(line) for line in lines]


def line_count(file: Path) -> int:
    """The lines of a file; none if there is no such file yet."""
    return file.read_bytes().count(b"\n") if file.exists() else 0


def ticking_until(go: Path, ticks: Path) -> str:
    """A command that adds its next number to a file every 100 ms, until it may go on."""
    return f"i=0; until [ -e '{go}' ]; do i=$((i+1)); echo $i >> '{ticks}'; sleep 0.1; done"


def none_is_missing(ticks: Path) -> bool:
    """Whether a command ticked, and was begun no second time."""
    numbers = ticks.read_text().split()
    return bool(numbers) and numbers == [str(number) for number in range(1, len(numbers) + 1)]


def listing(folder: Path, but: tuple[str, ...] = ()) -> dict[str, tuple[int, int, bytes]]:
    """Everything below a folder, mode, time of change and content, but for the paths that begin so."""
    found: dict[str, tuple[int, int, bytes]] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if not name.startswith(but):
            row = path.lstat()
            when = 0 if path.is_dir() else row.st_mtime_ns
            found[name] = (row.st_mode, when, path.read_bytes() if path.is_file() and not path.is_symlink() else b"")
    return found


def _process(task: TaskView) -> ProcessState | None:
    return task.run.process if task.run else None


def _pids() -> Iterator[int]:
    yield from (int(name) for name in os.listdir("/proc") if name.isdigit())  # noqa: PTH208 - names alone


def _belongs_to(pid: int, data: str) -> bool:
    """Whether a process carries the marker of a run in that data folder, or holds one."""
    if state_of(pid) in "ZX-":
        return False
    marked = any(line.startswith(f"{MARKER}={data}/") for line in _read(pid, "environ").split("\0"))
    words = _read(pid, "cmdline").split("\0")
    return marked or (BOOT in words and any(word.startswith(f"{data}/") for word in words))


def _read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text("utf-8", "replace")
    except OSError:
        return ""


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def toml(values: Mapping[str, object], above: str = "") -> str:
    """The settings as a file; JSON's scalars and lists are TOML's too."""
    lines = [f"{key} = {json.dumps(value)}" for key, value in values.items() if not isinstance(value, Mapping)]
    for key, value in values.items():
        if isinstance(value, Mapping):
            name = f"{above}{json.dumps(key)}"
            lines += [f"[{name}]", toml(value, f"{name}.")]
    return "\n".join(lines) + "\n"
