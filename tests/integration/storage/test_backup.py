"""Backups as files: whole, private, bounded; and archives that somebody made to do harm."""

import io
import json
import os
import tarfile
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import pytest
import zstandard

from orchestrator.daemon.backup.restoring import FolderNotEmpty, restore_backup
from orchestrator.formats.codec import JsonObject
from orchestrator.storage.backup.archive import ArchiveWriter, BackupError, DamagedBackup, Source, manifest_line
from orchestrator.storage.backup.contents import Part
from orchestrator.storage.backup.making import BackupExists, BackupOrder, make_backup
from orchestrator.storage.backup.reading import list_backup, verify_backup
from orchestrator.storage.backup.snapshot import Snapshot
from tests.acceptance.harness import Json
from tests.fakes.ended_tasks import EndedTasks

NOW = datetime(2026, 11, 23, 5, tzinfo=UTC)
HEADER: JsonObject = {
    "format": 1,
    "program": "0.1.0",
    "host": "there",
    "created_at": "2026-11-23T05:00:00Z",
    "data_dir": "/old",
}


def entry(name: str, content: bytes = b"", **more: object) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for key, value in more.items():
        setattr(info, key, value)
    return info, content


def archive(*entries: tuple[tarfile.TarInfo, bytes], manifest: bytes | None = None) -> io.BytesIO:
    """An archive with these entries, and a manifest that vouches for them."""
    made, lines, size = io.BytesIO(), b"", 0
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for info, content in (entry("backup.json", json.dumps(HEADER).encode()), *entries):
            tar.addfile(info, io.BytesIO(content))
            if info.isreg():
                lines += manifest_line(info.name, info.size, sha256(content).hexdigest())
                size += info.size
        last = json.dumps({"files": len(entries), "bytes": size}).encode() + b"\n"
        tar.addfile(*both(entry("manifest.jsonl", lines + last if manifest is None else manifest)))
    return io.BytesIO(zstandard.compress(made.getvalue()))


def both(one: tuple[tarfile.TarInfo, bytes]) -> tuple[tarfile.TarInfo, io.BytesIO]:
    return one[0], io.BytesIO(one[1])


@pytest.mark.parametrize(
    "hostile",
    [
        entry("../escaped", b"x"),
        entry("/tmp/escaped", b"x"),
        entry("data/../../escaped", b"x"),
        entry("data/tasks/./a", b"x"),
        entry("elsewhere/a", b"x"),
        entry("data/tasks/T/link", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
        entry("data/tasks/T/link", type=tarfile.SYMTYPE, linkname="../../signing.key"),
        entry("data/tasks", type=tarfile.SYMTYPE, linkname="/etc"),
        entry("data/worktrees/T", type=tarfile.SYMTYPE, linkname="/etc"),
        entry("data/repos/tasks/T", type=tarfile.SYMTYPE, linkname="../../../elsewhere"),
        entry("data/hard", type=tarfile.LNKTYPE, linkname="/etc/passwd"),
        entry("data/device", type=tarfile.CHRTYPE, devmajor=1, devminor=3),
        entry("data/pipe", type=tarfile.FIFOTYPE),
        entry("data/" + "d/" * 300 + "deep", b"x"),
        entry("data/x", b"x", pax_headers={"GNU.sparse.major": "1", "comment": "x" * 100}),
        entry("data/x", b"x", pax_headers={"comment": "x" * 9_000_000}),
    ],
)
def test_an_entry_that_no_backup_has_is_refused_and_nothing_is_left(
    hostile: tuple[tarfile.TarInfo, bytes], tmp_path: Path
) -> None:
    target = tmp_path / "within" / "new"
    with pytest.raises(BackupError):
        restore_backup(archive(entry("data/tasks", type=tarfile.DIRTYPE), hostile), target, NOW)
    assert not target.exists()
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["within"]


def test_a_file_behind_a_link_is_refused(tmp_path: Path) -> None:
    link = entry("data/worktrees/T/out", type=tarfile.SYMTYPE, linkname=str(tmp_path))
    with pytest.raises(DamagedBackup, match="twice"):
        restore_backup(archive(link, entry("data/worktrees/T/out/escaped", b"x")), tmp_path / "new", NOW)
    assert list(tmp_path.iterdir()) == []


def test_an_entry_that_comes_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DamagedBackup, match="twice"):
        restore_backup(archive(entry("data/a", b"x"), entry("data/a", b"y")), tmp_path / "new", NOW)


def test_an_archive_with_nothing_wrong_is_restored(tmp_path: Path) -> None:
    done = restore_backup(
        archive(entry("data/tasks", type=tarfile.DIRTYPE), entry("data/a", b"x")), tmp_path / "new", NOW
    )
    assert (done.data_dir / "a").read_bytes() == b"x"


def test_the_first_versions_of_python_3_11_restore_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("data_filter", "tar_filter", "fully_trusted_filter"):  # they came with 3.11.4; Debian 12 has 3.11.2
        monkeypatch.delattr(tarfile, name)
    whole = archive(entry("data/tasks", type=tarfile.DIRTYPE), entry("data/a", b"x"))
    assert (restore_backup(whole, tmp_path / "new", NOW).data_dir / "a").read_bytes() == b"x"


def test_a_file_that_differs_from_the_manifest_is_refused() -> None:
    header = json.dumps(HEADER).encode()
    forged = manifest_line("backup.json", len(header), sha256(header).hexdigest())
    forged += manifest_line("data/a", 1, sha256(b"y").hexdigest())
    with pytest.raises(DamagedBackup, match="data/a is not what the manifest says"):
        verify_backup(archive(entry("data/a", b"x"), manifest=forged))


def test_zeros_without_end_take_no_disk(tmp_path: Path) -> None:
    big = 300 * 1024**2
    with tempfile.TemporaryFile() as manifest, tempfile.TemporaryFile() as zeros, tempfile.TemporaryFile() as file:
        zeros.truncate(big)
        writer = ArchiveWriter(file, manifest, {**HEADER, "data_dir": "/old"})
        writer.add_folder("data/tasks", 0o700, 0)
        writer.add_file(Source("data/zeros", zeros.fileno(), big, 0o600, 0))
        writer.finish({})
        file.seek(0)
        restore_backup(file, tmp_path / "new", NOW)
    found = (tmp_path / "new/zeros").stat()
    assert (found.st_size, found.st_blocks) == (big, 0)


@pytest.mark.parametrize("keep", [0, 5, 100, 0.5, 0.9, -2000])
def test_a_backup_that_was_cut_off_is_recognised(keep: float, tmp_path: Path) -> None:
    whole = made(tmp_path).read_bytes()
    cut = whole[: int(keep * len(whole)) if 0 < keep < 1 else int(keep)]
    with pytest.raises(BackupError):
        verify_backup(io.BytesIO(cut))


def test_a_byte_that_was_changed_is_recognised(tmp_path: Path) -> None:
    whole = bytearray(made(tmp_path).read_bytes())
    for at in range(0, len(whole), len(whole) // 40):
        changed = bytearray(whole)
        changed[at] ^= 0x55
        try:
            verify_backup(io.BytesIO(changed))
        except BackupError:
            continue
        pytest.fail(f"byte {at} was changed, and nobody saw it")


def test_a_backup_of_a_later_format_names_the_program_that_reads_it() -> None:
    header = entry("backup.json", json.dumps({**HEADER, "format": 99, "program": "7.1"}).encode())
    later = io.BytesIO()
    with tarfile.open(fileobj=later, mode="w") as tar:
        tar.addfile(*both(header))
    with pytest.raises(BackupError, match=r"format 99, which orchestrator 7\.1 wrote"):
        verify_backup(io.BytesIO(zstandard.compress(later.getvalue())))


def test_a_backup_is_private_appears_whole_and_replaces_nothing(tmp_path: Path) -> None:
    target = made(tmp_path)
    assert target.stat().st_mode & 0o777 == 0o600
    before = target.read_bytes()
    with pytest.raises(BackupExists, match="--force"):
        make_backup(BackupOrder(data_dir=tmp_path / "data", at=NOW), target)
    assert target.read_bytes() == before
    assert [path.name for path in target.parent.iterdir()] == [target.name]


def test_a_backup_needs_space_before_it_begins(tmp_path: Path) -> None:
    folder(tmp_path)
    order = BackupOrder(data_dir=tmp_path / "data", at=NOW, floor=1 << 60)
    with pytest.raises(BackupError, match="must stay so"):
        make_backup(order, tmp_path / "full.tar.zst")
    assert not list(tmp_path.glob("*full*"))


def test_a_backup_does_not_lie_in_what_it_copies(tmp_path: Path) -> None:
    folder(tmp_path)
    with pytest.raises(BackupError, match="in the data folder itself"):
        make_backup(BackupOrder(data_dir=tmp_path / "data", at=NOW), tmp_path / "data/copy.tar.zst")


def test_keys_locks_sockets_and_what_is_made_anew_are_left_out(tmp_path: Path) -> None:
    data = folder(tmp_path)
    for name in ("vault.key", "lock", "alive", "login/.credentials.json", "checkouts/T/a", "tasks/T/agents/1/lock"):
        write(data / name, b"not for others")
    os.mkfifo(data / "tasks/T/agents/1/control")
    write(data / "worktrees/T/poetry.lock", b"a file of the user's")
    write(data / "worktrees/T/.git/index.lock", b"")
    found = names(made(tmp_path))
    assert {name for name in found if "lock" in name} == {"data/worktrees/T/poetry.lock"}
    assert not {
        name for name in found if "vault" in name or "login" in name or "checkouts" in name or "control" in name
    }
    assert {"data/signing.key", "data/access.json", "data/tasks/T/journal.jsonl"} <= found


def test_a_journal_ends_with_its_last_whole_line(tmp_path: Path) -> None:
    journal = folder(tmp_path) / "tasks/T/journal.jsonl"
    with journal.open("ab") as file:
        file.write(b'{"seq": 3, "torn')
    done = restore(made(tmp_path), tmp_path)
    assert (done / "tasks/T/journal.jsonl").read_bytes() == journal.read_bytes()[: -len(b'{"seq": 3, "torn')]


def test_a_task_that_decides_while_it_is_copied_is_copied_again(tmp_path: Path) -> None:
    data = folder(tmp_path)
    write(data / "tasks/T/agents/2/stdin.jsonl", b"{}\n")
    seen: list[int] = []

    def decide(files: int, _size: int) -> None:
        if not seen and (data / "tasks/T").exists() and files > 3:
            seen.append(files)
            append(data, {"seq": 3, "metadata": {"attempt": 2, "status": "in_progress"}})

    done = restore(taken(data, tmp_path, decide), tmp_path)
    assert [line["seq"] for line in lines(done)] == [1, 2, 3]
    assert (done / "tasks/T/agents/2/stdin.jsonl").exists()


def test_what_a_journal_cannot_know_is_left_out_of_a_task_that_never_rests(tmp_path: Path) -> None:
    data = folder(tmp_path)
    write(data / "tasks/T/state.json", b"{}")
    write(data / "tasks/T/agents/1/stdin.jsonl", b"{}\n")
    seq = [2]

    def decide(_files: int, _size: int) -> None:
        seq[0] += 1
        write(data / f"tasks/T/agents/{seq[0]}/stdin.jsonl", b"{}\n")
        append(data, {"seq": seq[0], "metadata": {"attempt": seq[0], "status": "in_progress"}})

    file = taken(data, tmp_path, decide)
    done = restore(file, tmp_path)
    last = lines(done)[-1]["seq"]
    attempts = [int(path.name) for path in (done / "tasks/T/agents").iterdir()]
    assert max(attempts) <= last
    assert not (done / "tasks/T/state.json").exists()


def test_a_task_that_has_ended_gets_the_state_that_the_backup_left_out(tmp_path: Path) -> None:
    ended = EndedTasks(tmp_path / "data", tmp_path / "repo")
    ended.without_git("T", days=1)
    ended.close()
    task = ended.data / "tasks/T"
    before = json.loads((task / "state.json").read_bytes())
    (task / "state.json").unlink()
    done = restore(made(tmp_path), tmp_path) / "tasks/T"
    after = json.loads((done / "state.json").read_bytes())
    assert all(after[name] == before[name] for name in ("task_id", "status", "seq", "journal_bytes"))
    assert {file.name for file in done.iterdir()} - {file.name for file in task.iterdir()} == {"state.json"}


def test_worktrees_can_be_left_out(tmp_path: Path) -> None:
    write(folder(tmp_path) / "worktrees/T/a.py", b"")
    file = made(tmp_path, exclude=frozenset({Part.WORKTREES}))
    assert not [name for name in names(file) if "worktrees" in name]


def test_links_that_led_into_the_old_folder_lead_into_the_new_one(tmp_path: Path) -> None:
    data = folder(tmp_path)
    write(data / "worktrees/T/bin/tool", b"")
    (data / "worktrees/T/inside").symlink_to(data / "worktrees/T/bin")
    (data / "worktrees/T/outside").symlink_to("/usr/bin/env")
    (data / "worktrees/T/beside").symlink_to("bin/tool")
    done = restore(made(tmp_path), tmp_path)
    leads = {name: str((done / "worktrees/T" / name).readlink()) for name in ("inside", "outside", "beside")}
    assert leads == {"inside": str(done / "worktrees/T/bin"), "outside": "/usr/bin/env", "beside": "bin/tool"}


@pytest.mark.parametrize("content", ["tasks", "notes.txt"])
def test_nothing_is_restored_over_anything(content: str, tmp_path: Path) -> None:
    folder(tmp_path)
    write(tmp_path / "used" / content, b"mine")
    with made(tmp_path).open("rb") as file, pytest.raises(FolderNotEmpty):
        restore_backup(file, tmp_path / "used", NOW)
    assert [path.name for path in (tmp_path / "used").iterdir()] == [content]


def test_a_ticket_that_was_never_accepted_is_nothing_to_do(tmp_path: Path) -> None:
    data = folder(tmp_path)
    write(data / "tasks/U/ticket.json", b"{}")
    with made(tmp_path).open("rb") as file:
        done = restore_backup(file, tmp_path / "restored", NOW)
    assert not [problem for problem in done.problems if "folder U " in problem]


def test_a_restored_folder_is_another_one_and_says_whose_copy_it_is(tmp_path: Path) -> None:
    write(folder(tmp_path) / "format", json.dumps({"format": 2, "program": "0.1.0", "id": "first"}).encode())
    done = restore(made(tmp_path), tmp_path)
    said = json.loads((done / "format").read_bytes())
    assert said["id"] != "first"
    assert said["restored_from"]["id"] == "first"
    assert said["restored_from"]["data_dir"] == str(tmp_path / "data")


def folder(root: Path) -> Path:
    """A small data folder with one task; the same one if it is there."""
    data = root / "data"
    if not data.exists():
        for name in ("signing.key", "access.json", "tasks/T/ticket.json"):
            write(data / name, os.urandom(32))
        append(data, {"seq": 1, "metadata": {"attempt": 1, "status": "in_progress"}})
        append(data, {"seq": 2, "metadata": {"attempt": 1, "status": "in_progress"}})
    return data


def append(data: Path, line: object) -> None:
    with (data / "tasks/T/journal.jsonl").open("ab") as journal:
        journal.write(json.dumps(line).encode() + b"\n")


def write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def made(root: Path, exclude: frozenset[Part] = frozenset()) -> Path:
    """A backup of that folder."""
    target = root / "out" / "backup.tar.zst"
    target.parent.mkdir(exist_ok=True)
    make_backup(BackupOrder(data_dir=folder(root), at=NOW, exclude=exclude), target)
    return target


def taken(data: Path, root: Path, tell: Callable[[int, int], None]) -> Path:
    """A backup during which something happens at every file."""
    target = root / "taken.tar.zst"
    with target.open("w+b") as file, tempfile.TemporaryFile() as manifest:
        writer = ArchiveWriter(file, manifest, {**HEADER, "data_dir": str(data)})
        Snapshot(data_dir=data, writer=writer, tell=tell).take()
        writer.finish({})
    return target


def restore(file: Path, root: Path) -> Path:
    with file.open("rb") as opened:
        return restore_backup(opened, root / "restored" / "data", NOW).data_dir


def lines(data: Path) -> list[Json]:
    return [json.loads(line) for line in (data / "tasks/T/journal.jsonl").read_bytes().splitlines()]


def names(file: Path) -> set[str]:
    found: list[str] = []
    with file.open("rb") as opened:
        list_backup(opened, lambda one: found.append(one.name))
    return set(found)
