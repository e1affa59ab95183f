"""Commits put on top of another commit, in a bare repository, with real git."""

from pathlib import Path

import pytest

from orchestrator.workspaces.git import Git
from orchestrator.workspaces.replay import replay
from tests.fakes.repositories import commit, git


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository with one commit on main."""
    folder = tmp_path / "repo"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    commit(folder, {"shared.txt": "one\ntwo\nthree\n", "ours.txt": "ours\n"})
    return folder


def branch(repo: Path, name: str, *changes: dict[str, str]) -> str:
    """Commit the changes on a new branch from main; its newest commit."""
    git(repo, "checkout", "-q", "-b", name, "main")
    for number, files in enumerate(changes):
        commit(repo, files, f"{name} {number}")
    return git(repo, "rev-parse", "HEAD")


def bare(repo: Path) -> Git:
    return Git.own(repo / ".git")


def test_every_commit_keeps_its_author_its_message_and_its_change(repo: Path) -> None:
    base = git(repo, "rev-parse", "main")
    onto = branch(repo, "other", {"shared.txt": "ONE\ntwo\nthree\n"})
    head = branch(repo, "mine", {"mine.txt": "1\n"}, {"mine.txt": "2\n", "shared.txt": "one\ntwo\nTHREE\n"})
    done = replay(bare(repo), base, head, onto)
    assert done.commit
    assert done.conflicts == ()
    form = "--format=%an %ae %at %cn %ct %B"
    told = git(repo, "log", form, f"{onto}..{done.commit}")
    assert told == git(repo, "log", form, f"{base}..{head}")
    assert git(repo, "show", f"{done.commit}:shared.txt") == "ONE\ntwo\nTHREE"
    assert git(repo, "rev-parse", f"{done.commit}~2") == onto
    git(repo, "fsck", "--strict", "--no-dangling")


def test_a_conflict_names_the_files_and_moves_nothing(repo: Path) -> None:
    base = git(repo, "rev-parse", "main")
    onto = branch(repo, "other", {"shared.txt": "ONE\n", "a\nb.txt": "other\n"})
    head = branch(repo, "mine", {"mine.txt": "1\n"}, {"shared.txt": "EINS\n", "a\nb.txt": "mine\n"})
    done = replay(bare(repo), base, head, onto)
    assert (done.commit, sorted(done.conflicts)) == (None, ["a\nb.txt", "shared.txt"])


def test_what_is_there_already_becomes_no_empty_commit(repo: Path) -> None:
    base = git(repo, "rev-parse", "main")
    onto = branch(repo, "other", {"same.txt": "same\n"})
    head = branch(repo, "mine", {"same.txt": "same\n"}, {"mine.txt": "1\n"})
    done = replay(bare(repo), base, head, onto)
    assert done.commit
    assert git(repo, "log", "--format=%s", f"{onto}..{done.commit}").split("\n")[0] == "mine 1"
    assert replay(bare(repo), base, base, onto).commit == onto


def test_a_commit_in_another_encoding_and_with_a_signature_is_replayed_unsigned(repo: Path) -> None:
    base = git(repo, "rev-parse", "main")
    onto = branch(repo, "other", {"other.txt": "x\n"})
    branch(repo, "mine", {"mine.txt": "1\n"})
    tree = git(repo, "rev-parse", "HEAD^{tree}")
    person = (
        b"author J\xfcrgen <j@example.org> 1700000000 +0100\ncommitter J\xfcrgen <j@example.org> 1700000000 +0100\n"
    )
    signed = (
        b"encoding ISO-8859-1\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n -----END PGP SIGNATURE-----\n\nGr\xfc\xdfe\n"
    )
    body = f"tree {tree}\nparent {base}\n".encode() + person + signed
    head = bare(repo).run("hash-object", "-t", "commit", "-w", "--stdin", stdin=body).strip()
    done = replay(bare(repo), base, head, onto)
    raw = bare(repo).run("cat-file", "commit", done.commit or "").encode("utf-8", "surrogateescape")
    assert b"J\xfcrgen" in raw
    assert b"Gr\xfc\xdfe" in raw
    assert b"gpgsig" not in raw
