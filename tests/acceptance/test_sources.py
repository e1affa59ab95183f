"""A repository elsewhere: cloned over ssh by a real git, worked on, and kept up to date; hostile addresses refused."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.harness import DaemonHarness
from tests.fakes.repositories import commit, git

SSH = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift 2; done
shift
echo "$*" >> "$(dirname "$0")/../asked"
exec sh -c "$*"
"""
"""An ssh that runs the command on this machine: all that differs from a server is the network."""


@pytest.fixture
def harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DaemonHarness]:
    ssh = tmp_path / "bin/ssh"
    ssh.parent.mkdir()
    ssh.write_text(SSH)
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{ssh.parent}{os.pathsep}{os.environ['PATH']}")
    with DaemonHarness(tmp_path) as harness:
        yield harness


def test_a_task_begins_from_a_clone_of_an_address_and_ends_as_a_branch_of_it(harness: DaemonHarness) -> None:
    there = harness.make_repository("elsewhere")
    address = f"git@git.example.org:{there}"
    done = harness.cli("submit", "Add slugify(text)", "--repo", address)
    assert done.returncode == 0, done.stderr
    task = harness.wait_for_end(done.stdout.strip())
    copy = Path(task.repo)
    assert copy.parent == harness.data / "sources"
    assert f"its result will be a branch of {copy}" in done.stderr
    assert git(copy, "rev-parse", "main") == git(there, "rev-parse", "main") == task.base_commit
    assert git(copy, "rev-parse", task.branch) == task.head
    assert git(there, "branch", "--list", "--format=%(refname:short)") == "main", "nothing is pushed without a forge"

    git(there, "branch", "other")
    newer = commit(there, {"new.txt": "new\n"})
    again = harness.cli("submit", "Another", "--draft", "--repo", address)
    assert harness.client.task(again.stdout.strip()).base_commit == newer
    assert git(copy, "rev-parse", task.branch) == task.head, "what was delivered stays"
    assert git(copy, "rev-parse", "other") == task.base_commit
    git(there, "branch", "-D", "other")
    harness.cli("submit", "A third", "--draft", "--repo", address)
    assert "other" not in git(copy, "branch", "--list", "--format=%(refname:short)").split()
    assert "upload-pack" in (harness.root / "asked").read_text()


def test_an_address_that_cannot_be_cloned_is_a_usage_error_that_names_what_to_try(harness: DaemonHarness) -> None:
    done = harness.cli("submit", "Add slugify(text)", "--repo", "git@git.example.org:/nowhere/at-all.git")
    assert (done.returncode, done.stdout) == (2, "")
    assert "git@git.example.org" not in done.stdout
    assert "`git ls-remote` works by hand" in done.stderr
    assert not harness.client.status().counts
    assert [path.name for path in (harness.data / "sources").iterdir() if not path.name.startswith(".")] == []


@pytest.mark.parametrize(
    "address", ["ext::sh -c 'touch sprung'", "file:///etc", "https://a:secret@host/a/b", "ssh://-oX/a/b"]
)
def test_a_hostile_address_reaches_no_git(harness: DaemonHarness, address: str) -> None:
    done = harness.cli("submit", "Add slugify(text)", "--repo", address)
    assert (done.returncode, "cannot be cloned" in done.stderr, "secret" in done.stderr) == (2, True, False)
    assert not (harness.root / "asked").exists()
    refused = harness.cli("submit", "x", "--repo", "--upload-pack=id")
    assert refused.returncode != 0
