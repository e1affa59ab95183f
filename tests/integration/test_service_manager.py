"""What the service manager hears: on real sockets, about parts that really hang."""

import asyncio
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
import structlog

from orchestrator.daemon.watchdog.probes import DiskProbe, InboxProgress, Probe, Question, probes_of
from orchestrator.daemon.watchdog.service_manager import READY, STOPPING, ServiceManager, service_manager_of
from orchestrator.daemon.watchdog.watchdog import Watchdog
from orchestrator.supervisor.inbox import Inbox

PATIENCE = 60.0
WATCHED = 2.0
"""Seconds that the service manager of these tests waits for news."""


class Listener:
    """The socket of a service manager, and what comes to it."""

    def __init__(self, folder: Path) -> None:
        self.address = str(folder / "notify")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(self.address)
        self._socket.settimeout(PATIENCE)

    def next(self) -> str:
        """Return the next message."""
        return self._socket.recv(5000).decode()

    def until(self, is_it: Callable[[str], bool]) -> list[str]:
        """Return the messages up to the first one that is it."""
        deadline, heard = time.monotonic() + PATIENCE, [self.next()]
        while not is_it(heard[-1]):
            assert time.monotonic() < deadline, heard
            heard.append(self.next())
        return heard

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[Listener]:
    made = Listener(tmp_path)
    yield made
    made.close()


@contextmanager
def watched(listener: Listener, *probes: Probe) -> Iterator[Watchdog]:
    watchdog = Watchdog(ServiceManager(listener.address, WATCHED), probes)
    watchdog.status = "2 active"
    watchdog.start()
    try:
        yield watchdog
    finally:
        watchdog.close()


def is_fed(message: str) -> bool:
    return "WATCHDOG=1" in message.splitlines()


def says(words: str) -> Callable[[str], bool]:
    return lambda message: f"STATUS={words}" in message


@pytest.mark.parametrize("abstract", [False, True])
def test_the_service_manager_is_notified_on_its_socket(tmp_path: Path, abstract: bool) -> None:
    name = f"{'@' if abstract else ''}{tmp_path}/notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind("\0" + name[1:] if abstract else name)
        manager.settimeout(PATIENCE)
        ServiceManager(name).notify(READY, "STATUS=here")
        assert manager.recv(100) == b"READY=1\nSTATUS=here"


def test_a_missing_service_manager_does_no_harm(tmp_path: Path) -> None:
    ServiceManager(str(tmp_path / "notify")).notify(STOPPING)
    ServiceManager().notify(READY)


@pytest.mark.parametrize(
    ("variables", "seconds"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "1500000"}, 1.5),
        ({"WATCHDOG_USEC": "1500000", "WATCHDOG_PID": str(os.getpid())}, 1.5),
        ({"WATCHDOG_USEC": "1500000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({"WATCHDOG_USEC": "-5"}, None),
    ],
)
def test_the_time_of_the_watchdog_is_read_as_systemd_means_it(variables: dict[str, str], seconds: float | None) -> None:
    assert service_manager_of({"NOTIFY_SOCKET": "/run/x", **variables}) == ServiceManager("/run/x", seconds)


def test_the_watchdog_is_fed_while_all_parts_go_on_and_the_status_is_told_once(
    listener: Listener, tmp_path: Path
) -> None:
    with (
        ThreadPoolExecutor(1) as workers,
        running_loop() as loop,
        watched(listener, *probes_of(loop, workers, tmp_path, Inbox())),
    ):
        heard = [listener.next() for _ in range(12)]
    assert all(map(is_fed, heard))
    assert [message for message in heard if "STATUS" in message] == ["WATCHDOG=1\nSTATUS=2 active"]
    assert (tmp_path / "watchdog").exists()


@contextmanager
def running_loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def test_a_loop_that_hangs_is_told_with_its_stack_and_not_fed_until_it_goes_on(listener: Listener) -> None:
    released, begun = threading.Event(), threading.Event()
    idents: list[int] = []

    def hang_here() -> None:
        idents.append(threading.get_ident())
        begun.set()
        released.wait(PATIENCE)

    with running_loop() as loop, structlog.testing.capture_logs() as logged:
        loop.call_soon_threadsafe(hang_here)
        begun.wait(PATIENCE)
        probe = Question("the event loop", "has not turned", loop.call_soon_threadsafe, thread=idents[0])
        with watched(listener, probe) as watchdog:
            told = listener.until(says("the event loop has not turned for"))[-1]
            assert not is_fed(told)
            assert told.endswith("; 2 active")
            assert watchdog.hangs
            released.set()
            assert is_fed(listener.until(says("2 active"))[-1])
    (line,) = [one for one in logged if one["event"] == "part_hangs"]
    assert line["log_level"] == "warning"
    assert "hang_here" in line["stack"]
    assert [one["part"] for one in logged if one["event"] == "part_goes_on"] == ["the event loop"]


def test_worker_threads_that_are_all_busy_are_told_but_get_longer(listener: Listener) -> None:
    released = threading.Event()
    with ThreadPoolExecutor(1) as workers:
        workers.submit(released.wait, PATIENCE)
        probe = Question("the worker threads", "have taken up no work", workers.submit, patience=PATIENCE)
        with watched(listener, probe):
            assert is_fed(listener.until(says("the worker threads have taken up no work for"))[-1])
            released.set()
            listener.until(says("2 active"))


def test_a_disk_that_does_not_answer_is_not_fed_and_one_that_refuses_is(listener: Listener, tmp_path: Path) -> None:
    with watched(listener, Question("the disk", "has not finished a write", lambda answer: answer)):
        assert not is_fed(listener.until(says("the disk has not finished a write for"))[-1])
    with structlog.testing.capture_logs() as logged:
        gone = DiskProbe(tmp_path / "gone" / "watchdog")
        with watched(listener, Question("the disk", "has not finished a write", gone.ask)):
            listener.until(lambda message: bool(logged) and is_fed(message))
    assert [one["event"] for one in logged] == ["disk_refuses_writes"]


async def test_a_supervisor_that_processes_nothing_is_told_from_one_that_tries_again() -> None:
    inbox = Inbox()
    probe = InboxProgress(inbox)
    begun = time.monotonic()
    assert probe.waited(begun + 100) == 0, "nothing waits"
    inbox.wake()
    assert probe.waited(begun + 200) == 100
    await inbox.take()
    assert probe.waited(begun + 300) == 200, "it was taken, and nothing follows"
    await inbox.retry_until_committed(lambda: None)
    assert probe.waited(begun + 400) == 0
    inbox.done()
    assert probe.waited(begun + 500) == 0


def test_what_waited_while_the_process_was_stopped_is_not_late() -> None:
    question = Question("the disk", "has not finished a write", lambda answer: answer)
    assert question.waited(10.0) == 0
    question.forgive(500.0)
    assert question.waited(501.0) == 1.0
