"""The stage on which tests of processes run."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.integration.processes.stage import Stage, skip_without_groups, skip_without_sandboxes


@pytest_asyncio.fixture(params=["cgroup", "signals", "sandbox-cgroup", "sandbox-signals"])
async def stage(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Stage]:
    """Runs under a folder of this test's own, with a control group or with signals, in a sandbox or not.

    No process remains.
    """
    cgroup, sandbox = "cgroup" in request.param, "sandbox" in request.param
    if cgroup:
        skip_without_groups()
    if sandbox:
        skip_without_sandboxes()
    stage = Stage(tmp_path, cgroup=cgroup, sandbox=sandbox)
    yield stage
    await stage.runs.close()
    stage.clear()
