"""A store for tasks."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.storage.store import FolderStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[FolderStore]:
    opened = FolderStore(tmp_path / "data")
    yield opened
    opened.close()
