"""A repository that will not take the finished branch is refused at submit, not after the work."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from orchestrator.daemon.task_factory import Submission
from orchestrator.workspaces.repository import RepositoryError
from tests.fakes.in_process_daemon import create_daemon, serving
from tests.fakes.repositories import git, repository

NOBODY = 65534


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a repository that every user can reach."""
    folder = Path(tempfile.mkdtemp(prefix="orchestrator-unwritable-"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
    repository(folder / "repo")
    git(folder / "repo", "branch", "feature/other")
    yield folder
    for path in folder.rglob("*"):
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o700)
    shutil.rmtree(folder)


@contextmanager
def closed_to_its_owner(folder: Path, closed: Path) -> Iterator[None]:
    """Make a folder read-only for this process; root, to whom no permission applies, becomes another user meanwhile."""
    is_root = os.geteuid() == 0
    if is_root:
        for path in (folder, *folder.rglob("*")):
            os.lchown(path, NOBODY, NOBODY)
        os.seteuid(NOBODY)
    closed.chmod(0o500)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)


@pytest.mark.parametrize(
    "closed", [".git/objects", ".git/objects/pack", ".git/refs/heads/feature", ".git/logs/refs/heads/feature"]
)
async def test_a_repository_that_cannot_take_the_branch_is_refused_at_submit(place: Path, closed: str) -> None:
    daemon = create_daemon(place / "data")
    async with serving(daemon):
        await daemon.accept(Submission(text="Say hello", repo=place / "repo"), "ada")
        with closed_to_its_owner(place, place / "repo" / closed):
            with pytest.raises(RepositoryError, match=f"{closed}; let the daemon's user write there"):
                await daemon.accept(Submission(text="Say hello", repo=place / "repo"), "ada")
            report = Submission(text="Look at it", repo=place / "repo", pipeline="review_only")
            assert (await daemon.accept(report, "ada")).pipeline == "review_only"
        assert len(list((place / "data/tasks").iterdir())) == 2
    daemon.store.close()
