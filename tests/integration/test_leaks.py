"""Provided values are found in every commit of a branch before it is published, in every form."""

import base64
from pathlib import Path

import pytest

from orchestrator.pipelines.bundled import bundled_redactor
from orchestrator.workspaces.evaluation.secret_scan import SecretLeaked, refuse_leaks, refuse_secrets_in_messages
from orchestrator.workspaces.git import Git
from tests.fakes.repositories import commit, git, repository

SECRET = "s3cr3t-value"
VALUES = {"DB_PASSWORD": SECRET}


TOKEN = "ghp_" + "0123456789abcdefghij" * 2
REDACTOR = bundled_redactor()


def publish(folder: Path, base: str) -> None:
    refuse_secrets_in_messages(Git.own(folder / ".git"), base, git(folder, "rev-parse", "HEAD"), REDACTOR)


def look(folder: Path, base: str) -> None:
    refuse_leaks(Git.own(folder / ".git"), base, git(folder, "rev-parse", "HEAD"), VALUES)


@pytest.mark.parametrize(
    "content",
    [f"password = {SECRET}\n", base64.b64encode(f"me:{SECRET}".encode()).decode(), f"\0\1\2{SECRET}\0"],
    ids=["text", "base64", "binary"],
)
def test_a_value_in_a_file_blocks_the_branch(tmp_path: Path, content: str) -> None:
    base = repository(tmp_path / "repo")
    commit(tmp_path / "repo", {"config/.env": content})
    with pytest.raises(
        SecretLeaked, match=r"provided value of DB_PASSWORD in config/\.env, so nothing was delivered"
    ) as told:
        look(tmp_path / "repo", base)
    assert SECRET not in str(told.value)


def test_a_value_that_a_later_commit_removed_still_blocks_the_branch(tmp_path: Path) -> None:
    base = repository(tmp_path / "repo")
    commit(tmp_path / "repo", {".env": SECRET})
    commit(tmp_path / "repo", {".env": "taken out"})
    with pytest.raises(SecretLeaked):
        look(tmp_path / "repo", base)


def test_a_value_in_a_message_or_a_name_blocks_the_branch(tmp_path: Path) -> None:
    for number, (files, message) in enumerate([({}, f"use {SECRET}"), ({f"{SECRET}.txt": ""}, "add a file")]):
        folder = tmp_path / f"repo{number}"
        base = repository(folder)
        commit(folder, files, message)
        with pytest.raises(SecretLeaked, match="DB_PASSWORD"):
            look(folder, base)


def test_values_that_were_in_the_repository_before_do_not_count(tmp_path: Path) -> None:
    base = repository(tmp_path / "repo", {"sample.env": SECRET, "a.txt": "one\n"})
    commit(tmp_path / "repo", {"a.txt": "two\n", "schön.bin": "\x00" * 100_000})
    look(tmp_path / "repo", base)


def test_many_large_files_are_scanned_in_pieces(tmp_path: Path) -> None:
    base = repository(tmp_path / "repo")
    files = {f"{number}.txt": f"{number}" * 9_000_000 for number in range(5)}
    commit(tmp_path / "repo", {**files, "z.txt": SECRET})
    with pytest.raises(SecretLeaked, match=r"in z\.txt"):
        look(tmp_path / "repo", base)


@pytest.mark.parametrize(
    "name", ["a\u2028b.txt", "a\x0cb.txt", "a\rb.txt", "a b\x85.txt", "two\nlines.txt", "\udcff.txt"]
)
def test_no_file_name_keeps_the_branch_from_being_scanned(tmp_path: Path, name: str) -> None:
    base = repository(tmp_path / "repo")
    commit(tmp_path / "repo", {name: "harmless"})
    look(tmp_path / "repo", base)
    commit(tmp_path / "repo", {f"new {name}": SECRET})
    with pytest.raises(SecretLeaked):
        look(tmp_path / "repo", base)


def test_a_commit_whose_message_contains_a_secret_is_not_published(tmp_path: Path) -> None:
    base = repository(tmp_path / "repo")
    commit(tmp_path / "repo", {"a.txt": "a"}, f"Call the forge\n\nwith {TOKEN} for now")
    commit(tmp_path / "repo", {"a.txt": "b"}, "Set the password of the test server at 10.0.0.7")
    told_by = git(tmp_path / "repo", "rev-parse", "HEAD~1")
    with pytest.raises(SecretLeaked, match=f"the message of commit {told_by[:12]}:3: github_token was added") as told:
        publish(tmp_path / "repo", base)
    assert TOKEN not in str(told.value)
    publish(tmp_path / "repo", told_by)
