"""Seals of state.json and checkpoints: only the daemon can make one, and the journal counts before either."""

from dataclasses import replace

from orchestrator.core.task.task import TaskStatus
from orchestrator.formats.codec import JsonObject
from orchestrator.formats.files import sealed, unsealed
from orchestrator.formats.signing import FILE
from orchestrator.storage.journal import seal_key
from orchestrator.storage.records import TaskSummary
from orchestrator.storage.state_file import BELOW
from orchestrator.storage.store import FolderStore
from tests.integration.storage.kept import NAME_OF_TASK, history, opened_again, saved, state_of

DONE: JsonObject = {"status": "completed", "current_state": "COMPLETED", "stage": "COMPLETION"}


def key_of(store: FolderStore) -> bytes:
    return seal_key(store.files.path_of(NAME_OF_TASK))


def rewritten(store: FolderStore, key: bytes, **changes: object) -> bytes:
    """Return state.json with other content, sealed with this key; an empty one seals as earlier versions did."""
    state = unsealed(state_of(store).read_bytes(), key=key_of(store))
    assert state is not None
    return sealed({**state, **changes}, below=BELOW, key=key)  # type: ignore[dict-item]  # JSON


def test_a_state_that_another_program_sealed_is_set_aside(store: FolderStore) -> None:
    task = history(store)[-1]
    store.release(task.id)
    for key in (b"", bytes(32)):
        state_of(store).write_bytes(rewritten(store, key, **DONE))
        assert [one.status for one in store.summaries() if isinstance(one, TaskSummary)] == [TaskStatus.IN_PROGRESS]
        found = opened_again(store)
        assert (found.task.status, found.foreign is not None) == (TaskStatus.IN_PROGRESS, True)
        assert "/status" in found.changed


def test_the_journal_counts_where_a_sealed_state_contradicts_it(store: FolderStore) -> None:
    task = history(store)[-1]
    store.release(task.id)
    state_of(store).write_bytes(rewritten(store, key_of(store), **DONE))
    found = opened_again(store)
    assert (found.task.status, found.foreign is not None) == (TaskStatus.IN_PROGRESS, True)


def test_a_state_that_an_earlier_version_sealed_is_taken_over_with_its_telemetry(store: FolderStore) -> None:
    task = history(store)[-1]
    store.note_telemetry(replace(task, agent=replace(task.agent, read_offset=1234)))
    store.release(task.id)
    state_of(store).write_bytes(rewritten(store, b""))
    found = store.load(task.id)
    assert (found.foreign, found.task.agent.read_offset) == (None, 1234)
    assert unsealed(state_of(store).read_bytes(), key=key_of(store)) is None
    assert [one.id for one in store.summaries() if isinstance(one, TaskSummary)] == [task.id]
    assert unsealed(state_of(store).read_bytes(), key=key_of(store)) is not None


def test_a_checkpoint_that_another_program_sealed_is_no_state_to_begin_from(store: FolderStore) -> None:
    task = history(store)[-1]
    store.save_checkpoint(task, saved(task, 1))
    store.release(task.id)
    file = store.files.path_of(task.id) / "checkpoints/000001.json"
    kept = unsealed(file.read_bytes(), key=key_of(store))
    assert kept is not None
    assert isinstance(kept["state"], dict)
    file.write_bytes(sealed({**kept, "state": {**kept["state"], **DONE}}))
    state_of(store).unlink()
    assert store.load(task.id).task.status is TaskStatus.IN_PROGRESS


def test_without_its_key_a_data_folder_is_read_from_the_journals(store: FolderStore) -> None:
    task = history(store)[-1]
    store.release(task.id)
    (store.data_dir / FILE).unlink()
    found = opened_again(store)
    assert replace(found.task, agent=task.agent) == task
    assert (store.data_dir / FILE).stat().st_mode & 0o777 == 0o600
