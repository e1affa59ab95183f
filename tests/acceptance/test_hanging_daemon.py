"""A daemon that hangs: commands say so within seconds, and work again once it goes on."""

import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from orchestrator.core.task.task import TaskStatus
from orchestrator.server.client import Client, DaemonUnreachable
from orchestrator.server.connection import ANSWER_WITHIN
from orchestrator.server.schemas.task_input import TaskFilter
from tests.acceptance.harness import DaemonHarness

SOON = 30.0
"""Seconds: five until the error, and what it takes to start a command on a very busy machine."""


def answer(connection: socket.socket, before: Callable[[], None] = lambda: None) -> None:
    """Answer every request on a connection with an empty list of tasks, after this was done."""
    body = b'{"tasks":[]}'
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    with connection, suppress(OSError):  # who asked has given up
        while connection.recv(65536):
            before()
            connection.sendall(head.encode() + body)


def test_a_command_says_within_seconds_that_the_daemon_is_stopped(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path) as harness:
        assert harness.daemon is not None
        task = harness.submit(draft=True)
        harness.daemon.send_signal(signal.SIGSTOP)
        try:
            for command in (["tasks"], ["cancel", task], ["status", "--json"]):
                begun = time.monotonic()
                done = harness.cli(*command)
                assert time.monotonic() - begun < SOON
                assert done.returncode == 3, done.stderr
                assert ("problem:unreachable" in done.stdout) == ("--json" in command)
                told = " ".join(done.stderr.split())
                assert f"does not answer: it is stopped; let it go on with: kill -CONT {harness.daemon.pid}" in told
        finally:
            harness.daemon.send_signal(signal.SIGCONT)
        assert harness.cli("tasks").returncode == 0
        assert harness.client.task(task).status in {TaskStatus.DRAFT, TaskStatus.CANCELLED}


def test_a_process_that_listens_and_never_answers_is_told_from_one_that_is_stopped(tmp_path: Path) -> None:
    """Its processor stays idle: it waits for something that never comes."""
    path = tmp_path / "orchestrator.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        begun = time.monotonic()
        with Client(path) as client, pytest.raises(DaemonUnreachable, match="does not answer, though its process"):
            client.status()
        assert time.monotonic() - begun < SOON


def test_a_daemon_that_was_silent_until_it_was_watched_is_asked_once_more(tmp_path: Path) -> None:
    """It answers as soon as somebody asks a second time."""
    path = tmp_path / "orchestrator.sock"

    def answer_all_but_the_first() -> None:
        with suppress(OSError), listener.accept()[0]:
            while True:
                threading.Thread(target=answer, args=listener.accept()[:1], daemon=True).start()

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        accepting = threading.Thread(target=answer_all_but_the_first)
        accepting.start()
        with Client(path) as client:
            assert client.tasks(TaskFilter()).tasks == ()
        listener.shutdown(socket.SHUT_RDWR)
        accepting.join()


def test_a_daemon_that_is_silent_because_it_works_is_waited_for(tmp_path: Path) -> None:
    """It works for longer than one that hangs is waited for, then answers."""
    path = tmp_path / "orchestrator.sock"

    def work() -> None:
        while time.monotonic() < ready_at:
            sum(range(10_000))

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=answer, args=(listener.accept()[0], work), daemon=True).start()

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        threading.Thread(target=accept, daemon=True).start()
        ready_at = time.monotonic() + ANSWER_WITHIN + 1
        with Client(path) as client:
            assert client.tasks(TaskFilter()).tasks == ()
        assert time.monotonic() > ready_at
        listener.shutdown(socket.SHUT_RDWR)
