"""Disks that refuse writes: nothing is left half written, and nothing is lost."""

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from orchestrator.core.events import events
from orchestrator.storage.journal import TaskFolderGone
from orchestrator.storage.records import StoreError
from orchestrator.storage.store import FolderStore
from tests.fakes.world import START
from tests.integration.storage.kept import (
    NAME_OF_TASK,
    a_task,
    decided,
    history,
    journal_of,
    numbers,
    opened_again,
    saved,
    state_of,
)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 256 KiB."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", place], check=False)
    if mounted.returncode:
        pytest.skip("a full disk can only be made by root, who may mount one")
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


def fill(place: Path, leave: int = 0) -> Path:
    """Fill a disk except for some pages."""
    ballast = place / "ballast"
    with ballast.open("wb", buffering=0) as file:
        with suppress(OSError):
            while file.write(bytes(4096)) == 4096:
                continue
        file.truncate(max(0, file.tell() - leave * 4096))
    return ballast


def test_on_a_full_disk_a_decision_is_refused_completely_and_accepted_once_there_is_space(small_disk: Path) -> None:
    store = FolderStore(small_disk / "data")
    tasks = history(store)
    ballast, content = fill(small_disk), journal_of(store).read_bytes()
    with pytest.raises(OSError, match="Errno 28"):
        decided(store, tasks[-1], feedback=("x" * 8192,))
    assert journal_of(store).read_bytes() == content
    assert not list(store.files.path_of(NAME_OF_TASK).glob(".*.partial"))
    assert store.load(NAME_OF_TASK).task == tasks[-1]
    ballast.unlink()
    after = decided(store, tasks[-1], feedback=("x" * 8192,))
    assert opened_again(store).task == after
    store.close()


def test_a_decision_holds_when_only_its_state_json_finds_no_space(small_disk: Path) -> None:
    store = FolderStore(small_disk / "data")
    task = history(store)[-1]
    ballast, old = fill(small_disk, leave=1), state_of(store).read_bytes()
    task = decided(store, task, feedback=("y",))
    assert state_of(store).read_bytes() == old, "the disk was not full"
    assert store.foreign_edits(task) == []
    store.save_checkpoint(task, saved(task, 1))
    with pytest.raises(OSError, match="Errno 28"):
        store.note_telemetry(task)
    assert opened_again(store).task == task, "a task is accepted on a full disk"
    ballast.unlink()
    task = decided(store, task, feedback=("z",))
    assert numbers(store) == list(range(1, task.seq + 1))
    assert opened_again(store).task == task
    store.close()


def test_a_task_without_space_to_be_created_leaves_nothing_and_can_be_created_later(small_disk: Path) -> None:
    store = FolderStore(small_disk / "data")
    task = a_task(store)
    store.files.path_of(task.id).mkdir(mode=0o700)
    ballast = fill(small_disk)
    with pytest.raises(OSError, match="Errno 28"):
        store.commit(None, task, events.TaskSubmitted(at=START, task=task))
    assert not list(store.files.path_of(task.id).iterdir())
    ballast.unlink()
    store.commit(None, task, events.TaskSubmitted(at=START, task=task))
    assert opened_again(store).task == task
    store.close()


def test_a_disk_that_became_read_only_refuses_decisions_and_loses_none(small_disk: Path) -> None:
    store = FolderStore(small_disk / "data")
    task = history(store)[-1]
    store.release(NAME_OF_TASK)
    store.close()
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    with pytest.raises(StoreError, match="Read-only file system; make it writable"):
        FolderStore(small_disk / "data")
    subprocess.run(["mount", "-o", "remount,rw", small_disk], check=True)
    store = FolderStore(small_disk / "data")
    assert store.load(NAME_OF_TASK).task == task
    store.close()


def test_a_task_folder_that_is_deleted_or_moved_accepts_no_decision(store: FolderStore, tmp_path: Path) -> None:
    task, other = history(store)[-1], history(store, "OTHER")[-1]
    subprocess.run(["rm", "-r", store.files.path_of(task.id)], check=True)
    with pytest.raises(TaskFolderGone):
        decided(store, task)
    assert store.foreign_edits(task) == []
    store.files.path_of(other.id).rename(tmp_path / "elsewhere")
    with pytest.raises(TaskFolderGone):
        decided(store, other)


def test_a_decision_that_cannot_be_encoded_is_refused_and_leaves_nothing(store: FolderStore) -> None:
    task, content = history(store)[-1], journal_of(store).read_bytes()
    with pytest.raises(StoreError, match="cannot be written to"):
        decided(store, task, feedback=("a name of broken bytes: \udcff",))
    assert journal_of(store).read_bytes() == content
