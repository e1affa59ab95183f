"""The daemon: the one place that builds everything and wires it, and the life of the process around it.

    start      take the data folder, take up every live task, ask again for whatever is owed
    serve      take requests and events until a signal comes
    stop       on TERM or INT: admit nothing, save checkpoints and telemetry, let go

Agents and checks run on under their holders through all of it. Only a bug or a task of the daemon's own that dies ends
it with an error; systemd then starts it again.
"""

import asyncio
import os
import shutil
import signal
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import structlog

from orchestrator import clock, service
from orchestrator.api.app import create_app
from orchestrator.api.server import make_server
from orchestrator.bundled import Kind, bundled
from orchestrator.core.admission import Room
from orchestrator.core.errors import OrchestratorError
from orchestrator.core.events import TaskSubmitted
from orchestrator.core.model import Task, TaskStatus
from orchestrator.core.pipeline import Pipeline
from orchestrator.core.pipeline_file import parse_pipeline
from orchestrator.core.redact import Redactor, parse_rules
from orchestrator.core.table import DefinitionError
from orchestrator.declared import read_declared
from orchestrator.definitions import Declared, Definitions
from orchestrator.dispatch import Adapters, Dispatcher
from orchestrator.drivers import ClaudeDriver, CommandDriver, Driver
from orchestrator.gates import Gates
from orchestrator.git import end_all
from orchestrator.installation import find_claude
from orchestrator.intake import PIPELINE_FILE, Intake, Submission
from orchestrator.journal import StoreError
from orchestrator.log import start_logging
from orchestrator.processes.runs import Runs
from orchestrator.processes.spec import Limits, Usage
from orchestrator.running import Launching, Running
from orchestrator.settings import Settings, environment
from orchestrator.store import FolderStore, Summary
from orchestrator.supervisor import Supervisor
from orchestrator.timers import Timers
from orchestrator.watch import Watch
from orchestrator.workspace import Workspace

log = structlog.get_logger()

LOOK_AT_ROOM = 5.0
FLUSH_TELEMETRY = 10.0
LOOK_AT_CLOCK = 60.0
STOP_WITHIN = 20.0
"""Seconds; the last one is how long checkpoints may take at the end."""


@dataclass(slots=True)
class Daemon:
    """Everything that was built, as the API sees it."""

    settings: Settings
    store: FolderStore
    supervisor: Supervisor
    dispatcher: Dispatcher
    running: Running
    runs: Runs
    timers: Timers
    intake: Intake
    declared: Declared
    started_at: datetime
    redactor: Redactor

    async def accept(self, submission: Submission, by: str) -> Task:
        """Take a submission in. Raises what Intake.take raises, and NotCommitted; then nothing is left of it."""
        task = await asyncio.to_thread(self.intake.take, submission, clock.now())
        try:
            return await self.supervisor.submit(TaskSubmitted(at=clock.now(), task=task, by=by))
        except OrchestratorError:
            await asyncio.to_thread(shutil.rmtree, task.folder, ignore_errors=True)
            raise

    def usage(self, task: Task) -> Usage | None:
        """What the task's run takes of the machine."""
        return self.running.usage(task)

    def redact(self, text: str) -> str:
        """A text as it may leave: secrets masked, one that may not leave at all replaced by the reason."""
        return _redacted(self.redactor, text)

    @property
    def definitions(self) -> Definitions:
        """Pipelines and roles as they are declared now."""
        return self.declared.now

    def reload_definitions(self) -> None:
        """Take over pipelines and roles as they are declared now; bad ones are refused, and the last good ones stay."""
        problems = self.declared.reload()
        if problems:
            log.warning("definitions_refused", problems=[str(problem) for problem in problems])
        else:
            log.info("definitions_loaded", pipelines=list(self.definitions.pipelines))


def serve(settings: Settings) -> int:
    """Run the daemon until it is told to stop; the exit code. Raises OrchestratorError if it cannot start."""
    redactor = _redactor()
    start_logging(settings.log.level, settings.log.format, lambda text: _redacted(redactor, text))
    os.umask(0o077)
    store = FolderStore(settings.data_dir)
    try:
        return asyncio.run(_live(settings, store, redactor))
    finally:
        store.close()


async def _live(settings: Settings, store: FolderStore, redactor: Redactor) -> int:
    daemon = _built(settings, store, redactor)
    server = make_server(create_app(daemon), settings.socket)
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    watch = Watch(lambda paths: _seen(daemon, paths))
    _take_up(daemon)
    _set_alarms(daemon, watch)
    log.info("daemon_started", pid=os.getpid(), data_dir=str(settings.data_dir), tasks=len(daemon.supervisor.tasks))
    manager = environment().get("NOTIFY_SOCKET")
    service.tell(manager, service.READY)
    parts = [_named("supervisor", daemon.supervisor.run()), _named("watch", watch.run()), _named("api", server.serve())]
    try:
        await _until(stopping, [*parts, daemon.dispatcher.failed])
        service.tell(manager, service.STOPPING)
        await _wind_down(daemon)
    finally:
        server.should_exit = True
        for part in parts[:2]:
            part.cancel()
        await asyncio.gather(*parts, return_exceptions=True)
        await daemon.dispatcher.close()
        await daemon.runs.close()
        daemon.timers.close()
        end_all()
    log.info("daemon_stopped")
    return 0


def _built(settings: Settings, store: FolderStore, redactor: Redactor) -> Daemon:
    declared = Declared(settings.definition_folders())
    pipelines = _Pipelines()
    timers, runs, workspace = Timers(), Runs(data_dir=settings.data_dir), Workspace(settings.data_dir)
    launching = Launching(
        driver=_driver(settings), role=declared.role, base_env=environment(), limits=_limits(settings)
    )
    running = Running(runs, launching, clock.now)
    dispatcher = Dispatcher(
        Adapters(
            running=running,
            workspace=workspace,
            gates=Gates(workspace),
            timers=timers,
            pipeline_of=pipelines.of,
            clock=clock.now,
            redact=lambda text: _redacted(redactor, text),
        )
    )
    supervisor = Supervisor(store, dispatcher, pipelines.of, Room(places=settings.max_agents), clock.now)
    dispatcher.tell(supervisor.post, supervisor.note)
    return Daemon(
        settings=settings,
        store=store,
        supervisor=supervisor,
        dispatcher=dispatcher,
        running=running,
        runs=runs,
        timers=timers,
        intake=Intake(
            tasks_dir=store.tasks_dir,
            settings=settings,
            pipelines=lambda: declared.now.pipelines,
            redactor=redactor,
        ),
        declared=declared,
        started_at=clock.now(),
        redactor=redactor,
    )


class _Pipelines:
    """The pipeline of each task as it was declared when the task was submitted."""

    def __init__(self) -> None:
        self._known: dict[str, Pipeline] = {}

    def of(self, task: Task) -> Pipeline:
        """Raises DefinitionError if the task's copy is gone or damaged."""
        if task.id not in self._known:
            path = Path(task.folder) / PIPELINE_FILE
            self._known[task.id] = parse_pipeline(read_declared(path), str(path))
        return self._known[task.id]


def _take_up(daemon: Daemon) -> None:
    """Every task that has not ended; one that cannot be read is left alone and said so."""
    for found in daemon.store.summaries():
        if isinstance(found, Summary) and found.status.final:
            daemon.supervisor.ended[found.id] = found.status
            continue
        try:
            if not isinstance(found, Summary):
                raise found
            loaded = daemon.store.load(found.id, keep_open=True)
            daemon.supervisor.recover(loaded.task, loaded.foreign, loaded.changed)
        except (StoreError, DefinitionError, OSError) as error:
            log.warning("task_not_loaded", error=str(error))


def _set_alarms(daemon: Daemon, watch: Watch) -> None:
    timers, supervisor = daemon.timers, daemon.supervisor
    timers.start()
    timers.ring_every("room", LOOK_AT_ROOM, lambda: _look_at_room(daemon))
    timers.ring_every("telemetry", FLUSH_TELEMETRY, supervisor.flush_telemetry)
    timers.ring_every("clock", LOOK_AT_CLOCK, supervisor.look_at_clock)
    timers.ring_every("checkpoints", daemon.settings.checkpoint_every, lambda: _checkpoint_all(daemon))
    _look_at_room(daemon)

    def watched() -> list[Path]:
        folders = daemon.settings.definition_folders()
        return [*folders.pipelines, *folders.roles, *(Path(task.folder) for task in supervisor.tasks.values())]

    watch.look_at(watched())
    supervisor.listen(lambda _task, _event: watch.look_at(watched()))


def _seen(daemon: Daemon, paths: set[Path]) -> None:
    """Somebody changed files: definitions, or what lies in a live task's folder."""
    if any(path.suffix in {".toml", ".md"} and path.parent.parent != daemon.store.tasks_dir for path in paths):
        daemon.reload_definitions()
    for folder in {path.parent for path in paths if path.name in {"state.json", "journal.jsonl"}}:
        daemon.supervisor.look_for_foreign_edit(folder.name)


def _checkpoint_all(daemon: Daemon) -> None:
    for task in daemon.supervisor.tasks.values():
        if task.status is TaskStatus.IN_PROGRESS:
            daemon.dispatcher.checkpoint(task)


async def _wind_down(daemon: Daemon) -> None:
    """Admit nothing, and save what can be saved in time; recovery does not depend on it."""
    daemon.supervisor.drain()
    _checkpoint_all(daemon)
    with suppress(TimeoutError):
        async with asyncio.timeout(STOP_WITHIN):
            await daemon.dispatcher.settled()
            await daemon.supervisor.settled()
    daemon.supervisor.flush_telemetry()


async def _until(stopping: asyncio.Event, parts: list[asyncio.Future[None]]) -> None:
    """Wait for the word to stop; a part of the daemon that ends before it is an error."""
    stopped = _named("stopping", stopping.wait())
    done, _ = await asyncio.wait([stopped, *parts], return_when=asyncio.FIRST_COMPLETED)
    if stopped in done:
        return
    stopped.cancel()
    for part in done:
        part.result()
    raise OrchestratorError("a part of the daemon ended by itself")


def _named(name: str, work: Coroutine[object, object, object]) -> asyncio.Future[None]:
    async def run() -> None:
        await work

    return asyncio.get_running_loop().create_task(run(), name=name)


def _look_at_room(daemon: Daemon) -> None:
    """Hold everything while the disk is nearly full; it goes on when a tenth more than the floor is free."""
    floor = daemon.settings.free_space_floor
    wanted = floor * 11 // 10 if daemon.supervisor.room.pressure else floor
    free = shutil.disk_usage(daemon.settings.data_dir).free
    reason = (
        f"only {free / 2**30:.1f} GiB are free under {daemon.settings.data_dir}, "
        f"and the setting free_space_floor wants {floor / 2**30:.1f} GiB"
    )
    daemon.supervisor.feel_pressure(reason if free < wanted else None)


def _driver(settings: Settings) -> Driver:
    agent = settings.agent
    if agent.driver == "command":
        return CommandDriver(argv=agent.command, pass_env=agent.pass_env, env=agent.env)
    try:
        executable = find_claude(agent.executable, environment().get("PATH"))
    except OrchestratorError as error:
        log.warning("claude_not_found", reason=str(error))
        executable = Path(agent.executable or "claude")
    return ClaudeDriver(
        executable=executable,
        model=agent.model or None,
        permission_mode=agent.permission_mode,
        setting_sources=agent.setting_sources,
        pass_env=agent.pass_env,
        env=agent.env,
    )


def _limits(settings: Settings) -> Limits:
    graces = settings.graces
    return Limits(
        orphan_after=settings.orphan_after,
        eof_grace=graces.interrupt + graces.eof,
        term_grace=graces.term,
        kill_grace=graces.kill,
    )


def _redactor() -> Redactor:
    path = bundled(Kind.CONFIG) / "redaction.toml"
    return Redactor(parse_rules(read_declared(path), str(path)))


def _redacted(redactor: Redactor, text: str) -> str:
    scan = redactor.scan(text)
    return f"[WITHHELD: {', '.join(scan.blocked)}]" if scan.blocked else scan.text
