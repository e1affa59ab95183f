"""The stage on which tests of processes run."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.integration.processes.stage import Stage, skip_without_groups


@pytest_asyncio.fixture(params=["cgroup", "signals"])
async def stage(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Stage]:
    """Runs under a folder of this test's own, once with a control group and once with signals; no process remains."""
    if request.param == "cgroup":
        skip_without_groups()
    stage = Stage(tmp_path, cgroup=request.param == "cgroup")
    yield stage
    await stage.runs.close()
    stage.clear()
