"""Folders of strangers: deep, locked, linked and full ones are measured and removed, and nothing outside is touched."""

import os
from pathlib import Path

from orchestrator.formats.disk import trees
from orchestrator.formats.disk.trees import remove_tree, removing, usage_of


def deep(folder: Path, depth: int) -> None:
    """Make folders in folders, deeper than a path can name."""
    folder.mkdir()
    descriptor = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("a-folder-in-a-folder", dir_fd=descriptor)
        inner = os.open("a-folder-in-a-folder", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=descriptor))
    os.close(descriptor)


def test_folders_too_deep_for_a_path_are_removed_and_measured_with_a_note(tmp_path: Path) -> None:
    deep(tmp_path / "deep", 1500)
    usage = usage_of(tmp_path / "deep")
    assert not usage.complete
    assert usage.files > 100
    remove_tree(tmp_path / "deep")
    assert list(tmp_path.iterdir()) == []


def test_locked_folders_are_removed_and_links_are_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    inner = tmp_path / "tree/locked/inner"
    inner.mkdir(parents=True)
    (inner / "file").write_text("x")
    (tmp_path / "tree/link").symlink_to(outside)
    os.mkfifo(tmp_path / "tree/fifo")
    inner.chmod(0)
    inner.parent.chmod(0o500)
    remove_tree(tmp_path / "tree")
    assert [path.name for path in tmp_path.iterdir()] == ["outside"]
    assert (outside / "kept").read_text() == "kept"


def test_a_removal_that_was_stopped_goes_on(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for number in range(30):
        folder = tree / f"folder-{number}"
        folder.mkdir(parents=True)
        for name in range(100):
            (folder / str(name)).touch()
    next(removing(tree))  # and no further, as a crash leaves it
    assert tree.is_dir()
    remove_tree(tree)
    assert not tree.exists()


def test_hard_links_count_once_and_links_not_at_all(tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(b"x" * 1_000_000)
    tree = tmp_path / "tree"
    tree.mkdir()
    empty = usage_of(tree).size
    (tree / "one").write_bytes(b"x" * 1_000_000)
    os.link(tree / "one", tree / "two")
    (tree / "link").symlink_to(tmp_path / "big")
    usage = usage_of(tree)
    assert usage.files == 4
    assert 1_000_000 <= usage.size - empty < 1_100_000
    assert usage.complete


def test_more_files_than_are_counted_are_noted(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"folder-{number}").mkdir()
        (tmp_path / f"folder-{number}/file").touch()
    assert not usage_of(tmp_path, most=10).complete
    assert usage_of(tmp_path).files == 41
    assert usage_of(tmp_path / "missing") == trees.NOTHING
