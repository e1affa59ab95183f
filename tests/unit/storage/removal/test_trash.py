"""The trash: whatever a crash interrupts is whole or gone afterwards, and each removal is in the log once."""

import errno
import stat
from pathlib import Path

import pytest

from orchestrator.formats.codec import JsonObject
from orchestrator.storage.removal.log import RemovalLog
from orchestrator.storage.removal.trash import CONTENT, RECORD, Trash

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
    trash.discard(paths(data), PROOF)
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
                trash.discard(paths(data), PROOF)
        else:
            trash.discard(paths(data), PROOF)
    again = Trash(data)
    empty(again)
    empty(again)
    assert [path.exists() for path in paths(data)] == ([True, True] if moved == 0 else [False, False])
    assert len(again.removals.since("")) == (0 if moved == 0 else 1)
    assert list(again.folder.iterdir()) == []


def test_a_crash_while_it_is_emptied_logs_nothing_twice(data: Path) -> None:
    trash = Trash(data)
    trash.discard(paths(data), PROOF)
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


@pytest.mark.parametrize("full", [("add",), ("record",), ("add", "record")])
def test_a_disk_that_is_too_full_for_the_log_is_freed_all_the_same(
    data: Path, monkeypatch: pytest.MonkeyPatch, full: tuple[str, ...]
) -> None:
    add = RemovalLog.add

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def add_if_freed(log: RemovalLog, entry: str, record: JsonObject) -> None:
        if any((trash.folder / entry).glob(f"{CONTENT}/*")):
            refuse()
        add(log, entry, record)

    trash = Trash(data)
    with monkeypatch.context() as patch:
        if "add" in full:
            patch.setattr(RemovalLog, "add", add_if_freed)
        if "record" in full:
            patch.setattr("orchestrator.storage.removal.trash.write_atomically", refuse)
        trash.discard(paths(data), PROOF)
        empty(trash)
    assert list(trash.folder.iterdir()) == []
    assert not any(path.exists() for path in paths(data))
    assert len(trash.removals.since("")) == (0 if "record" in full else 1)
