"""The life of the daemon's process, around what wiring.py has built.

    start      take the data folder, take up every live task, ask again for whatever is owed
    serve      take requests and events until a signal comes; take over settings and definitions when they change
    stop       on TERM or INT: admit nothing, save checkpoints and telemetry, let go

Agents and checks run on under their holders through all of it. Only a bug or a task of the daemon's own that dies ends
it with an error; systemd then starts it again.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import structlog

from orchestrator.core.schedule.admission import waiting_queue
from orchestrator.core.schedule.pressure import judge
from orchestrator.core.task.agent import ProcessState
from orchestrator.core.task.checkpoint import Reason
from orchestrator.daemon import systemd
from orchestrator.daemon.login_monitor import UNLOOKED, watch_login
from orchestrator.daemon.reports import SAID
from orchestrator.daemon.summary import SUMMARY_FILE
from orchestrator.daemon.watch import Watch
from orchestrator.errors import OrchestratorError
from orchestrator.formats.table import DefinitionError
from orchestrator.log import start_logging
from orchestrator.server.app import create_app
from orchestrator.server.listener import make_server
from orchestrator.settings import Settings, SettingsError, config_folders, environment
from orchestrator.storage.provided_secrets import PROVIDED
from orchestrator.storage.records import StoreError, TaskSummary, UncommittedTask
from orchestrator.storage.store import FolderStore
from orchestrator.wiring import Daemon, build_daemon, bundled_redactor, forget
from orchestrator.workspaces.git import end_all

log = structlog.get_logger()

LOOK_AT_ROOM = 5.0
FLUSH_TELEMETRY = 10.0
TELL_STATUS = 5.0
LOOK_AT_CLOCK = 60.0
STOP_WITHIN = 20.0
"""Seconds; the last one is how long checkpoints may take at the end."""


@dataclass(frozen=True, slots=True)
class Sources:
    """Where the settings come from: how to read them, and the file beside the usual ones, if there is one."""

    load: Callable[[], Settings]
    config: Path | None

    def folders(self) -> list[Path]:
        """Where a change may mean other settings."""
        return [*config_folders(), *([self.config.absolute().parent] if self.config else [])]


def serve(load: Callable[[], Settings], config: Path | None = None) -> int:
    """Run the daemon until it is told to stop; the exit code. Raises OrchestratorError if it cannot start.

    `load` reads the settings, at start and whenever one of their files changes, `config` among them.
    """
    settings, redactor = load(), bundled_redactor()
    journal = environment().get("JOURNAL_STREAM")
    start_logging(settings.log.level, settings.log.format, redactor.masked, journal=journal)
    os.umask(0o077)
    store = FolderStore(settings.data_dir)
    try:
        return asyncio.run(_live(lambda: build_daemon(settings, store, redactor), Sources(load, config)))
    finally:
        store.close()


async def _live(wire: Callable[[], Daemon], sources: Sources) -> int:
    daemon = wire()
    server = make_server(create_app(daemon), daemon.settings.socket)
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    watch = Watch(lambda paths: _seen(daemon, sources, paths))
    daemon.supervisor.account.unlooked = UNLOOKED
    untold = _take_up(daemon)
    _set_alarms(daemon)
    _look_after(daemon, sources, watch)
    log.info("daemon_started", pid=os.getpid(), data_dir=str(daemon.store.data_dir), tasks=len(daemon.supervisor.tasks))
    manager = environment().get("NOTIFY_SOCKET")
    systemd.notify_systemd(manager, systemd.READY)
    if manager:
        daemon.timers.ring_every(
            "status", TELL_STATUS, lambda: systemd.notify_systemd(manager, systemd.STATUS + _status(daemon))
        )
    ours = {
        "supervisor": daemon.supervisor.run(),
        "watch": watch.run(),
        "stalls": daemon.stalls.run(),
        "login": watch_login(lambda: daemon.settings, environment(), daemon.supervisor.set_login_status),
    }
    own = [_named(name, work) for name, work in ours.items()]
    parts = [*own, _named("api", server.serve())]
    summaries = _named("summaries", _sum_up(daemon, untold))
    try:
        await _until(stopping, [*parts, daemon.dispatcher.failed])
        systemd.notify_systemd(manager, systemd.STOPPING)
        await _wind_down(daemon)
    except Exception:
        log.exception("daemon_failed")  # now: what is under way may hold up the end for long, or for ever
        raise
    finally:
        server.should_exit = True
        for part in (*own, summaries):
            part.cancel()
        await asyncio.gather(*parts, summaries, return_exceptions=True)
        await daemon.dispatcher.close()
        await daemon.runs.close()
        daemon.timers.close()
        end_all()
    log.info("daemon_stopped")
    return 0


def _take_up(daemon: Daemon) -> list[str]:
    """Every task that has not ended; one that cannot be read is left alone and said so.

    Gives the ended ones whose summary a crash has kept from the disk.
    """
    untold = []
    for found in daemon.store.summaries():
        try:
            match found:
                case TaskSummary() if found.ended:
                    daemon.supervisor.ended[found.id] = found.status
                    daemon.supervisor.account.remember(found.spent)
                    if found.files & PROVIDED:
                        forget(daemon.provisions, found.id)
                    if found.status in SAID and SUMMARY_FILE not in found.files:
                        untold.append(found.id)
                case TaskSummary():
                    loaded = daemon.store.load(found.id, keep_open=True)
                    daemon.supervisor.recover(loaded.task, loaded.foreign, loaded.changed)
                    daemon.reports.catch_up(loaded.task)
                case UncommittedTask():
                    daemon.store.delete(found.task_id)
                    log.info("unborn_task_removed", task=found.task_id)
                case _:
                    raise found
        except (StoreError, DefinitionError, OSError) as error:
            log.warning("task_not_loaded", error=str(error))
    return untold


async def _sum_up(daemon: Daemon, ended: list[str]) -> None:
    """Write the summaries that are missing, one at a time: nobody waits for them, and others wait for the loop."""
    for name in ended:
        try:
            daemon.reports.catch_up(daemon.store.load(name).task)
        except (StoreError, DefinitionError, OSError) as error:
            log.warning("task_not_summed_up", error=str(error))
        await asyncio.sleep(0)


def _set_alarms(daemon: Daemon) -> None:
    timers, supervisor = daemon.timers, daemon.supervisor
    timers.start()
    timers.ring_every("room", LOOK_AT_ROOM, lambda: _look_at_room(daemon))
    timers.ring_every("telemetry", FLUSH_TELEMETRY, supervisor.flush_telemetry)
    timers.ring_every("clock", LOOK_AT_CLOCK, supervisor.look_at_clock)
    timers.ring_every("checkpoints", daemon.settings.checkpoint_every, lambda: _checkpoint_running(daemon))
    _look_at_room(daemon)


def _look_after(daemon: Daemon, sources: Sources, watch: Watch) -> None:
    """Watch the settings, the definitions and the folders of the tasks that are at work."""

    def look() -> None:
        declared = daemon.settings.definition_folders()
        tasks = map(daemon.store.files.path_of, daemon.supervisor.tasks)
        watch.look_at([*sources.folders(), *declared.pipelines, *declared.roles, *tasks])

    look()
    daemon.supervisor.listen(lambda _task, _event: look())


def _seen(daemon: Daemon, sources: Sources, paths: set[Path]) -> None:
    """Somebody changed files: settings, definitions, or what lies in a live task's folder."""
    for folder in {path.parent for path in paths if path.name in {"state.json", "journal.jsonl"}}:
        daemon.supervisor.look_for_foreign_edit(folder.name)
    declared = {path for path in paths if path.parent.parent != daemon.store.files.root}
    if any(path.name == "orchestrator.toml" or path == sources.config for path in declared):
        _reload_settings(daemon, sources)
    if any(path.suffix in {".toml", ".md"} for path in declared):
        _reload_definitions(daemon)


def _reload_settings(daemon: Daemon, sources: Sources) -> None:
    """Take over the settings as they are now; bad ones are refused, and the last good ones stay."""
    try:
        settings = sources.load()
    except SettingsError as error:
        log.warning("settings_refused", problems=[str(problem) for problem in error.problems])
        return
    if settings != daemon.settings:
        daemon.apply(settings)
        log.info("settings_applied")


def _reload_definitions(daemon: Daemon) -> None:
    """Take over pipelines and roles as they are declared now; bad ones are refused, and the last good ones stay."""
    problems = daemon.declared.reload(daemon.settings.definition_folders())
    if problems:
        log.warning("definitions_refused", problems=[str(problem) for problem in problems])
    else:
        log.info("definitions_loaded", pipelines=list(daemon.definitions.pipelines))


def _checkpoint_running(daemon: Daemon) -> None:
    """Of every task whose processes run: what stands still was saved when it came to a stand."""
    for task in daemon.supervisor.tasks.values():
        if task.run is not None and task.run.process is ProcessState.RUNNING:
            daemon.dispatcher.checkpoint(task, Reason.INTERVAL)


async def _wind_down(daemon: Daemon) -> None:
    """Admit nothing, and save what can be saved in time; recovery does not depend on it."""
    daemon.supervisor.drain()
    for task in daemon.supervisor.tasks.values():
        if task.is_active:
            daemon.dispatcher.checkpoint(task, Reason.STOP)
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
    """See how much room the machine has, and have the supervisor act on it."""
    daemon.shortage = judge(daemon.sensor.reading(), daemon.floors, daemon.shortage)
    daemon.supervisor.update_pressure(daemon.shortage)


def _status(daemon: Daemon) -> str:
    """How many tasks are at work and how many wait, on one line."""
    tasks = list(daemon.supervisor.tasks.values())
    at_work = sum(task.holds_slot for task in tasks)
    standing = sum(bool(task.is_paused) and not task.wants_slot for task in tasks)
    pressure = f"; {daemon.supervisor.room.pressure}" if daemon.supervisor.room.pressure else ""
    draining = "; draining" if daemon.supervisor.room.draining else ""
    return f"{at_work} at work, {len(waiting_queue(tasks))} in the queue, {standing} standing still{pressure}{draining}"
