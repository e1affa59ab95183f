"""A harness with a user's repository, a daemon, and the real CLI as its agents; a scripted API plays the model."""

import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

import orjson
import psutil

from orchestrator.cli.demo.scripts.job import REPOSITORY, TICKET
from orchestrator.core.task.agent import ProcessState
from orchestrator.core.task.checks import Verdict
from orchestrator.core.task.task import TaskStatus
from orchestrator.processes.spec import MARKER
from orchestrator.server.client import Client
from orchestrator.server.schemas.task_input import SubmissionBody
from orchestrator.server.schemas.tasks import TaskView
from orchestrator.server.schemas.user_requests import RequestView
from tests import fork_server
from tests.acceptance.harness import ISOLATION, Json, answers, send_request, toml
from tests.fakes.messages_api import MessagesApi
from tests.fakes.repositories import git, repository
from tests.fakes.scripted_agent import FIRST_STEPS
from tests.fakes.scripted_model import ScriptedModel

PATIENCE = 90.0  # seconds
LOOK_EVERY = 0.02
WATCHED = 0.8
"""Seconds in which a command that runs ticks several times."""
GRACES = {"interrupt": 1.0, "eof": 1.0, "term": 2.0, "kill": 2.0}

STEPS = [text for text, *_ in FIRST_STEPS]
"""What the delivered branch consists of."""


class ClaudeHarness:
    """Everything below one folder, from `__enter__` to `__exit__`; no process of it outlives that."""

    def __init__(self, claude: Path, root: Path, model: ScriptedModel, **settings: object) -> None:
        self.root, self.repository, self.data = root, root / "textkit", root / "data"
        self.api = MessagesApi(model)
        self.client = Client(self.data / "orchestrator.sock")
        self._claude = claude
        self.subscription = False
        self._settings = {"retry_delay": 0.1, "free_space_floor": "64MiB", "free_memory_floor": 0, **settings}
        self._daemon: fork_server.ForkedProcess | None = None

    def __enter__(self) -> Self:
        self.api.__enter__()
        repository(self.repository, REPOSITORY)
        (self.root / "home").mkdir()
        self._write_settings()
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        self.client.__exit__(kind, error, trace)
        for process in self.survivors():
            with suppress(psutil.NoSuchProcess):  # a holder takes its frozen agent along
                process.kill()
        self.api.__exit__(kind, error, trace)

    def start(self) -> None:
        """Start the daemon, and wait until it answers."""
        env = {**os.environ, "HOME": str(self.root / "home")}
        env["PATH"] = f"{Path(sys.executable).parent}:{env['PATH']}"
        settings = ("--config", str(self.root / "orchestrator.toml"))
        with (self.root / "daemon.log").open("ab") as log:
            self._daemon = fork_server.start(*settings, "serve", cwd=Path.cwd(), env=env, stdout=log, stderr=log)
        self.until(self._answers, "the daemon answers")

    def kill(self) -> None:
        """Kill the daemon -9, if it runs."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """Let the daemon end; its exit code."""
        return self._end(signal.SIGTERM)

    def crash_during(self, *tickers: "Ticker") -> None:
        """Kill the daemon -9 and start it again while each command ticks, in their order; then let the command end."""
        for ticker in tickers:
            ticker.begins(self)
            self.kill()
            self.start()
            ticker.let_go()

    def submit(self, text: str = TICKET, **more: Any) -> str:
        """Hand a ticket in; the task's id."""
        body = SubmissionBody(text=text, repo=self.repository, **more)
        return self.client.submit(body, key=uuid4().hex).id

    def hand_in(self, ticket: Path) -> str:
        """Hand a Markdown file in, as a person does; the task's id."""
        return self._cli("submit", "--file", str(ticket), "--repo", str(self.repository))

    def _cli(self, *arguments: str) -> str:
        """What a command of `orchestrator` prints."""
        settings = ("--config", str(self.root / "orchestrator.toml"))
        done = fork_server.run(*settings, *arguments, cwd=Path.cwd(), env=os.environ, timeout=PATIENCE)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def request(self, method: str, path: str, body: Json | None = None) -> Json:
        """What the daemon answers to a request of a person's; it must not be refused."""
        return send_request(self.client.socket, method, path, body)

    def wait_until_it_asks(self, task: str) -> RequestView:
        """What a task asks for, when it stands still for that."""
        still = (ProcessState.FROZEN, None)
        return self.wait_for(task, lambda now: now.waiting and (now.run and now.run.process) in still).waiting[0]

    def wait_for(self, task: str, reached: Callable[[TaskView], object]) -> TaskView:
        """The task as soon as it is where it is waited for; one that has ended elsewhere fails the test."""
        seen = self.client.task(task)

        def there() -> bool:
            nonlocal seen
            seen = self.client.task(task)
            ended = seen.run is None and (seen.status.is_final or seen.status is TaskStatus.BLOCKED)
            assert reached(seen) or not ended, f"it ended {seen.status} in {seen.stage}: {seen.block_reason}"
            return bool(reached(seen))

        self.until(there, f"the task, last seen in {seen.stage}, gets there")
        return seen

    def end_of(self, task: str) -> TaskView:
        """The task when it has ended and has no process any more."""
        over = {TaskStatus.COMPLETED, TaskStatus.BLOCKED}
        return self.wait_for(task, lambda now: now.status in over and now.run is None)

    def until(self, condition: Callable[[], object], what: str) -> None:
        """Wait for a condition, with a bound."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > deadline:
                log = (self.root / "daemon.log").read_text(encoding="utf-8", errors="replace")
                raise AssertionError(f"waited {PATIENCE} s in vain until {what}; the daemon's log:\n{log[-4000:]}")
            time.sleep(LOOK_EVERY)

    def survivors(self) -> list[psutil.Process]:
        """Every living process that a run of this harness's daemons left."""
        return [process for process in psutil.process_iter() if _belongs_to(process, self.data)]

    def processes_of(self, task: TaskView) -> list[psutil.Process]:
        """The living processes of the task's run below its holder."""
        run = f"{task.folder}/{task.run.folder}" if task.run else task.folder
        return [process for process in psutil.process_iter() if _marker(process) == run]

    def steps(self, task: TaskView) -> list[str]:
        """The steps whose commits are on the delivered branch, oldest first."""
        subjects = git(self.repository, "log", "--reverse", "--format=%s", f"main..{task.branch}").splitlines()
        return [subject.partition(": ")[2] for subject in subjects]

    def journal(self, task: TaskView) -> Iterator[dict[str, object]]:
        """The task's decisions."""
        for line in (Path(task.folder) / "journal.jsonl").read_bytes().splitlines():
            yield orjson.loads(line)

    def assert_done_once(self, task: TaskView, *, repeated: int = 0) -> None:
        """The whole job was done, nothing of it twice, and nothing of it runs any more.

        So many turns may have been repeated, because they were interrupted.
        """
        assert (task.status, task.block_reason) == (TaskStatus.COMPLETED, None)
        assert self.steps(task) == STEPS
        assert [result.verdict for result in task.results.values()] == [Verdict.PASS]
        again = self.played_twice()
        assert len({move.rpartition(", move ")[0] for move in again}) <= repeated, again
        assert self.survivors() == []

    def prompts(self) -> list[str]:
        """Every turn that reached the model, as often as it did."""
        return [scene.prompt for scene in self.api.scenes if scene.step == 0]

    def played_twice(self) -> list[str]:
        """Moves that the model was asked for more than once."""
        moves = Counter((scene.prompt, scene.step) for scene in self.api.scenes)
        return [f"{prompt[:60]!r}, move {step}: {times} times" for (prompt, step), times in moves.items() if times > 1]

    def sessions(self, task: TaskView) -> list[str]:
        """How the CLI of each attempt was told its session: `--session-id=…` or `--resume=…`."""
        specs = sorted(Path(task.folder).glob("agents/*/spec.json"), key=lambda spec: int(spec.parent.name))
        argvs: list[list[str]] = [orjson.loads(spec.read_bytes())["argv"] for spec in specs]
        return [next(word for word in argv if word.startswith(("--session-id=", "--resume="))) for argv in argvs]

    def _end(self, number: signal.Signals) -> int:
        if self._daemon is None:
            return 0
        self._daemon.send_signal(number)
        code = self._daemon.wait(PATIENCE)
        self._daemon = None
        return code

    def _answers(self) -> bool:
        assert self._daemon is None or self._daemon.poll() is None, (self.root / "daemon.log").read_text()
        return answers(self.client)

    def _write_settings(self) -> None:
        login = (
            {"ANTHROPIC_API_KEY": "", "CLAUDE_CODE_OAUTH_TOKEN": "sk-ant-oat01-scripted"} if self.subscription else {}
        )
        env = {**self.api.env, **login, "CLAUDE_CONFIG_DIR": str(self.root / "claude"), "CLAUDE_CODE_MAX_RETRIES": "2"}
        agent = {"executable": str(self._claude), "env": env, "writable": [str(self.root)]}
        settings = {
            "isolation": ISOLATION,
            "data_dir": str(self.data),
            "graces": GRACES,
            **self._settings,
            "agent": agent,
        }
        (self.root / "orchestrator.toml").write_text(toml(settings), encoding="utf-8")


class Ticker:
    """A command that adds a line to a file every 100 ms until it is let go."""

    def __init__(self, folder: Path) -> None:
        self.file, self._go = folder / "ticks", folder / "go"
        self.command = f"until [ -e {self._go} ]; do echo tick >>{self.file}; sleep 0.1; done"

    @property
    def count(self) -> int:
        """How often it ticked."""
        return len(self.file.read_bytes().splitlines()) if self.file.exists() else 0

    def let_go(self) -> None:
        """Let the command come to its end."""
        self._go.touch()

    def begins(self, harness: ClaudeHarness) -> None:
        """Wait until it ticks."""
        harness.until(lambda: self.count, "the agent's command ticks")

    def assert_goes_on(self, harness: ClaudeHarness) -> None:
        """It ticks more than it has."""
        before = self.count
        harness.until(lambda: self.count > before + 1, "the command ticks on")

    def assert_is_silent(self) -> None:
        """It does not tick while it is watched."""
        before = self.count
        time.sleep(WATCHED)
        assert self.count == before


def _belongs_to(process: psutil.Process, data: Path) -> bool:
    return _marker(process).startswith(f"{data}/")


def _marker(process: psutil.Process) -> str:
    try:
        return "" if process.status() == psutil.STATUS_ZOMBIE else process.environ().get(MARKER, "")
    except (psutil.NoSuchProcess, psutil.AccessDenied, OSError):
        return ""
