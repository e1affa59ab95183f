"""The trash: whatever a crash interrupts is whole or gone afterwards, and each removal is in the log once."""

import errno
import os
import stat
from collections.abc import Mapping
from pathlib import Path

import orjson
import pytest

from orchestrator.formats.codec import JsonObject
from orchestrator.storage.removal.log import NAME, RemovalLog
from orchestrator.storage.removal.trash import CONTENT, RECORD, Discard, Trash

PROOF: JsonObject = {"at": "2026-11-23T05:00:00.000Z", "kind": "worktrees", "task": "T-1", "bytes": 3}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for name in ("worktrees/T-1", "checkouts/T-1"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "file").write_text("abc")
    return tmp_path


def empty(trash: Trash) -> None:
    for _ in trash.emptying():
        pass


def paths(data: Path) -> list[Path]:
    return [data / "worktrees/T-1", data / "checkouts/T-1"]


def test_what_is_discarded_is_gone_at_once_and_logged_once(data: Path) -> None:
    trash = Trash(data)
    trash.discard_all([Discard(paths=paths(data), record=PROOF)])
    assert not any(path.exists() for path in paths(data))
    empty(trash)
    assert list(trash.folder.iterdir()) == []
    (line,) = Trash(data).removals.since("2026")
    assert {name: line[name] for name in PROOF} == PROOF
    assert trash.removals.since("2026-11-24") == []


def test_what_people_remove_is_not_in_the_log(data: Path) -> None:
    trash = Trash(data)
    trash.discard(paths(data))
    empty(trash)
    assert trash.removals.since("") == []


@pytest.mark.parametrize("moved", [0, 1, 2])
def test_a_crash_between_two_renames_leaves_all_or_nothing(
    data: Path, monkeypatch: pytest.MonkeyPatch, moved: int
) -> None:
    trash, rename, done = Trash(data), Path.rename, list[Path]()

    def until_killed(path: Path, target: Path) -> Path:
        if len(done) == moved:
            raise KeyboardInterrupt
        done.append(path)
        return rename(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", until_killed)
        if moved < 2:
            with pytest.raises(KeyboardInterrupt):
                trash.discard_all([Discard(paths=paths(data), record=PROOF)])
        else:
            trash.discard_all([Discard(paths=paths(data), record=PROOF)])
    again = Trash(data)
    empty(again)
    empty(again)
    assert [path.exists() for path in paths(data)] == ([True, True] if moved == 0 else [False, False])
    assert len(again.removals.since("")) == (0 if moved == 0 else 1)
    assert list(again.folder.iterdir()) == []


def test_a_crash_while_it_is_emptied_logs_nothing_twice(data: Path) -> None:
    trash = Trash(data)
    trash.discard_all([Discard(paths=paths(data), record=PROOF)])
    (entry,) = trash.folder.iterdir()
    for path in (entry / CONTENT).iterdir():
        (path / "file").unlink()
        path.rmdir()
    empty(Trash(data))
    assert len(trash.removals.since("")) == 1
    assert list(trash.folder.iterdir()) == []


def test_a_record_that_leads_out_of_the_data_folder_moves_nothing(data: Path) -> None:
    trash = Trash(data / "inner")
    entry = trash.folder / "planted"
    (entry / CONTENT / "0-x").mkdir(parents=True)
    (entry / RECORD).write_text('{"paths": ["../worktrees/T-1", "/etc/hostname"]}')
    empty(trash)
    assert (data / "worktrees/T-1").is_dir()
    assert Path("/etc/hostname").exists()
    assert not entry.exists()


def test_a_folder_that_is_not_writable_is_made_so_and_what_a_link_leads_to_stays_as_it_is(data: Path) -> None:
    """A folder cannot be moved otherwise, except by the superuser."""
    outside, link = data / "outside", data / "worktrees/link"
    outside.mkdir(mode=0o555)
    link.symlink_to(outside)
    (data / "worktrees/T-1").chmod(0o555)
    trash = Trash(data)
    trash.discard([data / "worktrees/T-1", link])
    (moved,) = trash.folder.glob(f"*/{CONTENT}/0-T-1")
    assert stat.S_IMODE(moved.stat().st_mode) == 0o700
    assert stat.S_IMODE(outside.stat().st_mode) == 0o555
    empty(trash)
    assert list(trash.folder.iterdir()) == []
    assert outside.is_dir()


@pytest.mark.parametrize(("full", "lines"), [(("add",), 1), (("record",), 1), (("add", "record"), 0)])
def test_a_disk_that_is_too_full_for_the_log_is_freed_all_the_same(
    data: Path, monkeypatch: pytest.MonkeyPatch, full: tuple[str, ...], lines: int
) -> None:
    add = RemovalLog.add

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def add_if_freed(log: RemovalLog, records: Mapping[str, JsonObject]) -> None:
        if any(trash.folder.glob(f"*/{CONTENT}/*")):
            refuse()
        add(log, records)

    trash = Trash(data)
    with monkeypatch.context() as patch:
        if "add" in full:
            patch.setattr(RemovalLog, "add", add_if_freed)
        if "record" in full:
            patch.setattr("orchestrator.storage.removal.trash.write_atomically", refuse)
        trash.discard_all([Discard(paths=paths(data), record=PROOF)])
        empty(trash)
    assert list(trash.folder.iterdir()) == []
    assert not any(path.exists() for path in paths(data))
    assert len(trash.removals.since("")) == lines


def worktrees(data: Path, number: int) -> list[Discard]:
    """Make worktrees with checkouts; return that they are to be removed."""
    several = []
    for count in range(number):
        folders = [data / f"{kind}/M-{count}" for kind in ("worktrees", "checkouts")]
        for folder in folders:
            folder.mkdir(parents=True)
            (folder / "file").write_text("abc")
        several.append(Discard(paths=folders, record={**PROOF, "task": f"M-{count}"}))
    return several


def test_several_removals_wait_for_the_disk_together_and_each_has_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[int] = []
    several = worktrees(tmp_path, 20)
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, waits.append)
    trash = Trash(tmp_path)
    there = trash.discard_all([*several, Discard(paths=[tmp_path / "worktrees/none"], record=PROOF)])
    assert there == [True] * 20 + [False]
    assert len(waits) < 8
    empty(trash)
    assert [line["task"] for line in trash.removals.since("")] == [f"M-{count}" for count in range(20)]
    assert list(trash.folder.iterdir()) == []


def test_a_crash_within_several_removals_completes_the_one_that_had_begun_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    several, rename, done = worktrees(tmp_path, 3), Path.rename, list[Path]()

    def until_killed(path: Path, target: Path) -> Path:
        if len(done) == 3:
            raise KeyboardInterrupt
        done.append(path)
        return rename(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", until_killed)
        with pytest.raises(KeyboardInterrupt):
            Trash(tmp_path).discard_all(several)
    again = Trash(tmp_path)
    empty(again)
    empty(again)
    assert [[path.exists() for path in one.paths] for one in several] == [[False] * 2, [False] * 2, [True] * 2]
    assert [line["task"] for line in again.removals.since("")] == ["M-0", "M-1"]


def test_an_entry_of_an_older_version_is_completed(data: Path) -> None:
    trash = Trash(data)
    entry = trash.folder / "abcd1234"
    (entry / CONTENT).mkdir(parents=True)
    (data / "worktrees/T-1").rename(entry / CONTENT / "0-T-1")
    (entry / RECORD).write_bytes(orjson.dumps({**PROOF, "paths": ["worktrees/T-1", "checkouts/T-1"]}))
    empty(trash)
    assert not any(path.exists() for path in paths(data))
    (line,) = trash.removals.since("")
    assert (line["id"], "paths" in line) == ("abcd1234", False)
    assert list(trash.folder.iterdir()) == []


def test_a_disk_too_full_for_a_folder_is_freed_all_the_same(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent's file of the name of a record says nothing there."""
    (data / "worktrees/T-1" / RECORD).write_text('{"paths": ["worktrees/T-2"]}')
    (data / "worktrees/T-2").mkdir()
    (data / "worktrees/link").symlink_to(data / "worktrees/T-2")
    trash = Trash(data)
    trash.prepare()

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "mkdir", refuse)
        trash.discard_all([Discard(paths=paths(data), record=PROOF)])
        trash.discard([data / "worktrees/link"])
        assert not any(path.exists() for path in paths(data))
        assert len(list(trash.folder.iterdir())) == 3
        empty(Trash(data))
    assert list(trash.folder.iterdir()) == []
    assert (data / "worktrees/T-2").is_dir()
    assert [line["task"] for line in trash.removals.since("")] == ["T-1"]


def test_half_a_line_that_a_power_cut_left_spoils_no_other(tmp_path: Path) -> None:
    log = RemovalLog(tmp_path)
    log.add({"a": PROOF})
    with (tmp_path / NAME).open("ab") as file:
        file.write(b'{"format": 1, "id": "b", "at')
    log.add({"c": PROOF, "d": PROOF})
    assert [line["id"] for line in log.since("")] == ["a", "c", "d"]
