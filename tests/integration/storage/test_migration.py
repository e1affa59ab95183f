"""A task whose journal was started in format 1 continues in the current format, whatever is lost in between."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from shutil import rmtree

import orjson
import pytest

from orchestrator.core.events.event_text import PHRASES, describe_event
from orchestrator.core.task.checkpoint import CheckpointContext, Reason, checkpoint_of
from orchestrator.core.task.task import Task
from orchestrator.formats.codec import JsonObject
from orchestrator.storage.journal import lines
from orchestrator.storage.migration import SCHEMA_VERSION
from orchestrator.storage.records import TaskSummary
from orchestrator.storage.store import FolderStore
from tests.fakes.recorded import Recorded, parts, recorded
from tests.fakes.world import START
from tests.integration.storage.kept import decided


@pytest.fixture
def there() -> Iterator[Recorded]:
    with recorded() as unpacked:
        yield unpacked


@pytest.fixture
def store(there: Recorded) -> Iterator[FolderStore]:
    opened = FolderStore(there.data)
    yield opened
    opened.close()


@pytest.mark.parametrize("part", parts())
def test_the_journal_alone_gives_the_same_task_across_the_change_of_format(
    there: Recorded, store: FolderStore, part: str
) -> None:
    before = opened(store, there, part)
    assert version(store, before) == 1, "state.json and the journal must agree before the first decision"
    after = decided(store, before, feedback=("first decision in the present format",))
    assert version(store, after) == SCHEMA_VERSION
    last = decided(store, after, requested_changes=("second",))
    store.release(last.id)
    assert store.load(last.id).task == last
    state(store, last).unlink()
    assert store.load(last.id).task == last
    rmtree(store.files.path_of(last.id) / "checkpoints", ignore_errors=True)
    assert store.load(last.id).task == last


def test_a_checkpoint_taken_before_the_first_decision_can_be_replayed_from(there: Recorded, store: FolderStore) -> None:
    before = opened(store, there, "frozen")
    checkpoint = checkpoint_of(before, 900, START, Reason.USER, CheckpointContext())
    store.save_checkpoint(before, checkpoint)
    after = decided(store, before, feedback=("go on",))
    store.release(after.id)
    state(store, after).unlink()
    assert store.load(after.id).task == after


def test_a_crash_between_the_load_and_the_first_decision_loses_nothing(there: Recorded, store: FolderStore) -> None:
    before = opened(store, there, "running")
    store.note_telemetry(replace(before, agent=replace(before.agent, read_offset=before.agent.read_offset + 1)))
    store.release(before.id)
    assert opened(store, there, "running") == before
    state(store, before).unlink()
    after = decided(store, store.load(before.id, keep_open=True).task, feedback=("go on",))
    store.release(after.id)
    state(store, after).unlink()
    assert store.load(after.id).task == after


def test_a_foreign_edit_is_reported_with_the_keys_of_the_format_in_which_it_was_made(
    there: Recorded, store: FolderStore
) -> None:
    path = store.files.path_of(there.expected["tasks"]["waiting"]["id"]) / "state.json"
    document = orjson.loads(path.read_bytes())
    path.write_bytes(orjson.dumps({**document, "owed": "merge"}))
    loaded = store.load(path.parent.name, keep_open=True)
    assert [name for name in loaded.changed if name not in {"/checksum", "/journal_bytes"}] == ["/owed"]
    assert (loaded.foreign, version(store, loaded.task)) == (f"state.json.foreign-{loaded.task.seq}", 1)


def test_lists_of_ended_tasks_include_their_spending(there: Recorded, store: FolderStore) -> None:
    found = {one.id: one for one in store.summaries() if isinstance(one, TaskSummary)}
    expected = {one["id"]: one["state"]["spent"] for one in there.expected["tasks"].values()}
    days = {name: {day: spent.usd for day, spent in one.spent.items()} for name, one in found.items()}
    assert days == {name: {day: spent["usd"] for day, spent in one.items()} for name, one in expected.items()}
    assert any(days.values())


def test_events_of_format_1_still_have_texts(there: Recorded, store: FolderStore) -> None:
    folders = [store.files.path_of(one["id"]) for one in there.expected["tasks"].values()]
    told = {
        line["trigger"]: describe_event(str(line["trigger"]), line["event"]) for one in folders for line in lines(one)
    }
    assert set(told) <= set(PHRASES)
    assert told["RunStarted"].startswith("a process started: ")


def opened(store: FolderStore, there: Recorded, part: str) -> Task:
    return store.load(there.expected["tasks"][part]["id"], keep_open=True).task


def state(store: FolderStore, task: Task) -> Path:
    return store.files.path_of(task.id) / "state.json"


def version(store: FolderStore, task: Task) -> object:
    document: JsonObject = orjson.loads(state(store, task).read_bytes())
    return document["schema_version"]
