"""Talk to an agent process as the daemon does: turns through a pipe, its output through the real parser."""

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

from orchestrator.agents.claude import Parser
from orchestrator.agents.framing import Framer
from orchestrator.core.decide.prompt import outbox_of, turn_text
from orchestrator.core.events.agent_events import AgentEvent, SessionActivity, SessionState
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.progress import StageRecord, StageStatus
from orchestrator.core.task.task import Task

AGENT = Path(__file__).parent / "scripted_agent.py"
DEADLINE = 60.0
IDLE = SessionState(state=SessionActivity.IDLE)

E = TypeVar("E")
Scenario = Mapping[str, object]


def of(kind: type[E], events: list[AgentEvent]) -> list[E]:
    """Return the events of one kind."""
    return [event for event in events if isinstance(event, kind)]


def eventually(condition: Callable[[], bool]) -> None:
    """Wait for a condition without a notification. Raises TimeoutError after the deadline."""
    end = time.monotonic() + DEADLINE
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"not so within {DEADLINE} s")
        time.sleep(0.01)


def appeared(file: Path) -> str:
    """Return the text of a file, once it has a complete line."""
    eventually(lambda: file.exists() and file.read_text().endswith("\n"))
    return file.read_text()


def user_line(text: str, uuid: str | None = None) -> bytes:
    """Return one turn as it is sent."""
    message = {"role": "user", "content": [{"type": "text", "text": text}]}
    return json.dumps({"type": "user", "message": message, "uuid": uuid or str(uuid4())}).encode() + b"\n"


class Conversation:
    """Both ends of one agent process; every wait has a deadline."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process = process
        self.output = b""
        self._stdin, self._stdout = process.stdin, process.stdout.fileno()
        self._framer, self._parser = Framer(), Parser()
        self._unread: list[AgentEvent] = []

    def send(self, line: bytes) -> None:
        """Write it at once."""
        self._stdin.write(line)
        self._stdin.flush()

    def interrupt(self) -> None:
        """Interrupt the current turn."""
        request = {"type": "control_request", "request_id": "int-1", "request": {"subtype": "interrupt"}}
        self.send(json.dumps(request).encode() + b"\n")

    def until(self, wanted: Callable[[AgentEvent], bool]) -> list[AgentEvent]:
        """Return the events up to the first matching one, or up to the end of the output."""
        seen: list[AgentEvent] = []
        while not (seen and wanted(seen[-1])):
            if self._unread:
                seen.append(self._unread.pop(0))
            elif not self._read():
                break
        return seen

    def _read(self) -> bool:
        if not select.select([self._stdout], [], [], DEADLINE)[0]:
            raise TimeoutError(f"the agent was silent for {DEADLINE} s")
        chunk = os.read(self._stdout, 65536)
        self.output += chunk
        for line in self._framer.push(chunk):
            self._unread += self._parser.parse(line.body)
        return bool(chunk)

    def turn(self, text: str, uuid: str | None = None) -> list[AgentEvent]:
        """Return the events of a whole turn, up to idle."""
        self.send(user_line(text, uuid))
        return self.until(lambda event: event == IDLE)

    def rest(self) -> list[AgentEvent]:
        """Return all events up to the end of the output."""
        return self.until(lambda _: False)

    def close_input(self) -> None:
        """Close the input: there are no more turns."""
        self._stdin.close()

    def end(self) -> int:
        """Return the exit code after the end of input."""
        self.close_input()
        return self.exit_code()

    def exit_code(self) -> int:
        """Return the exit code, once there is one."""
        return self.process.wait(DEADLINE)


@dataclass(kw_only=True)
class Stage:
    """A repository, a task in it, its pipeline, and the scenario of its agents."""

    worktree: Path
    home: Path
    pipeline: Pipeline
    task: Task
    scenario: Scenario = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """Return the task's own files."""
        return Path(self.task.folder)

    @property
    def outbox(self) -> Path:
        """Return the folders that the agent may write to."""
        return Path(outbox_of(self.task))

    def turn(self, name: str, failed: str | None = None, **changes: object) -> str:
        """Return the prompt of the daemon for this stage, also after the stage `failed`."""
        record = {failed: StageRecord(visits=1, status=StageStatus.FAILED)} if failed else {}
        record[name] = StageRecord(visits=1)
        return turn_text(self.pipeline, replace(self.task, stage=name, stages=record, **changes))  # type: ignore[arg-type]  # fields of Task by name

    def step(self, number: int, **changes: object) -> str:
        """Return the prompt of the daemon for a step of the plan."""
        agent = replace(self.task.agent, turn=replace(self.task.agent.turn, step=number))
        return self.turn("IMPLEMENTATION", None, **{"agent": agent, **changes})

    @contextmanager
    def agent(self, *, session: str = "s-1", resume: bool = False) -> Iterator[Conversation]:
        """Run an agent, and kill it at the end if it is still alive."""
        told = {
            "ORCHESTRATOR_TASK": self.task.id,
            "ORCHESTRATOR_SESSION_ID": session,
            "ORCHESTRATOR_RESUME": str(int(resume)),
            "ORCHESTRATOR_OUTBOX": str(self.outbox),
            "ORCHESTRATOR_SCRIPTED_HOME": str(self.home),
            "ORCHESTRATOR_SCENARIO": json.dumps(self.scenario) if self.scenario else "",
        }
        env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")} | told
        pipe = subprocess.PIPE
        with subprocess.Popen([sys.executable, AGENT], cwd=self.worktree, stdin=pipe, stdout=pipe, env=env) as process:
            try:
                yield Conversation(process)
            finally:
                process.kill()

    def playing(self, scenario: Scenario, text: str = "hello") -> list[AgentEvent]:
        """Return the events of one turn in a scenario, to the end of the process's output."""
        self.scenario = scenario
        with self.agent() as agent:
            agent.send(user_line(text))
            agent.close_input()
            return agent.rest()
