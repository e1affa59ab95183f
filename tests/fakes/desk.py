"""A daemon without processes: a real store, supervisor and intake behind the real API on a real Unix socket."""

import asyncio
from collections.abc import AsyncIterator
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
from orchestrator.core.events import TaskSubmitted
from orchestrator.core.model import Task
from orchestrator.core.redact import Redactor, parse_rules
from orchestrator.declared import Folders, read_declared
from orchestrator.definitions import Definitions, load_definitions
from orchestrator.intake import Intake, Submission
from orchestrator.processes.spec import Usage
from orchestrator.settings import Settings, load_settings
from orchestrator.store import FolderStore
from orchestrator.supervisor import Supervisor, Views
from orchestrator.workspace import Workspace
from tests.fakes.still_hands import StillHands

PATIENCE = 10.0
"""Seconds until a test that waits has failed."""


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

    def __post_init__(self) -> None:
        views = Views(pipeline_of=lambda task: self.definitions.pipelines[task.pipeline], model_of=lambda _: "")
        self.supervisor = Supervisor(self.store, self.hands, views, Room(), clock.now)
        self.checkpoints = Checkpoints(Workspace(self.settings.data_dir), self.store, clock.now)
        self.checkpoints.tell(self.supervisor, lambda _: nullcontext())
        self.supervisor.listen(self.checkpoints.decided)

    async def accept(self, submission: Submission, by: str) -> Task:
        """As the daemon does it."""
        intake = Intake(
            tasks_dir=self.store.tasks_dir,
            settings=self.settings,
            pipelines=lambda: self.definitions.pipelines,
            redactor=self.redactor,
        )
        task = await asyncio.to_thread(intake.take, submission, clock.now())
        self.submitters.append(by)
        return await self.supervisor.submit(TaskSubmitted(at=clock.now(), task=task, by=by))

    def usage(self, task: Task) -> Usage | None:  # noqa: ARG002 - the protocol's
        """Nothing runs."""
        return None

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
