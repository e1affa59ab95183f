"""Notifications to the service manager."""

import socket
from pathlib import Path

import pytest

from orchestrator.bootstrap import READY, STOPPING, notify_systemd


@pytest.mark.parametrize("abstract", [False, True])
def test_the_service_manager_is_notified_on_its_socket(tmp_path: Path, abstract: bool) -> None:
    name = f"{'@' if abstract else ''}{tmp_path}/notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind("\0" + name[1:] if abstract else name)
        manager.settimeout(60)
        notify_systemd(name, READY)
        assert manager.recv(100) == b"READY=1"


def test_a_missing_service_manager_does_no_harm(tmp_path: Path) -> None:
    notify_systemd(str(tmp_path / "notify"), STOPPING)
    notify_systemd(None, READY)
