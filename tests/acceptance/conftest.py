"""What acceptance tests with the real claude CLI need."""

import os
from pathlib import Path

import pytest

from orchestrator.agents.installation import ClaudeMissing, find_claude
from tests.acceptance.claude_harness import Ticker


@pytest.fixture(scope="session")
def claude() -> Path:
    try:
        return find_claude("", os.environ.get("PATH"))
    except ClaudeMissing as missing:
        pytest.skip(f"NOT TESTED WITH THE REAL CLI: {missing}")


@pytest.fixture
def ticker(tmp_path: Path) -> Ticker:
    return Ticker(tmp_path)
