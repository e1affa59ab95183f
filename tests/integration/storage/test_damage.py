"""Damaged or foreign evidence: what is proved whole counts, the rest is set aside, and decisions follow it."""

import os
from collections.abc import Callable
from dataclasses import replace

import orjson
import pytest

from orchestrator.core.events import events
from orchestrator.storage.journal import DamagedJournal
from orchestrator.storage.records import LoadedTask, TaskSummary
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
    state_of,
)

OTHER = "LOCAL-20261121_999999"


def kept(store: FolderStore, name: str) -> bytes:
    return (store.files.path_of(NAME_OF_TASK) / name).read_bytes()


def last_line(store: FolderStore) -> bytes:
    return journal_of(store).read_bytes().splitlines(keepends=True)[-1]


def garbage(_: FolderStore) -> bytes:
    return b"\x00\xffnonsense\n{}\n"


def of_another(store: FolderStore) -> bytes:
    return last_line(store).replace(NAME_OF_TASK.encode(), OTHER.encode()).replace(b'"seq":6', b'"seq":7')


@pytest.mark.parametrize("appended", [garbage, last_line, of_another])
@pytest.mark.parametrize("state", ["whole", "missing", "edited"])
def test_what_is_no_decision_after_a_complete_journal_is_set_aside(
    store: FolderStore, appended: Callable[[FolderStore], bytes], state: str
) -> None:
    task = history(store)[-1]
    store.release(task.id)
    whole, rest = journal_of(store).read_bytes(), appended(store)
    journal_of(store).write_bytes(whole + rest)
    if state == "missing":
        state_of(store).unlink()
    elif state == "edited":
        state_of(store).write_bytes(state_of(store).read_bytes().replace(b"main", b"evil"))
    assert [one.id for one in store.summaries() if isinstance(one, TaskSummary)] == [task.id]
    found = store.load(task.id, keep_open=True)
    assert (replace(found.task, agent=task.agent), found.damaged) == (task, "journal.jsonl.damaged-6")
    assert [edit.kept_as for edit in found.edits][-1] == "journal.jsonl.damaged-6"
    assert len(found.edits) == 1 + (state == "edited")
    assert (kept(store, "journal.jsonl.damaged-6"), journal_of(store).read_bytes()) == (rest, whole)
    after = decided(store, found.task, feedback=("on it goes",))
    state_of(store).unlink()
    assert opened_again(store) == LoadedTask(task=after)


def test_a_second_damage_does_not_replace_what_was_set_aside_before(store: FolderStore) -> None:
    history(store)
    names = []
    for content in (b"first\n", b"second\n"):
        store.release(NAME_OF_TASK)
        with journal_of(store).open("ab") as journal:
            journal.write(content)
        names.append(store.load(NAME_OF_TASK, keep_open=True).damaged)
    assert names == ["journal.jsonl.damaged-6", "journal.jsonl.damaged-6-2"]
    assert [kept(store, str(name)) for name in names] == [b"first\n", b"second\n"]


def test_a_look_at_a_damaged_task_changes_nothing(store: FolderStore) -> None:
    task = history(store)[-1]
    store.release(task.id)
    with journal_of(store).open("ab") as journal:
        journal.write(b"nonsense\n")
    before = sorted((path, path.stat().st_mtime_ns) for path in store.files.path_of(task.id).iterdir())
    assert store.load(task.id) == LoadedTask(task=task)
    assert sorted((path, path.stat().st_mtime_ns) for path in store.files.path_of(task.id).iterdir()) == before


@pytest.mark.parametrize("left", [0, 100, "three lines"])
def test_a_journal_shorter_than_a_whole_state_goes_on_from_the_state(store: FolderStore, left: int | str) -> None:
    task = history(store)[-1]
    store.release(task.id)
    lines = journal_of(store).read_bytes().splitlines(keepends=True)
    size = left if isinstance(left, int) else len(b"".join(lines[:3]))
    os.truncate(journal_of(store), size)
    assert [one.id for one in store.summaries() if isinstance(one, TaskSummary)] == [task.id]
    found = store.load(task.id, keep_open=True)
    assert (found.task, found.foreign) == (task, None)
    assert found.damaged == ("journal.jsonl.damaged-6" if left == 100 else None)
    assert numbers(store) == ([1, 2, 3, 6] if left == "three lines" else [6])
    assert orjson.loads(last_line(store))["trigger"] == "Recovered"
    after = decided(store, found.task, feedback=("on it goes",))
    assert opened_again(store) == LoadedTask(task=after)
    state_of(store).unlink()
    assert replace(opened_again(store).task, agent=after.agent) == after, "the journal alone is enough"


def test_the_state_of_another_task_is_set_aside(store: FolderStore) -> None:
    task = history(store)[-1]
    other = a_task(store, OTHER)
    store.commit(None, other, events.TaskSubmitted(at=START, task=other))
    store.release(other.id)
    store.release(task.id)
    state_of(store).write_bytes((store.files.path_of(OTHER) / "state.json").read_bytes())
    assert {one.id for one in store.summaries() if isinstance(one, TaskSummary)} == {task.id, OTHER}
    found = store.load(task.id, keep_open=True)
    assert (replace(found.task, agent=task.agent), found.foreign) == (task, "state.json.foreign-6")
    assert "/task_id" in found.changed
    assert opened_again(store).foreign is None


def test_a_state_that_belongs_to_another_journal_of_the_task_is_not_believed(store: FolderStore) -> None:
    task = history(store)[-1]
    earlier = state_of(store).read_bytes()
    newer = decided(store, task, feedback=("a rather long sentence",) * 9)
    store.release(task.id)
    state_of(store).write_bytes(earlier)
    assert opened_again(store).task.feedback == newer.feedback
    store.release(task.id)
    lines = journal_of(store).read_bytes().splitlines(keepends=True)
    journal_of(store).write_bytes(lines[0])
    state_of(store).unlink()
    back = opened_again(store).task
    for number in range(9):
        back = decided(store, back, feedback=(f"another way {number}",))
    store.release(task.id)
    state_of(store).write_bytes(earlier)
    assert replace(opened_again(store).task, agent=back.agent) == back


def test_a_start_writes_no_file_of_a_task_that_is_whole(store: FolderStore) -> None:
    task = history(store)[-1]
    store.release(task.id)
    before = {path: path.stat().st_ino for path in state_of(store).parent.iterdir()}
    assert store.load(task.id, keep_open=True).task == task
    assert {path: path.stat().st_ino for path in state_of(store).parent.iterdir()} == before


def test_a_decision_that_is_left_after_damage_is_not_given_up(store: FolderStore) -> None:
    history(store)
    store.release(NAME_OF_TASK)
    lines = journal_of(store).read_bytes().splitlines(keepends=True)
    journal_of(store).write_bytes(b"".join([*lines[:3], b"nonsense\n", *lines[4:]]))
    state_of(store).unlink()
    with pytest.raises(DamagedJournal, match="decision 4 is missing"):
        store.load(NAME_OF_TASK, keep_open=True)
