"""The watchdog: a thread that feeds the service manager's watchdog only while every part of the daemon goes on.

Theory of operation
  * The thread asks every part again and again. What owes an answer for a quarter of the service manager's time, at most
    30 seconds, hangs: that is logged with the stack of its thread, shown in the service's status, and nothing is fed
    any more. So the reason is in the log long before the service manager ends this process.
  * A thread that holds the interpreter, as a long regular expression does, keeps this thread from running too. For that
    faulthandler has a thread of its own, below the interpreter: it writes every stack to the log's stream when it was
    not put off in time.
  * A process that was stopped, or a machine that slept, has asked nobody meanwhile: each part gets its time again.
"""

import faulthandler
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from io import UnsupportedOperation

import structlog

from orchestrator.daemon.watchdog.probes import Probe
from orchestrator.daemon.watchdog.service_manager import STATUS, WATCHDOG, ServiceManager

log = structlog.get_logger()

LONGEST_ANSWER = 30.0
"""Seconds after which a part that does not answer hangs."""
LOOKS = 6
"""How often a part is looked at until it hangs."""
JOIN_SECONDS = 5.0


class Watchdog:
    """Watches parts of the daemon; `status` is what the service's status says while nothing hangs."""

    def __init__(
        self, manager: ServiceManager, probes: Sequence[Probe], on_hang: Callable[[str], object] = str
    ) -> None:
        quarter = manager.watchdog_seconds / 4 if manager.watchdog_seconds else LONGEST_ANSWER
        self.status = ""
        self.hanging_after = min(quarter, LONGEST_ANSWER)
        self._every = self.hanging_after / LOOKS
        self._manager, self._probes, self._on_hang = manager, probes, on_hang
        self._hanging: dict[str, float] = {}
        self._told = ""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def close(self) -> None:
        """Watch no longer."""
        self._ended.set()
        self._thread.join(JOIN_SECONDS)

    @property
    def hangs(self) -> str:
        """Say what hangs, and for how many seconds; empty if nothing does."""
        found = dict(self._hanging)
        return ", ".join(f"{fault} for {seconds:.0f} s" for fault, seconds in found.items())

    def _run(self) -> None:
        looked_at = time.monotonic()
        try:
            while not self._ended.is_set():
                self._put_off_dump()
                now = time.monotonic()
                if now - looked_at > self.hanging_after:
                    for probe in self._probes:
                        probe.forgive(now)
                looked_at = now
                self._look(now)
                self._ended.wait(self._every)
        finally:
            faulthandler.cancel_dump_traceback_later()

    def _look(self, now: float) -> None:
        given_up = False
        for probe in self._probes:
            try:
                waited = probe.waited(now)
            except RuntimeError:  # the event loop or the threads are closed: the daemon ends
                continue
            given_up = given_up or waited > (probe.patience or self.hanging_after)
            self._judge(probe, waited)
        status = "; ".join(filter(None, (self.hangs, self.status)))
        is_fed = self._manager.watchdog_seconds is not None and not given_up
        states = [*([WATCHDOG] if is_fed else []), *([STATUS + status] if status != self._told else [])]
        if states:
            self._told = status
            self._manager.notify(*states)

    def _judge(self, probe: Probe, waited: float) -> None:
        """Log when a part begins to hang, and when it goes on."""
        said = f"{probe.name} {probe.fault}"
        if waited > self.hanging_after:
            if said not in self._hanging:
                stack = _stack_of(probe.thread)
                log.warning("part_hangs", part=probe.name, fault=probe.fault, seconds=round(waited), stack=stack)
                self._on_hang(said)
            self._hanging[said] = waited
        elif (seconds := self._hanging.pop(said, None)) is not None:
            log.info("part_goes_on", part=probe.name, seconds=round(seconds))
            self._on_hang("")

    def _put_off_dump(self) -> None:
        with suppress(UnsupportedOperation, ValueError):  # a stream without a descriptor, or a closed one
            faulthandler.dump_traceback_later(self.hanging_after + 2 * self._every, repeat=False, file=sys.stderr)


def _stack_of(thread: int | None) -> str:
    frame = sys._current_frames().get(thread) if thread is not None else None  # noqa: SLF001 - documented in sys
    return "".join(traceback.format_stack(frame)) if frame else ""
