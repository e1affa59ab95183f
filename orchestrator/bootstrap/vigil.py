"""The daemon's watch over itself, put together: its probes, the service's status, and the record of the run."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import structlog

from orchestrator import clock
from orchestrator.core.schedule.status_line import status_line
from orchestrator.daemon.watchdog.last_run import Ending, RunRecord
from orchestrator.daemon.watchdog.probes import probes_of
from orchestrator.daemon.watchdog.service_manager import ServiceManager
from orchestrator.daemon.watchdog.watchdog import Watchdog
from orchestrator.processes.files import boot_id
from orchestrator.wiring.daemon import Daemon

log = structlog.get_logger()

REPORT_STATUS_SECONDS = 5.0
"""How often the service's status is composed."""
SHOWN_FOR = timedelta(hours=12)
"""How long the service's status says how the last run ended."""


class Vigil:
    """Watches a daemon from `start` to `close`; made in the thread of its event loop, whose worker threads it sets."""

    def __init__(self, daemon: Daemon, manager: ServiceManager, outcome: Callable[[], str]) -> None:
        loop, workers = asyncio.get_running_loop(), ThreadPoolExecutor(thread_name_prefix="worker")
        loop.set_default_executor(workers)
        self._daemon, self._outcome, self._shown_until = daemon, outcome, clock.now() + SHOWN_FOR
        self._record = RunRecord(daemon.store.data_dir, boot_id(), clock.now)
        probes = probes_of(loop, workers, daemon.store.data_dir, daemon.inbox)
        self._watchdog = Watchdog(manager, probes, self._note_hangs)
        if (last := self._record.last) is not None:
            level = log.info if last.ending is Ending.REBOOTED else log.warning
            level("last_run_ended", reason=str(last), last_pid=last.pid, began=last.started_at, stacks=last.stacks)

    def start(self) -> None:
        """Begin to watch, and to report."""
        self._report()
        self._daemon.timers.ring_every("status", REPORT_STATUS_SECONDS, self._report)
        self._watchdog.start()

    def end(self) -> None:
        """Watch no longer, and record that the daemon ends as it should."""
        self._watchdog.close()
        self._record.close()

    def close(self) -> None:
        """Watch no longer."""
        self._watchdog.close()

    def _report(self) -> None:
        supervisor = self._daemon.supervisor
        night = status_line(supervisor.snapshot(), supervisor.unreadable)
        last = str(self._record.last) if self._record.last and clock.now() < self._shown_until else ""
        self._watchdog.status = "; ".join(filter(None, (self._outcome(), night, last)))

    def _note_hangs(self, words: str) -> None:
        """Record what hangs, in a thread: it may be the disk."""
        threading.Thread(target=self._record.note_hangs, args=(words,), name="watchdog-record", daemon=True).start()
