"""`orchestrator demo`: the whole story in a throw-away repository, with real processes, in well under a minute.

A ticket goes through the full pipeline. On the way a usage limit is waited out, the agent is frozen and thawed in the
middle of a command, and the daemon is killed -9 and started again while the agent works on.
"""

import contextlib
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import orjson
import typer
from rich.console import Console

from orchestrator.api.views import SubmissionBody, TaskView
from orchestrator.bundled import Kind, bundled
from orchestrator.client import Client, DaemonUnreachable
from orchestrator.core.errors import OrchestratorError
from orchestrator.core.model import BlockedBy, Owed, Process, TaskStatus

TICKET = """Add slugify(text)

textkit needs a function `slugify(text)` that turns a title into a part of a URL: lower case, letters and digits kept,
everything else one dash, none at the ends. It belongs into `textkit/__init__.py`, wants tests, and a few words in
README.md.
"""

REPOSITORY = {
    "textkit/__init__.py": '"""Small helpers for text."""\n\n\n'
    'def shout(text: str) -> str:\n    return text.upper() + "!"\n',
    "tests/__init__.py": "",
    "tests/test_textkit.py": "import unittest\n\nfrom textkit import shout\n\n\nclass TestShout(unittest.TestCase):\n"
    '    def test_shout(self) -> None:\n        self.assertEqual(shout("hey"), "HEY!")\n',
    "README.md": "# textkit\n\nSmall helpers for text.\n\n`shout(text)` shouts.\n",
    ".gitignore": "__pycache__/\n",
    ".orchestrator.toml": '[checks.unit_test]\ncommand = "python3 -m unittest -v"\ntimeout = 120\n',
}

WORK_SECONDS = {False: 90.0, True: 1800.0}
"""How long the whole may take, without and with the real CLI."""
LOOK_EVERY = 0.05


class DemoFailed(OrchestratorError):
    """The demo did not come to its end."""


def demo(
    claude: Annotated[bool, typer.Option("--claude", help="use the real claude CLI and your account")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON document at the end")] = False,
) -> None:
    """See a ticket become a tested branch, with a freeze and a killed daemon on the way.

    Example: orchestrator demo
    """
    console = Console(stderr=as_json, highlight=False)
    root = Path(tempfile.mkdtemp(prefix="orchestrator-demo-"))
    story = Story(root=root, claude=claude, tell=lambda text: console.print(text, markup=False, soft_wrap=True))
    try:
        task = story.run()
    finally:
        story.end()
    if as_json:
        sys.stdout.write(json.dumps(story.result(task), indent=2) + "\n")
    else:
        story.tell_end(task)
    raise typer.Exit(0 if task.status is TaskStatus.COMPLETED else 1)


@dataclass
class Story:
    """One demo: its folder, its daemon, and what has been told so far."""

    root: Path
    claude: bool
    tell: Callable[[str], None]
    began: float = field(default_factory=time.monotonic)
    daemon: "subprocess.Popen[bytes] | None" = None

    @property
    def repository(self) -> Path:
        """The user's repository of the story."""
        return self.root / "textkit"

    @property
    def ticks(self) -> Path:
        """Where a command of the agent adds a line every 100 ms."""
        return self.root / "ticks"

    def run(self) -> TaskView:
        """Everything from an empty folder to the finished branch; raises DemoFailed."""
        self._make_repository()
        self._write_settings()
        self._start_daemon()
        with Client(self.root / "data" / "orchestrator.sock") as client:
            body = SubmissionBody(text=TICKET, repo=self.repository)
            task = client.submit(body, key=str(self.root))
            self._say(f"ticket {task.id} is in: {task.title}")
            task = self._until(client, task, lambda now: _at_work(now) and (self.claude or self.ticks.exists()))
            task = self._freeze_and_thaw(client, task)
            task = self._until(client, task, lambda now: now.agent.current_step == 2 and _at_work(now))
            self._kill_and_start(task)
            return self._until(client, task, lambda now: now.run is None and now.status.final)

    def end(self) -> None:
        """Stop the daemon if it still runs."""
        if self.daemon is not None and self.daemon.poll() is None:
            self.daemon.terminate()
            self.daemon.wait()

    def result(self, task: TaskView) -> dict[str, object]:
        """The outcome for programs."""
        return {
            "task": task.id,
            "status": task.status.value,
            "branch": task.branch,
            "commit": task.head,
            "checks": {name: result.verdict.value for name, result in task.results.items()},
            "seconds": round(time.monotonic() - self.began, 1),
            "repository": str(self.repository),
            "folder": task.folder,
        }

    def tell_end(self, task: TaskView) -> None:
        """The outcome for people."""
        self.tell("")
        if task.status is not TaskStatus.COMPLETED:
            self.tell(f"It ended {task.status}: {task.block_reason}\nThe daemon's log: {self.root / 'daemon.log'}")
            return
        self.tell(f"The branch {task.branch} in {self.repository}:")
        self.tell(self._git("log", "--oneline", "--stat", "--format=  %h %s", f"main..{task.branch}"))
        self.tell(f"Summary:    {task.folder}/summary.md\nDecisions:  {task.folder}/journal.jsonl")
        self.tell(f"All of it is in {self.root}; delete that folder when you have seen enough.")
        self.tell("Next: `orchestrator doctor`, then `orchestrator serve` and `orchestrator submit`.")

    def _make_repository(self) -> None:
        for name, content in REPOSITORY.items():
            path = self.repository / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
        self._git("init", "--quiet", "--initial-branch=main")
        self._git("add", "--all")
        self._git("commit", "--quiet", "--message", "Begin")
        self._say(f"a git repository with a small Python package: {self.repository}")

    def _write_settings(self) -> None:
        lines = [
            f"data_dir = {json.dumps(str(self.root / 'data'))}",
            "[limits]",
            "margin = 0.5",
            "[log]",
            'format = "json"',
        ]
        if not self.claude:
            agent = [sys.executable, str(bundled(Kind.SCRIPTED_AGENT))]
            scenario = {
                "PLANNING": [{"limit": {"resets_in": 2}}],
                "IMPLEMENTATION": [
                    {"tick": {"file": str(self.ticks), "seconds": 4}},
                    {"run": "sleep 3"},
                ],
            }
            env = {
                "ORCHESTRATOR_SCENARIO": json.dumps(scenario),
                "ORCHESTRATOR_SCRIPTED_HOME": str(self.root / "agent"),
            }
            lines += ["[agent]", 'driver = "command"', f"command = {json.dumps(agent)}", "[agent.env]"]
            lines += [f"{name} = {json.dumps(value)}" for name, value in env.items()]
        (self.root / "orchestrator.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def _start_daemon(self) -> None:
        command = [
            sys.executable,
            "-m",
            "orchestrator",
            "--config",
            str(self.root / "orchestrator.toml"),
            "serve",
        ]
        socket = self.root / "data" / "orchestrator.sock"
        with (self.root / "daemon.log").open("ab") as log:
            self.daemon = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        with Client(socket) as client:
            while not _answers(client):
                if self.daemon.poll() is not None or time.monotonic() - self.began > WORK_SECONDS[self.claude]:
                    raise DemoFailed(f"the daemon did not start: {self._last_log_line()}")
                time.sleep(LOOK_EVERY)
        self._say(f"the daemon runs (pid {self.daemon.pid})")

    def _until(self, client: Client, task: TaskView, reached: Callable[[TaskView], bool]) -> TaskView:
        """Follow the task until something is reached or it ended, and tell of every stage, step and check."""
        while True:
            now = client.task(task.id)
            for line in _news(task, now):
                self._say(line)
            task = now
            if task.status.final or task.status is TaskStatus.BLOCKED or reached(task):
                return task
            if time.monotonic() - self.began > WORK_SECONDS[self.claude]:
                raise DemoFailed(f"it took too long in {task.stage}; the daemon's log is {self.root / 'daemon.log'}")
            time.sleep(LOOK_EVERY)

    def _freeze_and_thaw(self, client: Client, task: TaskView) -> TaskView:
        if task.status is not TaskStatus.IN_PROGRESS:
            return task
        client.ask(task.id, "pause")
        task = self._until(client, task, lambda now: now.run is None or now.run.process is Process.FROZEN)
        pids = _frozen_pids(Path(task.folder))
        self._say(f"paused: {len(pids)} processes stand still: " + ", ".join(f"{pid} {_state(pid)}" for pid in pids))
        before = self._tick_count()
        time.sleep(1.5)
        if not self.claude:
            self._say(f"the command that the agent runs ticked {self._tick_count() - before} times in 1.5 s")
        client.ask(task.id, "resume")
        self._say("resumed: it goes on in the middle of its command")
        return task

    def _kill_and_start(self, task: TaskView) -> None:
        if self.daemon is None or task.status is not TaskStatus.IN_PROGRESS:
            return
        self.daemon.send_signal(signal.SIGKILL)
        self.daemon.wait()
        agent = task.agent
        lives = agent.pid is not None and _state(agent.pid) != "gone"
        self._say(f"killed -9 the daemon; the {agent.role} (pid {agent.pid}) {'works on' if lives else 'is gone'}")
        self._start_daemon()

    def _last_log_line(self) -> str:
        lines = (self.root / "daemon.log").read_text(encoding="utf-8", errors="replace").splitlines()
        return lines[-1] if lines else f"it said nothing in {self.root / 'daemon.log'}"

    def _tick_count(self) -> int:
        with contextlib.suppress(FileNotFoundError):
            return len(self.ticks.read_text(encoding="utf-8").splitlines())
        return 0

    def _git(self, *arguments: str) -> str:
        who = ["-c", "user.name=You", "-c", "user.email=you@example.org", "-c", "commit.gpgsign=false"]
        command = ["git", "-C", str(self.repository), *who, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def _say(self, text: str) -> None:
        self.tell(f"{time.monotonic() - self.began:5.1f} s  {text}")


def _at_work(task: TaskView) -> bool:
    """Whether the implementer is in the middle of a turn."""
    running = task.run is not None and task.run.process is Process.RUNNING
    return task.stage == "IMPLEMENTATION" and task.owed is Owed.TURN and running


def _news(before: TaskView, now: TaskView) -> list[str]:
    stages = [f"→ {name}" for name, record in now.stages.items() if record.visits > before.stages[name].visits]
    done = {step.step_id for step in before.steps if step.commits}
    steps = [
        f"step {step.step_id} is committed: {step.description} ({step.commits[-1][:9]})"
        for step in now.steps
        if step.commits and step.step_id not in done
    ]
    checks = [
        f"{name}: {result.verdict} ({result.reason}, {result.seconds} s, run by the daemon)"
        for name, result in now.results.items()
        if name not in before.results
    ]
    end = [f"it is {now.status}"] if now.status is not before.status and now.status.final else []
    was, limited = (task.agent.blocked_by is BlockedBy.RATE_LIMIT for task in (before, now))
    over = ["the limit is over; the same session goes on"] if was and not limited else []
    reached = [f"a usage limit is reached; it stands still until {now.retry_at:%H:%M:%S} UTC"] if limited > was else []
    return over + steps + checks + stages + reached + end


def _answers(client: Client) -> bool:
    try:
        client.status()
    except DaemonUnreachable:
        return False
    return True


def _frozen_pids(folder: Path) -> list[int]:
    """The pids that the newest freeze on record stopped."""
    lines = (folder / "journal.jsonl").read_bytes().splitlines()
    frozen = [line for line in map(orjson.loads, lines) if line["trigger"] == "RunFrozen"]
    return list(frozen[-1]["event"]["stopped"]) if frozen else []


def _state(pid: int) -> str:
    """The state of a process as ps shows it: T is stopped."""
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "gone"
