"""A daemon without processes, and a client of it: what most tests of the API and the pages begin with."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from tests.fakes.in_process_daemon import InProcessDaemon, create_daemon, serving
from tests.fakes.repositories import repository


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> InProcessDaemon:
    """A daemon in a home without settings, beside a repository; its socket's path is short."""
    for name in [name for name in os.environ if name.startswith("ORCHESTRATOR_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    repository(tmp_path / "repo")
    return create_daemon(tmp_path / "data")


@pytest_asyncio.fixture
async def client(daemon: InProcessDaemon) -> AsyncIterator[httpx.AsyncClient]:
    """A client of that daemon while it runs."""
    async with serving(daemon) as client:
        yield client
    daemon.store.close()
