"""The demo's own folder: a repository, settings, a pipeline with a review, and a daemon.

The user's own daemon is not touched: variables that point to it are removed, and with the scripted agent the user's
settings are not read.
"""

import json
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from orchestrator.cli.demo.scripts.job import REPOSITORY, TICKET
from orchestrator.errors import OrchestratorError
from orchestrator.pipelines.bundled import Kind, bundled
from orchestrator.server.client import Client, DaemonUnreachable
from orchestrator.server.schemas.task_input import TaskFilter
from orchestrator.server.schemas.tasks import TaskView
from orchestrator.settings.environment import environment
from orchestrator.settings.settings import PREFIX

QUESTION = {
    "question": "What should happen to letters other than a to z, such as é?",
    "options": [{"label": "Keep them"}, {"label": "Drop them"}],
}

PIPELINE = "demo"
REVIEWED = "EVALUATION"
"""The stage after which a person reviews the work."""

START_SECONDS = 30.0
END_SECONDS = 20.0
LOOK_EVERY = 0.05
SETTINGS = """\
data_dir = {data}
free_space_floor = "64MiB"
free_memory_floor = 0
[graces]
interrupt = 2
eof = 2
term = 3
kill = 3
[folders]
pipelines = [{pipelines}]
[limits]
margin = 0.5
[log]
format = "json"
"""


class DemoFailed(OrchestratorError):
    """The demo did not go as planned."""


class DemoEnvironment:
    """Everything below one folder; between `start` and `end` a daemon serves it.

    `scenario` is what the scripted agent does; without one it does what the story of `full` needs.
    """

    def __init__(self, root: Path, *, claude: bool, scenario: Mapping[str, object] | None = None) -> None:
        self.root, self.claude, self._given = root, claude, scenario
        self.repository, self.data = root / "textkit", root / "data"
        self.ticket, self.ticks = root / "ticket.md", root / "ticks"
        self.config, self.log = root / "orchestrator.toml", root / "daemon.log"
        self.client = Client(self.data / "orchestrator.sock")
        self._daemon: subprocess.Popen[bytes] | None = None
        self._has_served = False

    @property
    def pid(self) -> int | None:
        """The pid of the daemon; None before it is started."""
        return self._daemon.pid if self._daemon else None

    def make(self) -> None:
        """Create the repository, the ticket, the pipeline and the settings. Raises DemoFailed."""
        for name, content in REPOSITORY.items():
            path = self.repository / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
        self.git("init", "--quiet", "--initial-branch=main")
        for name, value in (("user.name", "You"), ("user.email", "you@example.org")):
            self.git("config", name, value)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "Initial commit")
        self.ticket.write_text(TICKET, encoding="utf-8")
        self._write_pipeline()
        self._write_settings()

    def start(self) -> None:
        """Start the daemon and wait until it answers. Raises DemoFailed."""
        given = {"--config": self.config, "--data-dir": self.data, "--socket": self.client.socket}
        options = [word for option, path in given.items() for word in (option, str(path))]
        with self.log.open("ab") as log:
            self._daemon = subprocess.Popen(
                [sys.executable, "-m", "orchestrator", *options, "serve"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment(),
                start_new_session=True,  # Ctrl-C is for the demo alone, which stops the daemon last
            )
        self._await_answer(self._daemon)

    def kill(self) -> None:
        """Kill the daemon with SIGKILL."""
        if self._daemon is not None:
            self._daemon.send_signal(signal.SIGKILL)
            self._daemon.wait()

    def end(self) -> None:
        """Cancel every unfinished task, wait until its processes have ended, and stop the daemon. Raises DemoFailed."""
        if self._daemon is None:
            return
        try:
            if self._daemon.poll() is None:
                self._await_answer(self._daemon)
            elif self._has_served:
                self.start()  # it was killed, and an agent may still run
            if self._has_served:
                self._cancel_tasks()
        finally:
            self._daemon.terminate()
            try:
                self._daemon.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()

    def tick_count(self) -> int:
        """Return how many lines the scripted agent's command has written: one every 100 ms while it runs."""
        return len(self.ticks.read_text(encoding="utf-8").splitlines()) if self.ticks.exists() else 0

    def git(self, *arguments: str) -> str:
        """Run git in the repository without the user's hooks and signing, and return what it prints."""
        plain = ["-c", "core.hooksPath=/dev/null", "-c", "commit.gpgsign=false"]
        command = ["git", "-C", str(self.repository), *plain, *arguments]
        try:
            return subprocess.run(command, check=True, capture_output=True, text=True).stdout
        except FileNotFoundError:
            raise DemoFailed("there is no git on PATH; install it, for example with `apt install git`") from None
        except subprocess.CalledProcessError as error:
            raise DemoFailed(f"`{shlex.join(command)}` failed: {error.stderr.strip()}") from None

    def _write_pipeline(self) -> None:
        """Write the bundled pipeline with a review after one stage."""
        text = (bundled(Kind.PIPELINES) / "full.toml").read_text(encoding="utf-8")
        head = f"[stages.{REVIEWED}]\n"
        text = text.replace('name = "full"', f'name = "{PIPELINE}"', 1).replace(head, f"{head}review = true\n", 1)
        file = self.root / "pipelines" / f"{PIPELINE}.toml"
        file.parent.mkdir()
        file.write_text(text, encoding="utf-8")

    def _write_settings(self) -> None:
        text = SETTINGS.format(data=json.dumps(str(self.data)), pipelines=json.dumps(str(self.root / "pipelines")))
        if not self.claude:
            agent = [sys.executable, str(bundled(Kind.SCRIPTED_AGENT))]
            scenario = self.root / "scenario.json"
            scenario.write_text(json.dumps(self._scenario()), encoding="utf-8")
            variables = {
                "ORCHESTRATOR_SCENARIO": str(scenario),
                "ORCHESTRATOR_SCRIPTED_HOME": str(self.root / "agent"),
            }
            text += f'[agent]\ndriver = "command"\ncommand = {json.dumps(agent)}\n'
            text += f"writable = [{json.dumps(str(self.root))}]\n[agent.env]\n"
            text += "".join(f"{name} = {json.dumps(value)}\n" for name, value in variables.items())
        self.config.write_text(text, encoding="utf-8")

    def _scenario(self) -> Mapping[str, object]:
        """Return what the scripted agent does besides its work, turn by turn."""
        if self._given is not None:
            return self._given
        return {
            "ANALYSIS": [{"ask": {"tool": "AskUserQuestion", "input": {"questions": [QUESTION]}}}],
            "IMPLEMENTATION": [
                {"tick": {"file": str(self.ticks), "seconds": 4}, "plant_bug": True},
                {"run": "sleep 3"},
                {"limit": {"resets_in": 2}},
            ],
        }

    def _environment(self) -> dict[str, str]:
        if self.claude:
            return environment()
        own = {name: value for name, value in environment().items() if not name.startswith(PREFIX)}
        return {**own, "XDG_CONFIG_HOME": str(self.root / "config")}

    def _cancel_tasks(self) -> None:
        deadline = time.monotonic() + END_SECONDS
        while unfinished := [task for task in self._tasks() if task.run or not task.status.is_final]:
            if time.monotonic() > deadline:
                raise DemoFailed(
                    f"{unfinished[0].id} could not be cancelled; find its processes with `pgrep -af {self.root}`"
                )
            for task in unfinished:
                if "cancel" in task.allowed:
                    self.client.request(task.id, "cancel")
            time.sleep(LOOK_EVERY)

    def _tasks(self) -> list[TaskView]:
        return [self.client.task(line.id) for line in self.client.tasks(TaskFilter()).tasks]

    def _await_answer(self, daemon: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            if daemon.poll() is not None or time.monotonic() > deadline:
                raise DemoFailed(f"the daemon did not start: {self._last_log_line()}")
            time.sleep(LOOK_EVERY)
        self._has_served = True

    def _answers(self) -> bool:
        try:
            self.client.status()
        except DaemonUnreachable:
            return False
        return True

    def _last_log_line(self) -> str:
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return lines[-1].removeprefix("error: ") if lines else f"it said nothing in {self.log}"
