"""The stage that tests of processes play on."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from tests.integration.processes.stage import Stage


@pytest_asyncio.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    """Runs under a folder of this test's own; nothing of them survives it."""
    stage = Stage(tmp_path)
    yield stage
    await stage.runs.close()
    stage.clear()
