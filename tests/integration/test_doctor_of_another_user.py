"""`doctor` beside a healthy daemon of another user: nothing that it advises may harm that daemon."""

import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from orchestrator.cli.commands.doctor import daemon
from orchestrator.daemon.inspection.doctor_checks import Level, data_folder
from orchestrator.server.client import Client, DaemonUnreachable
from orchestrator.settings.loading import load_settings
from orchestrator.settings.settings import Settings

THEIR_UID, MY_UID = 12345, 65534
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that every user can reach."""
    folder = Path(tempfile.mkdtemp(prefix="orchestrator-doctor-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@contextmanager
def beside_another_user(place: Path, *, listening: bool) -> Iterator[Settings]:
    """Settings that name the data folder of another user, who may have a daemon listening there."""
    data = place / "data"
    data.mkdir(mode=0o700)
    settings = load_settings(None, {"data_dir": str(data), "socket": str(data / "orchestrator.sock")})
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(settings.socket))
        if listening:
            listener.listen()
        for path in (data, settings.socket):
            os.chown(path, THEIR_UID, THEIR_UID)
        os.seteuid(MY_UID)
        try:
            yield settings
        finally:
            os.seteuid(0)


def test_a_healthy_daemon_of_another_user_is_left_alone(place: Path) -> None:
    with beside_another_user(place, listening=True) as settings:
        found = (data_folder(settings), daemon(settings))
    for one in found:
        assert (one.level, one.mend) == (Level.WARN, f"sudo -u '#{THEIR_UID}' orchestrator doctor")
        assert f"#{THEIR_UID}" in one.text


def test_the_data_folder_of_another_user_is_not_to_be_given_away_while_no_daemon_runs(place: Path) -> None:
    with beside_another_user(place, listening=False) as settings:
        folder, process = data_folder(settings), daemon(settings)
    assert (folder.level, folder.mend) == (Level.BAD, f"sudo -u '#{THEIR_UID}' orchestrator doctor")
    assert process.level is Level.BAD


def test_a_command_says_whose_daemon_it_is(place: Path) -> None:
    with (
        beside_another_user(place, listening=True) as settings,
        pytest.raises(DaemonUnreachable, match=f"belongs to #{THEIR_UID}, who alone may use it"),
        Client(settings.socket) as client,
    ):
        client.status()
