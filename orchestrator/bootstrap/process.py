"""The daemon's process, around the parts that wiring/ builds.

    start      open the data folder, load every live task, reissue whatever commands are outstanding
    serve      process requests and events until a signal arrives; reload settings and definitions when they change
    reload     on HUP: the same at once; at a terminal, where HUP says that it was closed, it stops
    stop       on TERM or INT: admit nothing, save checkpoints and telemetry, exit

Agents and checks keep running under their holders all the time. The process ends with an error only after a bug, or
when one of its own asyncio tasks dies; systemd then starts it again.
"""

import asyncio
import ctypes
import os
import signal
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path

import structlog

from orchestrator.bootstrap.garbage import keep_collections_short
from orchestrator.bootstrap.reloading import Reloader, SettingsSource
from orchestrator.bootstrap.vigil import Vigil
from orchestrator.bootstrap.watched_folders import WatchedFolders
from orchestrator.core.task.agent import ProcessState
from orchestrator.core.task.checkpoint import Reason
from orchestrator.daemon.monitors import LOGIN_UNKNOWN
from orchestrator.daemon.startup import catch_up_ended, load_tasks
from orchestrator.daemon.watch import Watch
from orchestrator.daemon.watchdog.service_manager import READY, STOPPING, service_manager_of
from orchestrator.errors import OrchestratorError
from orchestrator.log import start_logging
from orchestrator.pipelines.bundled import bundled_redactor
from orchestrator.server.app import create_app
from orchestrator.server.listener import make_server
from orchestrator.settings.environment import environment
from orchestrator.settings.settings import Settings
from orchestrator.storage.store import FolderStore
from orchestrator.wiring.daemon import Daemon, build_daemon
from orchestrator.workspaces.git import end_all

log = structlog.get_logger()

CHECK_RESOURCES_SECONDS = 5.0
FLUSH_TELEMETRY_SECONDS = 10.0
CHECK_CLOCK_SECONDS = 60.0
"""How often these are done."""
PR_SET_DUMPABLE = 4
STANDARD_INPUT = 0
SAVE_SECONDS = 20.0
"""How long checkpoints may take when the daemon stops."""


def serve(load: Callable[[], Settings], config: Path | None = None) -> int:
    """Run the daemon until it is told to stop and return the exit code. Raises OrchestratorError if it cannot start.

    `load` reads the settings: at start, and whenever one of their files changes, `config` included.
    """
    settings, redactor = load(), bundled_redactor()
    journal = environment().get("JOURNAL_STREAM")
    start_logging(settings.log.level, settings.log.format, redactor.masked, journal=journal)
    os.umask(0o077)
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)  # the tokens in our environment are not for other processes
    store = FolderStore(settings.data_dir)
    try:
        sources = SettingsSource(load, config.absolute() if config else None)
        return asyncio.run(_run(lambda: build_daemon(settings, store, redactor, sources.config), sources))
    finally:
        store.close()


async def _run(build: Callable[[], Daemon], sources: SettingsSource) -> int:
    daemon = build()
    settings, app = daemon.settings.now, create_app(daemon.service, daemon.settings.now.allowed_hosts)
    paths = (settings.socket, settings.agents_socket)
    server = make_server(app, paths, daemon.service.end_streams, listen=settings.listen, group=settings.socket_group)
    stopping = asyncio.Event()
    manager = service_manager_of(environment())
    reloader = Reloader(daemon, sources, manager)
    _handle_signals(stopping.set, reloader.reload_all)
    watch = Watch(reloader.on_change)
    daemon.supervisor.shared.unchecked = LOGIN_UNKNOWN
    derived = (daemon.reports, daemon.projections)
    behind = load_tasks(daemon.store, daemon.supervisor, derived, daemon.secrets)
    _start_timers(daemon)
    folders = WatchedFolders(daemon, sources, watch)
    await folders.look()
    log.info("daemon_started", pid=os.getpid(), data_dir=str(daemon.store.data_dir), tasks=len(daemon.supervisor.tasks))
    vigil = Vigil(daemon, manager, lambda: reloader.outcome)
    manager.notify(READY)
    vigil.start()
    loops = {
        "supervisor": daemon.supervisor.run,
        "watch": watch.run,
        "watched folders": folders.run,
        **daemon.loops,
    }
    own = [_named(name, run()) for name, run in loops.items()]
    parts = [*own, _named("api", server.serve())]
    keep_collections_short()
    summaries = _named("summaries", catch_up_ended(daemon.store, derived, behind))
    try:
        await _run_until(stopping, [*parts, daemon.executor.failed])
        manager.notify(STOPPING)
        await _save_all(daemon)
        vigil.end()
    except Exception:
        log.exception("daemon_failed")  # log it now: closing may take long, or hang
        raise
    finally:
        vigil.close()
        server.should_exit = True
        for part in (*own, summaries):
            part.cancel()
        await asyncio.gather(*parts, summaries, return_exceptions=True)
        await daemon.executor.close()
        await daemon.projections.close()
        await daemon.runs.close()
        daemon.timers.close()
        end_all()
    log.info("daemon_stopped")
    return 0


def _handle_signals(stop: Callable[[], None], reload: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    loop.add_signal_handler(signal.SIGHUP, stop if os.isatty(STANDARD_INPUT) else reload)


def _start_timers(daemon: Daemon) -> None:
    timers, supervisor = daemon.timers, daemon.supervisor
    timers.start()
    timers.ring_every("room", CHECK_RESOURCES_SECONDS, daemon.resources.check)
    timers.ring_every("telemetry", FLUSH_TELEMETRY_SECONDS, supervisor.flush_telemetry)
    timers.ring_every("clock", CHECK_CLOCK_SECONDS, supervisor.check_clock)
    timers.ring_every("checkpoints", daemon.settings.now.checkpoint_every, lambda: _checkpoint_running(daemon))
    daemon.resources.check()


def _checkpoint_running(daemon: Daemon) -> None:
    """Take a checkpoint of every task whose processes run; frozen ones were saved when they were frozen."""
    for task in daemon.supervisor.tasks.values():
        if task.run is not None and task.run.process is ProcessState.RUNNING:
            daemon.executor.checkpoint(task, Reason.INTERVAL)


async def _save_all(daemon: Daemon) -> None:
    """Stop admission, and save what can be saved in time; recovery does not depend on it."""
    daemon.supervisor.control.drain()
    for task in daemon.supervisor.tasks.values():
        if task.is_active:
            daemon.executor.checkpoint(task, Reason.STOP)
    with suppress(TimeoutError):
        async with asyncio.timeout(SAVE_SECONDS):
            await daemon.executor.settled()
            await daemon.inbox.settled()
    daemon.supervisor.flush_telemetry()


async def _run_until(stopping: asyncio.Event, parts: list[asyncio.Future[None]]) -> None:
    """Wait for the signal to stop. Raises what a part of the daemon raised that ended before it."""
    stopped = _named("stopping", stopping.wait())
    done, _ = await asyncio.wait([stopped, *parts], return_when=asyncio.FIRST_COMPLETED)
    if stopped in done:
        return
    stopped.cancel()
    for part in done:
        part.result()
    raise OrchestratorError("a part of the daemon ended unexpectedly; its log has the details")


def _named(name: str, work: Coroutine[object, object, object]) -> asyncio.Future[None]:
    async def run() -> None:
        await work

    return asyncio.get_running_loop().create_task(run(), name=name)
