"""A daemon and its service manager: the watchdog, reloads at a signal, and what is known of how the last run ended."""

import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.acceptance.harness import PATIENCE, DaemonHarness

Hear = Callable[[str], str]


@pytest.fixture
def hear(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hear]:
    """Hear what daemons tell the service manager, up to the message with these words."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(PATIENCE)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", "20000000")

        def until(words: str) -> str:
            deadline = time.monotonic() + PATIENCE
            while words not in (message := manager.recv(5000).decode()):
                assert time.monotonic() < deadline, message
            return message

        yield until


def test_a_daemon_that_goes_on_feeds_the_watchdog_and_one_that_is_stopped_does_not(tmp_path: Path, hear: Hear) -> None:
    with DaemonHarness(tmp_path) as harness:
        assert hear("READY=1")
        assert hear("WATCHDOG=1")
        assert hear("WATCHDOG=1")
        assert harness.daemon is not None
        harness.daemon.send_signal(signal.SIGSTOP)
        harness.daemon.send_signal(signal.SIGABRT)  # what systemd sends then, and SIGCONT
        harness.daemon.send_signal(signal.SIGCONT)
        assert harness.daemon.wait(PATIENCE) == -signal.SIGABRT
        harness.start()
        assert "the last run ended unexpectedly: the service manager's watchdog" in hear("STATUS=")
        (line,) = [one for one in harness.log if one["event"] == "last_run_ended"]
        assert line["level"] == "warning"
        assert "Fatal Python error: Aborted" in line["stacks"]
        assert "process.py" in line["stacks"]
        assert harness.stop() == 0
        harness.start()
        assert len([one for one in harness.log if one["event"] == "last_run_ended"]) == 1


def test_a_daemon_that_was_killed_says_so_at_its_next_start(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path) as harness:
        harness.kill()
        harness.start()
        (line,) = [one for one in harness.log if one["event"] == "last_run_ended"]
        assert "it was killed, or an error ended it" in line["reason"]


def test_a_hangup_reloads_settings_and_the_service_manager_hears_how_that_went(tmp_path: Path, hear: Hear) -> None:
    with DaemonHarness(tmp_path) as harness:
        hear("READY=1")
        assert harness.daemon is not None
        harness.daemon.send_signal(signal.SIGHUP)
        assert hear("RELOADING=1").split("=")[1].startswith("1\nMONOTONIC_USEC")
        assert "STATUS=reloaded at " in hear("READY=1")
        good = (tmp_path / "orchestrator.toml").read_text()
        harness.overwrite(tmp_path / "orchestrator.toml", f"max_agents = 'many'\n{good}")
        harness.daemon.send_signal(signal.SIGHUP)
        refused = hear("READY=1\nSTATUS=refused")
        assert f"{tmp_path / 'orchestrator.toml'}:1: max_agents" in refused
        assert "refused: " in hear("STATUS="), "it is shown until a reload succeeds"
        harness.overwrite(tmp_path / "orchestrator.toml", f"max_agents = 3\n{good}")
        harness.daemon.send_signal(signal.SIGHUP)
        assert hear("READY=1\nSTATUS=reloaded at ")
        assert harness.request("GET", "/api/status")["places"] == 3
        assert harness.answers()
