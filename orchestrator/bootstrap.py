"""The daemon's process, around the parts that wiring/ builds.

    start      open the data folder, load every live task, reissue whatever commands are outstanding
    serve      process requests and events until a signal arrives; reload settings and definitions when they change
    stop       on TERM or INT: admit nothing, save checkpoints and telemetry, exit

Agents and checks keep running under their holders all the time. The process ends with an error only after a bug, or
when one of its own asyncio tasks dies; systemd then starts it again.
"""

import asyncio
import ctypes
import os
import signal
import socket
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import structlog

from orchestrator.core.schedule.admission import waiting_queue
from orchestrator.core.task.agent import ProcessState
from orchestrator.core.task.checkpoint import Reason
from orchestrator.core.task.task import Task
from orchestrator.daemon.monitors import LOGIN_UNKNOWN
from orchestrator.daemon.startup import catch_up_ended, load_tasks
from orchestrator.daemon.watch import Watch
from orchestrator.errors import OrchestratorError
from orchestrator.log import start_logging
from orchestrator.pipelines.bundled import bundled_redactor
from orchestrator.server.app import create_app
from orchestrator.server.listener import make_server
from orchestrator.settings.environment import config_folders, environment
from orchestrator.settings.loading import SettingsError, is_writable, keep_programs
from orchestrator.settings.settings import Settings
from orchestrator.storage.store import FolderStore
from orchestrator.wiring.daemon import Daemon, build_daemon
from orchestrator.workspaces.git import end_all

log = structlog.get_logger()

CHECK_RESOURCES_SECONDS = 5.0
FLUSH_TELEMETRY_SECONDS = 10.0
REPORT_STATUS_SECONDS = 5.0
CHECK_CLOCK_SECONDS = 60.0
CHECK_FOLDERS_SECONDS = 5.0
"""How often these are done."""
GATHER_FOLDERS_SECONDS = 0.5
"""How long changes of what is watched are collected."""
PR_SET_DUMPABLE = 4
SAVE_SECONDS = 20.0
"""How long checkpoints may take when the daemon stops."""

READY, STOPPING, STATUS = "READY=1", "STOPPING=1", "STATUS="
"""States for the service manager."""


@dataclass(frozen=True, slots=True)
class SettingsSource:
    """Where the settings come from: a function that reads them, and the file given with --config, if any.

    `config` is an absolute path, as changed files are reported.
    """

    load: Callable[[], Settings]
    config: Path | None

    def folders(self) -> list[Path]:
        """Return the folders in which a changed file may change the settings."""
        return [*config_folders(), *([self.config.parent] if self.config else [])]

    def files(self) -> list[Path]:
        """Return the files that may hold settings."""
        return [*(folder / "orchestrator.toml" for folder in config_folders()), *([self.config] if self.config else [])]

    def definition_folders(self) -> list[Path]:
        """Return the folders in which definitions may be created beside the settings."""
        return [folder / kind for folder in config_folders() for kind in ("pipelines", "agents")]


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
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    watch = Watch(lambda paths: _on_change(daemon, sources, paths))
    daemon.supervisor.shared.unchecked = LOGIN_UNKNOWN
    derived = (daemon.reports, daemon.projections)
    behind = load_tasks(daemon.store, daemon.supervisor, derived, daemon.secrets)
    _start_timers(daemon)
    _watch_files(daemon, sources, watch)
    log.info("daemon_started", pid=os.getpid(), data_dir=str(daemon.store.data_dir), tasks=len(daemon.supervisor.tasks))
    manager = environment().get("NOTIFY_SOCKET")
    notify_systemd(manager, READY)
    if manager:
        daemon.timers.ring_every(
            "status", REPORT_STATUS_SECONDS, lambda: notify_systemd(manager, STATUS + _status(daemon))
        )
    loops = {"supervisor": daemon.supervisor.run, "watch": watch.run, **daemon.loops}
    own = [_named(name, run()) for name, run in loops.items()]
    parts = [*own, _named("api", server.serve())]
    summaries = _named("summaries", catch_up_ended(daemon.store, derived, behind))
    try:
        await _run_until(stopping, [*parts, daemon.executor.failed])
        notify_systemd(manager, STOPPING)
        await _save_all(daemon)
    except Exception:
        log.exception("daemon_failed")  # log it now: closing may take long, or hang
        raise
    finally:
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


def _start_timers(daemon: Daemon) -> None:
    timers, supervisor = daemon.timers, daemon.supervisor
    timers.start()
    timers.ring_every("room", CHECK_RESOURCES_SECONDS, daemon.resources.check)
    timers.ring_every("telemetry", FLUSH_TELEMETRY_SECONDS, supervisor.flush_telemetry)
    timers.ring_every("clock", CHECK_CLOCK_SECONDS, supervisor.check_clock)
    timers.ring_every("checkpoints", daemon.settings.now.checkpoint_every, lambda: _checkpoint_running(daemon))
    daemon.resources.check()


def _watch_files(daemon: Daemon, sources: SettingsSource, watch: Watch) -> None:
    """Watch the settings, the definitions and the folders of live tasks.

    To change what is watched takes time in proportion to all of it. So a burst of new or ended tasks changes it once,
    and what happened to the files of a new task before that is looked for then.
    """
    known: tuple[Settings, frozenset[str]] = daemon.settings.now, frozenset()
    due: asyncio.TimerHandle | None = None

    def update() -> None:
        nonlocal known, due
        due, before = None, known[1]
        known = daemon.settings.now, frozenset(daemon.supervisor.tasks)
        declared = known[0].definition_folders()
        tasks = map(daemon.store.files.path_of, known[1])
        own = (*sources.folders(), *sources.definition_folders())
        watch.look_at([*own, *declared.pipelines, *declared.roles, *tasks])
        for task_id in known[1] - before:
            daemon.supervisor.check_for_foreign_edit(task_id)

    def update_if_changed(task: Task) -> None:
        nonlocal due
        is_live = task.id in daemon.supervisor.tasks
        if due is None and (known[0] is not daemon.settings.now or (task.id in known[1]) != is_live):
            due = asyncio.get_running_loop().call_later(GATHER_FOLDERS_SECONDS, update)

    update()
    daemon.supervisor.listen(lambda task, _event: update_if_changed(task))
    daemon.timers.ring_every("folders", CHECK_FOLDERS_SECONDS, update)  # one that was missing may have been created


def _on_change(daemon: Daemon, sources: SettingsSource, paths: set[Path]) -> None:
    """React to changed files: settings, definitions, or the state of a live task."""
    for folder in {path.parent for path in paths if path.name in {"state.json", "journal.jsonl"}}:
        daemon.supervisor.check_for_foreign_edit(folder.name)
    declared = {path for path in paths if path.parent.parent != daemon.store.files.root}
    if any(path.name == "orchestrator.toml" or path == sources.config for path in declared):
        _reload_settings(daemon, sources)
    if any(path.suffix in {".toml", ".md"} for path in declared):
        _reload_definitions(daemon)


def _reload_settings(daemon: Daemon, sources: SettingsSource) -> None:
    """Put the settings in force as they are now; if they are invalid, keep the last valid ones."""
    try:
        settings = sources.load()
    except SettingsError as error:
        log.warning("settings_refused", problems=[str(problem) for problem in error.problems])
        return
    if daemon.launching().isolation.program is None and any(map(is_writable, sources.files())):
        settings, kept = keep_programs(settings, daemon.settings.now)
        if kept:
            log.warning(
                "settings_wait_for_restart", settings=kept, reason="agents can write the file without a sandbox"
            )
    if settings != daemon.settings.now:
        daemon.settings.replace(settings)
        log.info("settings_applied")


def _reload_definitions(daemon: Daemon) -> None:
    """Reload pipelines and roles; if they are invalid, keep the last valid ones."""
    problems = daemon.definitions.reload(daemon.settings.now.definition_folders())
    if problems:
        log.warning("definitions_refused", problems=[str(problem) for problem in problems])
    else:
        log.info("definitions_loaded", pipelines=list(daemon.definitions.now.pipelines))


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


def _status(daemon: Daemon) -> str:
    """Return how many tasks run and how many wait, on one line."""
    tasks = list(daemon.supervisor.tasks.values())
    active = sum(task.holds_slot for task in tasks)
    paused = sum(bool(task.is_paused) and not task.wants_slot for task in tasks)
    pressure = f"; {daemon.supervisor.control.capacity.pressure}" if daemon.supervisor.control.capacity.pressure else ""
    draining = "; draining" if daemon.supervisor.control.capacity.draining else ""
    return f"{active} active, {len(waiting_queue(tasks))} queued, {paused} paused{pressure}{draining}"


def notify_systemd(address: str | None, state: str) -> None:
    """Send a state to the service manager as sd_notify(3) does; `address` is the content of `NOTIFY_SOCKET`, if set.

    A service manager that cannot be reached is only logged: what follows from that is its own decision.
    """
    if not address:
        return
    name = "\0" + address[1:] if address.startswith("@") else address  # @ marks an abstract socket
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.connect(name)
            sender.sendall(state.encode())
    except OSError as error:
        log.warning("service_manager_not_told", state=state, error=str(error))
