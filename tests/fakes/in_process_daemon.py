"""A daemon without processes: a real store, supervisor and intake behind the real API on a real Unix socket."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path

import httpx

from orchestrator import clock
from orchestrator.core.events.events import AgentSaid
from orchestrator.core.schedule.admission import Capacity
from orchestrator.core.task.task import Task
from orchestrator.core.task.ticket import Preflight
from orchestrator.core.task.user_requests import RequestDraft
from orchestrator.daemon.backup.schedule import BackupSchedule
from orchestrator.daemon.backup.service import BackupService
from orchestrator.daemon.notifications.build import build_notifications
from orchestrator.daemon.service import ServiceParts, build_service
from orchestrator.daemon.task_factory import Submission, TaskFactory
from orchestrator.integrations.http import Patience
from orchestrator.integrations.tickets.account import TrackerAccount
from orchestrator.integrations.tickets.trackers import Trackers
from orchestrator.pipelines.bundled import Kind, bundled
from orchestrator.pipelines.definition_files import Folders, read_declared
from orchestrator.pipelines.definitions import Definitions, load_definitions
from orchestrator.redaction.rules import Redactor, parse_rules
from orchestrator.server.app import create_app
from orchestrator.server.listener import make_server
from orchestrator.settings.loading import load_settings
from orchestrator.settings.settings import Settings
from orchestrator.storage.provided_secrets import ProvidedSecrets
from orchestrator.storage.store import FolderStore
from orchestrator.storage.vault import Vault
from orchestrator.supervisor.inbox import Inbox
from orchestrator.supervisor.protocols import TaskLookups
from orchestrator.supervisor.supervisor import Supervisor
from orchestrator.workspaces.checkpoints import Checkpoints
from orchestrator.workspaces.workspace import Workspace
from tests.fakes.recording_executor import RecordingExecutor
from tests.fakes.waiting import running

PATIENCE = 60.0
"""Seconds until a waiting test fails."""

REQUEST_PROGRAM = """
import http.client, socket, sys
class OverSocket(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(sys.argv[1])
talk = OverSocket("x")
talk.request(sys.argv[2], sys.argv[3])
print(talk.getresponse().status)
"""
"""A program that sends one request to the API: socket, method, path."""


@dataclass
class InProcessDaemon:
    """A daemon's service over a real store and loop, with one place, whose task never finishes."""

    settings: Settings
    store: FolderStore
    redactor: Redactor
    definitions: Definitions
    hands: RecordingExecutor = field(default_factory=RecordingExecutor)
    accounts: tuple[TrackerAccount, ...] = ()

    def __post_init__(self) -> None:
        lookups = TaskLookups(
            clock=clock.now,
            pipeline_of=lambda task: self.definitions.pipelines[task.pipeline],
            model_of=lambda _: "",
        )
        self.inbox = Inbox()
        self.supervisor = Supervisor(self.store, self.hands, self.inbox, lookups, Capacity())
        self.provisions = ProvidedSecrets(Vault(self.settings.data_dir), self.store.files)
        self.workspace = Workspace(self.settings.data_dir)
        self.checkpoints = Checkpoints(self.workspace, self.store, self.inbox, lambda _: nullcontext(), clock.now)
        self.supervisor.listen(self.checkpoints.on_decision)
        notifications = build_notifications(lambda: self.settings, self.store, self.redact, clock.now)
        self.service = build_service(
            ServiceParts(
                settings=lambda: self.settings,
                definitions=lambda: self.definitions,
                store=self.store,
                inbox=self.inbox,
                supervisor=self.supervisor,
                checkpoints=self.checkpoints,
                workspace=self.workspace,
                secrets=self.provisions,
                trackers=Trackers(self.accounts, Patience(pause=0.01, tries=2)),
                factory=self._factory(),
                with_forge=lambda task: task,
                login_of=lambda _: None,
                usage_of=lambda _: None,
                isolation=lambda: "bubblewrap",
                broken_parts=dict,
                notifications=notifications,
                backups=BackupService(
                    BackupSchedule(
                        data_dir=self.settings.data_dir,
                        config=None,
                        settings=lambda: self.settings.backup,
                        clock=clock.now,
                        zone=UTC,
                        announce=notifications.announcer.announce,
                    )
                ),
                redact=self.redact,
                clock=clock.now,
            )
        )

    async def accept(self, submission: Submission, by: str) -> Task:
        """Submit as a route does."""
        return await self.service.submissions.submit(submission, (), by)

    async def let_ask(self, task_id: str, *asking: RequestDraft) -> None:
        """Let the agent of an active task send a request in its next line."""
        agent = self.supervisor.tasks[task_id].agent
        said = AgentSaid(at=clock.now(), attempt=agent.attempt, offset=agent.read_offset + 1, asking=asking)
        self.inbox.post(task_id, said)
        await self.inbox.settled()

    def redact(self, text: str) -> str:
        """Mask secrets by the bundled rules."""
        return self.redactor.scan(text).text

    def _factory(self) -> TaskFactory:
        return TaskFactory(
            files=self.store.files,
            quarantine_dir=self.settings.data_dir / "quarantine",
            settings=self.settings,
            pipelines=lambda: self.definitions.pipelines,
            redactor=self.redactor,
            preflight=lambda _: Preflight(),
            objection=lambda *_: "",
        )


def create_daemon(data_dir: Path) -> InProcessDaemon:
    """Return a server on a data folder, which it locks until its store is closed."""
    rules = bundled(Kind.CONFIG) / "redaction.toml"
    return InProcessDaemon(
        settings=load_settings(None, {"data_dir": str(data_dir), "socket": str(data_dir / "orchestrator.sock")}),
        store=FolderStore(data_dir),
        redactor=Redactor(parse_rules(read_declared(rules), str(rules))),
        definitions=load_definitions(Folders(pipelines=(bundled(Kind.PIPELINES),), roles=(bundled(Kind.AGENTS),))),
    )


@asynccontextmanager
async def serving(desk: InProcessDaemon) -> AsyncIterator[httpx.AsyncClient]:
    """Run the server's loop and its socket, and a client of it."""
    app = create_app(desk.service, desk.settings.allowed_hosts)
    at, group = [desk.settings.socket], desk.settings.socket_group
    server = make_server(app, at, desk.service.end_streams, listen=desk.settings.listen, group=group)
    transport = httpx.AsyncHTTPTransport(uds=str(desk.settings.socket))
    client = httpx.AsyncClient(transport=transport, base_url="http://orchestrator", timeout=PATIENCE)
    async with running(desk.supervisor.run()), client:
        serving = asyncio.create_task(server.serve())
        try:
            yield client
        finally:
            server.should_exit = True
            await serving


async def status_for_child(
    child: list[str], desk: InProcessDaemon, method: str, path: str, env: Mapping[str, str]
) -> int:
    """Return the response to a child process; `child` is the prefix of its command line."""
    argv = [*child, sys.executable, "-c", REQUEST_PROGRAM, str(desk.settings.socket), method, path]
    process = await asyncio.create_subprocess_exec(
        *argv, stdout=asyncio.subprocess.PIPE, env={**env, "PATH": os.environ["PATH"]}
    )
    said, _ = await process.communicate()
    return int(said)
