"""Pushing one ref with real git: once, never forced, and with errors that say who can fix them."""

from pathlib import Path
from socket import socket

import pytest

from orchestrator.integrations.errors import Unreachable
from orchestrator.integrations.publishing.push import PUSH_AGAIN, PushRefused, push, push_address, remote_commit
from orchestrator.workspaces.clone import Clone
from orchestrator.workspaces.repository import open_repository
from tests.fakes.repositories import commit, git, repository

REF = "refs/heads/feature/x"


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet", "--bare", "bare.git")
    return tmp_path / "bare.git"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    repository(tmp_path / "home")
    return tmp_path / "home"


@pytest.fixture
def clone(tmp_path: Path, home: Path) -> Clone:
    made = Clone(tmp_path / "clone")
    made.init(open_repository(home)[0])
    made.fetch_all(home, "T-1", git(home, "rev-parse", "HEAD"))
    return made


def hook(bare: Path, said: str) -> None:
    script = bare / "hooks/pre-receive"
    script.parent.mkdir(exist_ok=True)
    script.write_text(f"#!/bin/sh\necho '{said}' >&2\nexit 1\n")
    script.chmod(0o755)


def test_one_ref_is_pushed_and_a_repeated_push_changes_nothing(clone: Clone, home: Path, bare: Path) -> None:
    head = git(home, "rev-parse", "HEAD")
    assert remote_commit(clone.git, str(bare), REF, None) is None
    for _ in range(2):
        push(clone, str(bare), head, REF, None)
    assert git(bare, "for-each-ref", "--format=%(refname) %(objectname)") == f"{REF} {head}"
    assert remote_commit(clone.git, str(bare), REF, None) == head


def test_a_different_remote_branch_is_never_overwritten(clone: Clone, home: Path, bare: Path) -> None:
    old = git(home, "rev-parse", "HEAD")
    theirs = commit(home, {"b.txt": "two\n"})
    git(home, "push", "--quiet", str(bare), f"{theirs}:{REF}")
    with pytest.raises(PushRefused, match=f"has commits of others on {REF}, which are never overwritten"):
        push(clone, str(bare), old, REF, None)
    assert remote_commit(clone.git, str(bare), REF, None) == theirs


def test_the_output_of_the_remote_is_reported(clone: Clone, home: Path, bare: Path) -> None:
    hook(bare, "connection timed out, says the hook")
    with pytest.raises(PushRefused, match="connection timed out, says the hook"):
        push(clone, str(bare), git(home, "rev-parse", "HEAD"), REF, None)


def test_an_unresponsive_remote_is_retried_and_its_login_is_not_shown(clone: Clone, home: Path) -> None:
    with socket() as taken:
        taken.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(Unreachable, match=f"https://{host}/a/b.git cannot be reached") as raised:
            push(clone, f"https://me:a-password@{host}/a/b.git", git(home, "rev-parse", "HEAD"), REF, None)
        assert raised.value.again_after == PUSH_AGAIN
        assert "a-password" not in str(raised.value)
        with pytest.raises(Unreachable):
            remote_commit(clone.git, f"https://{host}/a/b.git", REF, None)


def test_a_missing_remote_has_to_be_fixed_by_a_user(clone: Clone, home: Path, tmp_path: Path) -> None:
    with pytest.raises(PushRefused, match="make sure that `git push` works by hand, then retry"):
        push(clone, str(tmp_path / "nowhere"), git(home, "rev-parse", "HEAD"), REF, None)


def test_the_push_url_takes_precedence_over_the_fetch_url(home: Path) -> None:
    assert push_address(home) is None
    git(home, "remote", "add", "origin", "https://git.example.test/a/b.git")
    assert push_address(home) == "https://git.example.test/a/b.git"
    git(home, "config", "remote.origin.pushurl", "git@git.example.test:a/b.git")
    assert push_address(home) == "git@git.example.test:a/b.git"
