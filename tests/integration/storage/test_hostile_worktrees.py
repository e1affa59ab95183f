"""Backups of what agents do in their worktrees and sessions to get more, or less, into them."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from orchestrator.storage.backup.making import BackupMade, BackupOrder, make_backup
from tests.integration.storage.test_backup import NOW, names, restore, write

NOBODY = 65534


@pytest.fixture
def data(tmp_path: Path) -> Path:
    write(tmp_path / "data/tasks/T/journal.jsonl", b'{"seq": 1, "metadata": {"attempt": 1}}\n')
    write(tmp_path / "data/vault.key", b"the key")
    write(tmp_path / "data/worktrees/T/a.py", b"work")
    write(tmp_path / "home/.ssh/id_rsa", b"private")
    return tmp_path / "data"


def backup_of(data: Path) -> tuple[Path, BackupMade]:
    target = data.parent / "backup.tar.zst"
    return target, make_backup(BackupOrder(data_dir=data, at=NOW), target)


@pytest.mark.parametrize("place", [".git", ".git/objects", ".git/objects/pack", ".git/refs", "src"])
@pytest.mark.parametrize("target", ["home", "data", "home/.ssh/id_rsa"])
def test_no_link_in_a_worktree_is_followed(place: str, target: str, data: Path) -> None:
    link = data / "worktrees/T" / place
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(data.parent / target)
    file, _ = backup_of(data)
    assert not {name for name in names(file) if "id_rsa" in name or "vault.key" in name}
    done = restore(file, data.parent)
    found = [path.read_bytes() for path in done.rglob("*") if path.is_file() and not path.is_symlink()]
    assert not {b"private", b"the key"} & set(found)
    assert b"work" in found


def test_no_link_in_the_sessions_of_an_agent_is_followed(data: Path) -> None:
    write(data / "tasks/T/claude/projects/one.jsonl", b"{}\n")
    (data / "tasks/T/claude/projects/ssh").symlink_to(data.parent / "home/.ssh")
    (data / "tasks/T/claude/todos").symlink_to(data)
    file, _ = backup_of(data)
    found = names(file)
    assert "data/tasks/T/claude/projects/one.jsonl" in found
    assert not {name for name in found if "id_rsa" in name or "vault.key" in name or "todos" in name}


def test_a_folder_that_becomes_a_link_while_it_is_copied_is_not_followed(data: Path) -> None:
    for number in range(3):
        write(data / f"worktrees/T/{number}/id_rsa", b"work")
    swapped: list[int] = []

    def swap(_files: int, _size: int, _whole: int) -> None:
        if not swapped and (data / "worktrees/T/2").is_dir():
            swapped.append(1)
            (data / "worktrees/T/2").rename(data / "worktrees/T/moved")
            (data / "worktrees/T/2").symlink_to(data.parent / "home/.ssh")

    target = data.parent / "backup.tar.zst"
    make_backup(BackupOrder(data_dir=data, at=NOW, tell=swap), target)
    assert swapped
    done = restore(target, data.parent)
    assert {path.read_bytes() for path in done.glob("worktrees/T/[01]/id_rsa")} == {b"work"}
    assert (done / "worktrees/T/2").is_symlink()


def test_the_key_is_left_out_under_another_name_too(data: Path) -> None:
    (data / "worktrees/T/other").hardlink_to(data / "vault.key")
    file, made = backup_of(data)
    assert "data/worktrees/T/other" not in names(file)
    assert made.unreadable == ("worktrees/T/other",)


@pytest.mark.parametrize("place", ["src", ".git", ".git/objects", ".git/objects/pack"])
def test_a_folder_that_an_agent_closed_is_noted_and_the_rest_is_copied(place: str) -> None:
    with root_of_an_ordinary_user() as root:
        write(root / "data/tasks/T/journal.jsonl", b'{"seq": 1, "metadata": {"attempt": 1}}\n')
        write(root / "data/worktrees/T" / place / "within", b"")
        write(root / "data/worktrees/T/z.py", b"work")
        (root / "data/worktrees/T" / place).chmod(0)
        made = made_by_an_ordinary_user(root)
        (root / "data/worktrees/T" / place).chmod(0o700)
        assert made["unreadable"][0] == f"worktrees/T/{place}"
        found = names(root / "backup.tar.zst")
        assert "data/worktrees/T/z.py" in found
        assert not {name for name in found if name.endswith("within")}


def test_files_with_large_holes_are_noted_and_not_read(data: Path) -> None:
    for name, size in (("small", 1 << 20), ("huge", 1 << 43)):
        write(data / "worktrees/T" / name, b"")
        os.truncate(data / "worktrees/T" / name, size)
    file, made = backup_of(data)
    assert made.unreadable == ("worktrees/T/huge",)
    assert {"data/worktrees/T/small", "data/worktrees/T/a.py"} <= names(file)


def test_an_unreadable_file_may_have_any_name(data: Path) -> None:
    name = os.fsencode(data / "worktrees/T") + b"/\xff\x1b[2J"
    os.link(data / "vault.key", name)
    file, made = backup_of(data)
    assert made.unreadable == (r"worktrees/T/\udcff\x1b[2J",)
    restore(file, data.parent)


@contextmanager
def root_of_an_ordinary_user() -> Iterator[Path]:
    """A folder that an ordinary user can reach, whoever runs the tests."""
    with tempfile.TemporaryDirectory() as root:
        Path(root).chmod(0o755)
        yield Path(root)


def made_by_an_ordinary_user(root: Path) -> dict[str, list[str]]:
    """Make a backup as a user to whom a closed folder is closed, and return what was noted."""
    if os.geteuid() == 0:
        for path in (root, *root.rglob("*")):
            os.chown(path, NOBODY, NOBODY)
    script = (
        "import json, os, sys; from datetime import UTC, datetime; from pathlib import Path;"
        "from orchestrator.storage.backup.making import BackupOrder, make_backup;"
        f"os.geteuid() or os.setgroups([]) or os.setgid({NOBODY}) or os.setuid({NOBODY});"
        "root = Path(sys.argv[1]);"
        "made = make_backup(BackupOrder(data_dir=root / 'data', at=datetime.now(UTC)), root / 'backup.tar.zst');"
        "print(json.dumps({'unreadable': list(made.unreadable)}))"
    )
    done = subprocess.run([sys.executable, "-c", script, str(root)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found
