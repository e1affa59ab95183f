"""A daemon without processes: a real store, supervisor and intake behind the real API on a real Unix socket."""

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import httpx

from orchestrator import clock
from orchestrator.api.app import create_app
from orchestrator.api.server import make_server
from orchestrator.bundled import Kind, bundled
from orchestrator.checkpoints import Checkpoints
from orchestrator.core.admission import Room
from orchestrator.core.asks import Asking
from orchestrator.core.events import AgentSaid
from orchestrator.core.guards import Evidence
from orchestrator.core.model import Task
from orchestrator.core.preflight import Preflight
from orchestrator.core.redact import Redactor, parse_rules
from orchestrator.declared import Folders, read_declared
from orchestrator.definitions import Definitions, load_definitions
from orchestrator.intake import Intake, Submission
from orchestrator.operating import evidence_of
from orchestrator.ports import Views
from orchestrator.processes.spec import Usage
from orchestrator.provisions import Provisions
from orchestrator.reception import Reception
from orchestrator.settings import Settings, load_settings
from orchestrator.store import FolderStore
from orchestrator.supervisor import Supervisor
from orchestrator.trackers.account import Account
from orchestrator.trackers.port import Trackers
from orchestrator.trackers.web import Patience
from orchestrator.vault import Vault
from orchestrator.workspace import Workspace
from tests.fakes.still_hands import StillHands

PATIENCE = 60.0
"""Seconds until a test that waits has failed."""

ASK = """
import http.client, socket, sys
class OverSocket(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(sys.argv[1])
talk = OverSocket("x")
talk.request(sys.argv[2], sys.argv[3])
print(talk.getresponse().status)
"""
"""A program that asks the API something by itself: socket, method, path."""


@dataclass
class Desk:
    """Satisfies the API's `Backend`; one place, and nothing that fills it ever ends."""

    settings: Settings
    store: FolderStore
    redactor: Redactor
    definitions: Definitions
    hands: StillHands = field(default_factory=StillHands)
    started_at: datetime = field(default_factory=clock.now)
    submitters: list[str] = field(default_factory=list)
    accounts: tuple[Account, ...] = ()

    def __post_init__(self) -> None:
        views = Views(pipeline_of=lambda task: self.definitions.pipelines[task.pipeline], model_of=lambda _: "")
        self.supervisor = Supervisor(self.store, self.hands, views, Room(), clock.now)
        self.provisions = Provisions(Vault(self.settings.data_dir))
        self.workspace = Workspace(self.settings.data_dir)
        self.checkpoints = Checkpoints(self.workspace, self.store, clock.now)
        self.checkpoints.tell(self.supervisor, lambda _: nullcontext())
        self.supervisor.listen(self.checkpoints.decided)

    async def accept(self, submission: Submission, by: str) -> Task:
        """As the daemon does it."""
        intake = Intake(
            tasks_dir=self.store.tasks_dir,
            quarantine_dir=self.settings.data_dir / "quarantine",
            settings=self.settings,
            pipelines=lambda: self.definitions.pipelines,
            redactor=self.redactor,
            preflight=lambda _: Preflight(),
        )
        trackers = Trackers(self.accounts, Patience(pause=0.01, tries=2))
        reception = Reception(
            trackers=trackers, intake=intake, loop=self.supervisor, destined=lambda task: task, clock=clock.now
        )
        task = await reception.accept(submission, by)
        self.submitters.append(by)
        return task

    async def let_ask(self, task_id: str, *asking: Asking) -> None:
        """Let the agent of a task that is at work ask for something in its next line."""
        agent = self.supervisor.tasks[task_id].agent
        said = AgentSaid(at=clock.now(), attempt=agent.attempt, offset=agent.read_offset + 1, asking=asking)
        self.supervisor.post(task_id, said)
        await self.supervisor.settled()

    def clear(self, task: Task, *, whole: bool = False) -> None:
        """Nothing but its folder is there."""
        if whole:
            shutil.rmtree(task.folder)

    def usage(self, task: Task) -> Usage | None:  # noqa: ARG002 - the protocol's
        """Nothing runs."""
        return None

    def look(self, task: Task) -> Evidence:
        """As the daemon does it."""
        return evidence_of(task, self.definitions.pipelines[task.pipeline], self.workspace)

    def redact(self, text: str) -> str:
        """Secrets masked by the rules that ship."""
        return self.redactor.scan(text).text


def desk_at(data_dir: Path) -> Desk:
    """A desk on a data folder, which it holds until its store is closed."""
    rules = bundled(Kind.CONFIG) / "redaction.toml"
    return Desk(
        settings=load_settings(None, {"data_dir": str(data_dir), "socket": str(data_dir / "orchestrator.sock")}),
        store=FolderStore(data_dir),
        redactor=Redactor(parse_rules(read_declared(rules), str(rules))),
        definitions=load_definitions(Folders(pipelines=(bundled(Kind.PIPELINES),), roles=(bundled(Kind.AGENTS),))),
    )


@asynccontextmanager
async def at_work(desk: Desk) -> AsyncIterator[httpx.AsyncClient]:
    """The desk while its loop runs and its socket is answered, and a client of it."""
    server = make_server(create_app(desk), desk.settings.socket)
    loop, serving = asyncio.create_task(desk.supervisor.run()), asyncio.create_task(server.serve())
    transport = httpx.AsyncHTTPTransport(uds=str(desk.settings.socket))
    async with httpx.AsyncClient(transport=transport, base_url="http://orchestrator", timeout=PATIENCE) as client:
        try:
            yield client
        finally:
            server.should_exit = True
            await serving
            loop.cancel()
            with suppress(asyncio.CancelledError):
                await loop


async def status_seen_by(child: list[str], desk: Desk, method: str, path: str, env: Mapping[str, str]) -> int:
    """What a child process is answered; `child` is what stands before its own command line."""
    argv = [*child, sys.executable, "-c", ASK, str(desk.settings.socket), method, path]
    process = await asyncio.create_subprocess_exec(
        *argv, stdout=asyncio.subprocess.PIPE, env={**env, "PATH": os.environ["PATH"]}
    )
    said, _ = await process.communicate()
    return int(said)
