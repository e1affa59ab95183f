"""What an archive of a task's work is made from: git's objects alone, under names that stay in the archive."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.workspaces import deliverables
from orchestrator.workspaces.clone import WorkspaceError
from orchestrator.workspaces.deliverables import TooMuch, changed_files, contents, refusal_of
from orchestrator.workspaces.git import Git
from tests.fakes.repositories import commit, git, repository


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    repository(tmp_path / "repo")
    return tmp_path / "repo"


def own(repo: Path) -> Git:
    return Git.own(repo / ".git")


def head(repo: Path) -> str:
    return git(repo, "rev-parse", "HEAD")


def read(repo: Path, base: str) -> dict[str, bytes]:
    """Every changed file with its content."""
    found = changed_files(own(repo), base, head(repo))
    return {file.name: b"".join(pieces) for file, pieces in contents(own(repo), found.files)}


def test_added_and_changed_files_are_read_as_the_commit_has_them(repo: Path) -> None:
    commit(repo, {"kept.txt": "as it was", "changed.txt": "old", "gone.txt": "away"})
    base = head(repo)
    (repo / "gone.txt").unlink()
    git(repo, "add", "-A")
    commit(repo, {"changed.txt": "new", "docs/planning/01_idea.md": "# Idea\n", "한국어.md": "안녕", "empty": ""})
    (repo / "changed.txt").write_text("not committed")
    assert read(repo, base) == {
        "changed.txt": b"new",
        "docs/planning/01_idea.md": b"# Idea\n",
        "empty": b"",
        "한국어.md": "안녕".encode(),
    }


def test_links_and_submodules_are_left_out_and_named(repo: Path, tmp_path: Path) -> None:
    base = head(repo)
    secret = tmp_path / "secret"
    secret.write_text("outside")
    (repo / "link").symlink_to(secret)
    (repo / "run.sh").write_text("true\n")
    (repo / "run.sh").chmod(0o755)
    git(repo, "add", "-A")
    git(repo, "update-index", "--add", "--cacheinfo", f"160000,{base},module")
    git(repo, "commit", "--quiet", "-m", "hostile")
    found = changed_files(own(repo), base, head(repo))
    assert [(file.name, file.is_executable) for file in found.files] == [("run.sh", True)]
    assert found.left_out == ("link: it is a link", "module: it is a submodule")


def test_a_name_that_a_hand_made_tree_leads_out_with_is_left_out(repo: Path) -> None:
    base = head(repo)
    blob = git(repo, "rev-parse", "HEAD:a.txt")
    raw = bytes.fromhex(blob)
    inner = tree(repo, b"100644 passwd\0" + raw)
    names = (b"..", b".git", b"C:evil", b"a\\b", b"new\nline", b"\xff")
    rows = b"".join(b"40000 " + name + b"\0" + bytes.fromhex(inner) for name in sorted(names))
    made = git(repo, "commit-tree", "-m", "hostile", "-p", base, tree(repo, rows))
    found = changed_files(own(repo), base, made)
    assert found.files == ()
    assert len(found.left_out) == len(names)
    assert all(line.isprintable() for line in found.left_out)


def tree(repo: Path, content: bytes) -> str:
    """A tree object with exactly this content, whatever git thinks of it."""
    command = ["git", "-C", str(repo), "hash-object", "-t", "tree", "-w", "--stdin", "--literally"]
    return subprocess.run(command, input=content, capture_output=True, check=True).stdout.decode().strip()


@pytest.mark.parametrize(
    ("name", "refused"),
    [
        ("docs/planning/01_idea.md", False),
        ("a b/c…d.txt", False),
        ("../x", True),
        ("/etc/passwd", True),
        ("a//b", True),
        ("a/./b", True),
        ("a/..", True),
        ("a\\..\\b", True),
        ("c:x", True),
        ("x/.GIT/config", True),
        ("a\x1b[2J", True),
        ("a\u202eb", True),
        ("a" * 256, True),
        ("/".join(["a" * 250] * 20), True),
        ("", True),
    ],
)
def test_a_name_stands_in_an_archive_only_if_it_stays_there(name: str, refused: bool) -> None:
    assert bool(refusal_of(name)) is refused


@pytest.mark.parametrize(("limit", "at_most"), [("MOST_FILES", 2), ("MOST_BYTES", 20)])
def test_more_than_an_archive_holds_is_refused_before_anything_is_sent(
    repo: Path, monkeypatch: pytest.MonkeyPatch, limit: str, at_most: int
) -> None:
    monkeypatch.setattr(deliverables, limit, at_most)
    base = head(repo)
    commit(repo, {f"{number}.txt": "ten bytes." for number in range(3)})
    with pytest.raises(TooMuch, match="an archive holds"):
        changed_files(own(repo), base, head(repo))


def test_a_large_file_passes_in_pieces(repo: Path) -> None:
    base = head(repo)
    commit(repo, {"large.txt": "0123456789abcdef" * 200_000, "small.txt": "after it"})
    found = changed_files(own(repo), base, head(repo))
    sizes = {file.name: [len(piece) for piece in pieces] for file, pieces in contents(own(repo), found.files)}
    assert max(sizes["large.txt"]) <= deliverables.CHUNK
    assert {name: sum(parts) for name, parts in sizes.items()} == {"large.txt": 3_200_000, "small.txt": 8}


def test_an_object_that_is_gone_ends_the_reading_with_its_name(repo: Path) -> None:
    base = head(repo)
    commit(repo, {"a.txt": "some text"})
    found = changed_files(own(repo), base, head(repo))
    blob = found.files[0].blob
    (repo / ".git/objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(WorkspaceError, match=r"a\.txt"):
        list(contents(own(repo), found.files))


def test_an_abandoned_reading_leaves_no_process(repo: Path) -> None:
    base = head(repo)
    commit(repo, {"a.txt": "some text", "b.txt": "more"})
    found = changed_files(own(repo), base, head(repo))
    with own(repo).talk("cat-file", "--batch") as process:
        assert process.poll() is None
    assert process.poll() is not None
    reading = contents(own(repo), found.files)
    next(reading)
    assert isinstance(reading, Iterator)
    reading.close()  # type: ignore[attr-defined]  # it is a generator
    assert next(reading, None) is None
