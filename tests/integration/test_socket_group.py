"""The setting `socket_group`, with real users: who is in the group may operate, nobody else may ask."""

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from orchestrator.server.app import create_app
from orchestrator.server.listener import SocketRefused, make_server
from tests.fakes.in_process_daemon import REQUEST_PROGRAM, InProcessDaemon, create_daemon, serving

GROUP, GID = "games", 60
MEMBER, STRANGER = 54321, 54322
BECOME = """
import encodings.idna, http.client, os, socket, sys
os.setgroups({groups})
os.setresgid({group}, {group}, {group})
os.setresuid({user}, {user}, {user})
"""
"""The beginning of a program that runs as another user; the interpreter may be out of that user's reach."""
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can start programs of other users")


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that every user can reach."""
    folder = Path(tempfile.mkdtemp(prefix="orchestrator-group-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest_asyncio.fixture
async def daemon(place: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[InProcessDaemon]:
    """A daemon whose socket a group may use."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(place / "config"))
    monkeypatch.setenv("ORCHESTRATOR_SOCKET_GROUP", GROUP)
    daemon = create_daemon(place / "data")
    async with serving(daemon):
        yield daemon
    daemon.store.close()


async def status(daemon: InProcessDaemon, user: int, groups: list[int], *request: str, group: int = 65534) -> str:
    """Return the response to a program of a user in these groups; the error if it cannot connect."""
    become = BECOME.format(user=user, group=group, groups=groups)
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", become + REQUEST_PROGRAM, str(daemon.settings.socket), *request),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await child.communicate()
    return out.decode().strip() or err.decode().strip().rpartition("\n")[2].partition(":")[0]


async def test_a_member_of_the_group_operates_and_does_not_administer(daemon: InProcessDaemon) -> None:
    for group, groups in ((65534, [GID]), (GID, [])):
        assert await status(daemon, MEMBER, groups, "GET", "/api/status", group=group) == "200"
        assert await status(daemon, MEMBER, groups, "POST", "/api/pause", group=group) == "200"
        assert await status(daemon, MEMBER, groups, "GET", "/api/tokens", group=group) == "403"
        assert await status(daemon, MEMBER, groups, "POST", "/api/drain", group=group) == "403"


async def test_a_member_of_many_groups_is_recognised(daemon: InProcessDaemon) -> None:
    assert await status(daemon, MEMBER, [*range(10_000, 10_250), GID], "GET", "/api/status") == "200"


async def test_whoever_is_not_in_the_group_cannot_connect(daemon: InProcessDaemon) -> None:
    assert await status(daemon, STRANGER, [], "GET", "/api/status") == "PermissionError"
    daemon.settings.socket.chmod(0o666)
    daemon.settings.data_dir.chmod(0o711)
    assert await status(daemon, STRANGER, [], "GET", "/api/status") == "403"


async def test_only_the_socket_is_opened_and_its_folder_shows_nothing(daemon: InProcessDaemon) -> None:
    modes = {path: path.stat().st_mode & 0o777 for path in (daemon.settings.data_dir, daemon.settings.socket)}
    assert list(modes.values()) == [0o710, 0o660]
    others = [path for path in daemon.settings.data_dir.iterdir() if path.stat().st_gid == GID and not path.is_socket()]
    assert others == []


def test_a_group_that_does_not_exist_is_refused_by_name(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(place / "config"))
    daemon = create_daemon(place / "data")
    with pytest.raises(SocketRefused, match="there is no group 'no-such-group'"):
        make_server(create_app(daemon.service), [daemon.settings.socket], lambda: None, group="no-such-group")
    daemon.store.close()


async def test_a_socket_without_a_group_is_its_owners_alone(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(place / "config"))
    daemon = create_daemon(place / "data")
    async with serving(daemon):
        assert daemon.settings.socket.stat().st_mode & 0o777 == 0o600
        assert daemon.settings.data_dir.stat().st_mode & 0o777 == 0o700
    daemon.store.close()
