"""A session with the real claude CLI: a place to work in, and a running process to talk to."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

from orchestrator.agents.drivers import ClaudeDriver, Launch
from orchestrator.agents.framing import Framer
from orchestrator.core.events.agent_events import AgentEvent
from tests.fakes.messages_api import MessagesApi

PATIENCE = 60.0  # seconds
TOOLS = ("Bash", "Edit", "Glob", "Grep", "Read", "Write")
Event = TypeVar("Event", bound=AgentEvent)


class Place:
    """A worktree, an outbox and a home for one agent, and its launch order."""

    def __init__(self, claude: Path, root: Path) -> None:
        self.claude, self.home = claude, root / "home"
        self.worktree, self.outbox = root / "worktree", root / "out"
        for folder in (self.home, self.worktree, self.outbox):
            folder.mkdir(parents=True)

    def driver(self, api: MessagesApi, *, subscription: bool = False, **extra_env: str) -> ClaudeDriver:
        env = api.env | extra_env
        if subscription:
            del env["ANTHROPIC_API_KEY"]
            env["CLAUDE_CODE_OAUTH_TOKEN"] = "sk-ant-oat01-scripted"
        return ClaudeDriver(executable=self.claude, env=env)

    def order(self, *, session_id: str = "", resume: bool = False, tools: tuple[str, ...] = TOOLS) -> Launch:
        return Launch(
            task="T-1",
            role="implementer",
            attempt=1,
            session_id=session_id or str(uuid4()),
            resume=resume,
            cwd=self.worktree,
            outbox=self.outbox,
            base_env={"PATH": os.environ["PATH"], "HOME": str(self.home), "ANTHROPIC_AUTH_TOKEN": "stray"},
            allowed_tools=tools,
            system_prompt="--You are the implementer.",
        )


class Agent:
    """A running CLI: send it turns, read its events."""

    def __init__(self, process: asyncio.subprocess.Process, driver: ClaudeDriver) -> None:
        self.events: list[AgentEvent] = []
        self._process, self._driver, self._framer = process, driver, Framer()
        self._unread = 0

    def say(self, text: str, *, uuid: str = "") -> None:
        self.send(self._driver.turn(text, uuid or str(uuid4())))

    def send(self, line: bytes) -> None:
        assert self._process.stdin
        self._process.stdin.write(line)

    async def next(self, kind: type[Event], *, where: Callable[[Event], bool] = lambda _: True) -> Event:
        """Return the next event of this kind after the one that was waited for last."""
        async with asyncio.timeout(PATIENCE):
            while True:
                while self._unread < len(self.events):
                    event = self.events[self._unread]
                    self._unread += 1
                    if isinstance(event, kind) and where(event):
                        return event
                assert await self._read(), f"the CLI ended before the next {kind.__name__}: {self.events}"

    async def terminate(self) -> None:
        """Send it SIGTERM, and wait until it has exited."""
        self._process.terminate()
        async with asyncio.timeout(PATIENCE):
            await self._process.wait()

    async def end(self) -> int:
        """Return its exit code after the end of input, with all output read."""
        assert self._process.stdin
        self._process.stdin.close()
        async with asyncio.timeout(PATIENCE):
            while await self._read():
                pass
            return await self._process.wait()

    async def _read(self) -> bool:
        assert self._process.stdout
        chunk = await self._process.stdout.read(65_536)
        for line in self._framer.push(chunk):
            self.events += self._driver.parser.parse(line.body)
        return bool(chunk)


@asynccontextmanager
async def agent(driver: ClaudeDriver, order: Launch) -> AsyncIterator[Agent]:
    launched = driver.launch(order)
    process = await asyncio.create_subprocess_exec(
        *launched.argv,
        env=launched.env,
        cwd=order.cwd,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    running = Agent(process, driver)
    try:
        yield running
    finally:
        if process.returncode is None:
            process.kill()
            await running.end()
