"""A release: its changelog as a commit of the daemon, for any changelog of the repository."""

from pathlib import Path

import pytest

from orchestrator.core.events import commands as do
from orchestrator.integrations.publishing.release import Release, ReleaseError, Upstream
from orchestrator.storage.task_files import FolderTaskFiles
from orchestrator.workspaces.workspace import Workspace
from tests.fakes.repositories import commit, git, repository
from tests.fakes.tasks import submitted

BRANCH = "release/T-1"
LATIN = b"# Changelog\n\nbegun by Zo\xeb\n\n## 1.0.0 - 2020-01-01\n\n- the beginning\n"


class Stage:
    """A user's repository and a release in progress."""

    def __init__(self, folder: Path, ticket: str) -> None:
        self.repo, self.workspace = folder / "repo", Workspace(folder / "data")
        self.base = repository(self.repo)
        made = self.workspace.prepare("T-1", self.repo, self.base, BRANCH)
        self.worktree, self.release = made.worktree, Release(self.workspace, FolderTaskFiles(folder))
        self.task = submitted(
            "T-1", folder=str(folder / "T-1"), repo=str(self.repo), base_commit=self.base, title=ticket
        )
        (folder / "T-1").mkdir()
        self.bare = folder / "bare.git"
        git(folder, "clone", "--quiet", "--bare", str(self.repo), str(self.bare))
        self.upstream = Upstream(address=str(self.bare), login=None)

    def prepare(self) -> tuple[str, str]:
        head = self.workspace.facts("T-1", self.base, self.base).head
        return self.release.prepare(
            self.task, "## Included Changes\n\n- a flag\n", head, lambda text: text, self.upstream
        )

    def tag(self, version: str, head: str) -> str:
        order = do.TagRelease(version=version, commit=head, branch=BRANCH)
        return self.release.tag(self.task, order, self.upstream)


def test_a_changelog_that_is_not_utf_8_keeps_its_bytes(tmp_path: Path) -> None:
    stage = Stage(tmp_path, "Release 1.1.0")
    (stage.worktree / "CHANGELOG.md").write_bytes(LATIN)
    commit(stage.worktree, {})
    version, made = stage.prepare()
    assert version == "1.1.0"
    assert stage.tag(version, made) == "v1.1.0"
    git(stage.repo, "checkout", "--quiet", "v1.1.0")
    there = (stage.repo / "CHANGELOG.md").read_bytes()
    begin, end = LATIN.split(b"## 1.0.0")
    assert there.startswith(begin + b"## 1.1.0")
    assert there.endswith(b"- a flag\n\n## 1.0.0" + end)


@pytest.mark.parametrize("title", ["Release 1.2.3-a..b", "Release 1.2.3-x.lock"])
def test_a_version_that_cannot_be_a_tag_is_refused_with_a_message(tmp_path: Path, title: str) -> None:
    stage = Stage(tmp_path, title)
    with pytest.raises(ReleaseError, match="cannot be the name of a tag"):
        stage.prepare()


def test_a_changelog_that_is_a_folder_is_refused_with_a_message(tmp_path: Path) -> None:
    stage = Stage(tmp_path, "Release 1.1.0")
    commit(stage.worktree, {"CHANGELOG.md/a.txt": "x"})
    with pytest.raises(ReleaseError, match=r"CHANGELOG\.md is not a file"):
        stage.prepare()


@pytest.mark.parametrize("where", ["at home", "upstream"])
def test_an_existing_tag_is_noticed_before_a_user_is_asked(tmp_path: Path, where: str) -> None:
    stage = Stage(tmp_path, "Release 1.1.0")
    taken = stage.repo if where == "at home" else stage.bare
    git(taken, "tag", "v1.1.0", stage.base)
    told = rf"{taken} has a tag v1\.1\.0 already, at {stage.base[:12]}; delete it there and retry, or choose another"
    with pytest.raises(ReleaseError, match=told):
        stage.prepare()
    git(taken, "tag", "--delete", "v1.1.0")
    version, made = stage.prepare()
    assert stage.tag(version, made) == "v1.1.0"
    assert stage.prepare() == (version, made), "its own tag is no conflict"


@pytest.mark.parametrize("where", ["at home", "upstream"])
def test_a_tag_that_was_set_after_a_user_was_asked_is_not_moved(tmp_path: Path, where: str) -> None:
    stage = Stage(tmp_path, "Release 1.1.0")
    version, made = stage.prepare()
    taken, other = (stage.repo, stage.bare) if where == "at home" else (stage.bare, stage.repo)
    git(taken, "tag", "v1.1.0", stage.base)
    with pytest.raises(ReleaseError, match=r"has a tag v1\.1\.0 already"):
        stage.tag(version, made)
    assert git(taken, "rev-parse", "v1.1.0") == stage.base
    assert git(other, "tag") == ""
