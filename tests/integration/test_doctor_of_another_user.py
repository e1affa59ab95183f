"""`doctor` beside a healthy daemon of another user: nothing that it advises may harm that daemon."""

import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from grp import getgrgid
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from orchestrator.cli.app import run
from orchestrator.cli.commands.doctor import daemon
from orchestrator.daemon.access.scopes import Scope
from orchestrator.daemon.callers import Caller
from orchestrator.daemon.examination.telling import check_channels
from orchestrator.daemon.inspection.doctor_checks import Level, data_folder
from orchestrator.server.access.marks import lacks_scope
from orchestrator.server.client import Client, DaemonUnreachable
from orchestrator.settings.loading import load_settings
from orchestrator.settings.settings import Settings

THEIR_UID, MY_UID = 12345, 65534
GROUP = getgrgid(60)
"""A group that every Debian has, with nobody in it."""
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that every user can reach."""
    folder = Path(tempfile.mkdtemp(prefix="orchestrator-doctor-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@contextmanager
def beside_another_user(place: Path, *, listening: bool, group: bool = False) -> Iterator[Settings]:
    """Settings that name the data folder of another user, who may have a daemon listening there, also for a group."""
    data = place / "data"
    data.mkdir(mode=0o700)
    settings = load_settings(None, {"data_dir": str(data), "socket": str(data / "orchestrator.sock")})
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(settings.socket))
        if listening:
            listener.listen()
        for path in (data, settings.socket):
            os.chown(path, THEIR_UID, GROUP.gr_gid if group else THEIR_UID)
        if group:
            data.chmod(0o710)
            settings.socket.chmod(0o660)
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


def test_a_command_says_which_group_one_can_join(place: Path) -> None:
    with beside_another_user(place, listening=True, group=True) as settings:
        with (
            pytest.raises(DaemonUnreachable, match=f"group {GROUP.gr_name} may use it; .*usermod -aG {GROUP.gr_name}"),
            Client(settings.socket) as client,
        ):
            client.status()
        assert f"#{THEIR_UID} and the group {GROUP.gr_name} may ask it" in daemon(settings).text


def test_what_a_command_may_not_read_is_told_with_its_owner(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(place / "config"))
    mine = place / "mine"
    mine.mkdir()
    os.chown(mine, MY_UID, MY_UID)
    run(["backup", "verify", str(mine / "none")])  # its modules may be where only root can read
    with beside_another_user(place, listening=True) as settings:
        code = run(["--data-dir", str(settings.data_dir), "backup", str(mine / "backup.tar.zst")])
    said = " ".join(capsys.readouterr().err.split())
    assert code == 1
    assert f"Permission denied; it belongs to #{THEIR_UID}, try again as that user: sudo -u '#{THEIR_UID}'" in said


def test_how_the_channels_of_another_user_do_is_not_asked(place: Path) -> None:
    with capture_logs() as said, beside_another_user(place, listening=True) as settings:
        assert list(check_channels(settings, {})) == []
    assert said == []


def test_who_may_only_operate_is_told_whom_to_be() -> None:
    refused = lacks_scope(Caller(pid=1, uid=MY_UID, scope=Scope.OPERATE), Scope.ADMIN)
    assert "and this needs admin; ask as root: sudo -u root orchestrator" in (refused.detail or "")
    refused = lacks_scope(Caller(name="token:phone", scope=Scope.VIEW), Scope.ADMIN)
    assert "use a token that has it" in (refused.detail or "")
