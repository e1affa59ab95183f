"""Power cuts: whatever is left on the disk, a task is restored to its last complete decision."""

import json
import os
from copy import deepcopy
from dataclasses import replace
from datetime import UTC
from pathlib import Path
from typing import cast

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.events import events
from orchestrator.core.task.agent import Agent, AgentUsage, Run, Session, Setbacks, TurnProgress
from orchestrator.core.task.budget import Spending, TaskSpending
from orchestrator.core.task.checkpoint import KEPT
from orchestrator.core.task.checks import Check, CheckResult, Evaluation
from orchestrator.core.task.failures import Failure, FailureLog
from orchestrator.core.task.progress import Budget, StageRecord, Step
from orchestrator.core.task.publication import Publication
from orchestrator.core.task.task import Schedule, Source, Task, Timing
from orchestrator.core.task.ticket import SensitiveCheck, Ticket
from orchestrator.formats.codec import Json, JsonObject
from orchestrator.formats.diffs.patch import Operation, applied, difference
from orchestrator.storage.journal import DamagedJournal, lines
from orchestrator.storage.state_document import from_document, to_document
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


@pytest.mark.parametrize("left", ["missing", "empty", "torn", "zeros", "first", "newest of what the journal has"])
def test_a_power_cut_at_any_byte_leaves_the_state_after_the_last_complete_line(store: FolderStore, left: str) -> None:
    task = a_task(store)
    store.commit(None, task, events.TaskSubmitted(at=START, task=task))
    store.settle()
    states = [state_of(store).read_bytes()]
    tasks = [task]
    for number in range(4):
        tasks.append(decided(store, tasks[-1], feedback=(f"try {number}",)))
        states.append(state_of(store).read_bytes())
    store.release(task.id)
    whole = journal_of(store).read_bytes()
    ends = [index + 1 for index, byte in enumerate(whole) if byte == ord("\n")]
    for cut in range(ends[-3], len(whole) + 1):
        journal_of(store).write_bytes(whole[:cut])
        survived = sum(end <= cut for end in ends)
        state_of(store).unlink(missing_ok=True)
        content = {
            "missing": None,
            "empty": b"",
            "torn": states[survived - 1][: -1 - cut % 1000],
            "zeros": bytes(len(states[0])),
            "first": states[0],
        }.get(left, states[survived - 1])
        if content is not None:
            state_of(store).write_bytes(content)
        assert store.load(task.id).task == tasks[survived - 1], cut
    assert (store.load(task.id, keep_open=True).foreign is None) == (left != "torn")


def test_a_torn_line_is_cut_off_and_the_next_decision_follows_the_last_complete_one(store: FolderStore) -> None:
    tasks = history(store)
    whole = journal_of(store).read_bytes()
    store.release(NAME_OF_TASK)
    journal_of(store).write_bytes(whole[:-5])
    state_of(store).unlink()
    found = opened_again(store).task
    assert found == tasks[-2]
    after = decided(store, found, feedback=("once more",))
    assert numbers(store) == list(range(1, after.seq + 1))
    assert opened_again(store).task == after


def test_a_last_line_with_blocks_that_never_reached_the_disk_is_torn(store: FolderStore) -> None:
    tasks = history(store)
    store.release(NAME_OF_TASK)
    *earlier, last = journal_of(store).read_bytes().splitlines(keepends=True)
    journal_of(store).write_bytes(b"".join(earlier) + bytes(len(last) - 20) + last[-20:])
    state_of(store).unlink()
    assert store.load(NAME_OF_TASK).task == tasks[-2]


def test_the_journal_alone_gives_the_same_task_as_state_json_even_after_telemetry_was_reset(store: FolderStore) -> None:
    task = history(store)[-1]
    store.note_telemetry(
        replace(task, agent=replace(task.agent, read_offset=5000, turn=replace(task.agent.turn, tool_uses=3)))
    )
    with_telemetry = state_of(store).read_bytes()
    task = decided(store, task, agent=replace(task.agent, attempt=2))  # its offset is again the one last committed
    store.release(task.id)
    state_of(store).write_bytes(with_telemetry)
    assert store.load(task.id).task == task
    state_of(store).unlink()
    assert store.load(task.id).task == task


def test_telemetry_survives_a_restart_and_never_enters_the_journal(store: FolderStore) -> None:
    task, before = history(store)[-1], journal_of(store).read_bytes()
    noted = replace(task, agent=replace(task.agent, read_offset=12_345, usage=replace(task.agent.usage, tokens=99)))
    store.note_telemetry(noted)
    assert journal_of(store).read_bytes() == before
    assert opened_again(store).task == noted
    after = decided(store, noted, feedback=("go on",))
    assert [change["path"] for change in changes(store) if "/agent" in str(change["path"])] == ["/agent"]
    store.release(task.id)
    state_of(store).unlink()
    assert store.load(task.id).task == after


def changes(store: FolderStore) -> list[dict[str, object]]:
    """Return the changes in the last line of the journal."""
    found: list[dict[str, object]] = orjson.loads(journal_of(store).read_bytes().splitlines()[-1])["change"]
    return found


def test_the_journal_records_the_submitter_and_every_event_completely(store: FolderStore) -> None:
    tasks = history(store)
    told = [line["event"] for line in lines(store.files.path_of(NAME_OF_TASK))]
    assert told[0] == {"at": "2026-11-21T22:00:00.000Z", "by": "ann"}
    assert told[1] == {"at": "2026-11-21T22:00:01.000Z"}
    assert len(told) == tasks[-1].seq


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("ab/~-01", max_size=3), inner, max_size=4),
)
OBJECTS = st.dictionaries(st.text("ab/~-01", max_size=3), JSON, max_size=4)


@given(old=OBJECTS, new=OBJECTS, grown=st.lists(JSON, max_size=3))
def test_an_applied_difference_gives_the_new_document_and_leaves_the_old_one_unchanged(
    old: JsonObject, new: JsonObject, grown: list[Json]
) -> None:
    old = {**old, "list": [1, None]}
    kept = deepcopy(old)
    for later in (new, old | {"list": [1, None, *grown]}, {**old, "inner": new}):
        assert applied(old, difference(old, later)) == later
        assert old == kept
        assert applied(old, cast(list[Operation], orjson.loads(orjson.dumps(difference(old, later))))) == later


TIMES = st.datetimes(timezones=st.just(UTC)).map(lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000))
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
TASKS = st.builds(
    Task,
    stages=st.dictionaries(
        st.sampled_from(["TICKET_INTAKE", "DESIGN", "IMPLEMENTATION", "EVALUATION", "COMPLETION", "OWN"]),
        st.builds(StageRecord, started_at=st.none() | TIMES, completed_at=st.none() | TIMES),
    ),
    stage=TEXT,
    source=st.builds(Source, head=st.none() | TEXT),
    schedule=st.builds(Schedule, after=st.lists(TEXT, max_size=2).map(tuple), start_at=st.none() | TIMES),
    timing=st.builds(
        Timing,
        created_at=TIMES,
        **{name: st.none() | TIMES for name in ("started_at", "completed_at", "failed_at")},
    ),
    updated_at=TIMES,
    evaluation=st.builds(
        Evaluation,
        checks=st.lists(st.builds(Check, name=TEXT, command=TEXT), unique_by=lambda check: check.name).map(tuple),
        results=st.dictionaries(TEXT, st.builds(CheckResult, seconds=st.none() | st.floats(0, 1e6))),
        report_path=st.none() | TEXT,
    ),
    spending=st.builds(TaskSpending, by_day=st.dictionaries(TEXT, st.builds(Spending)), usd_at_limit=st.just(0.5)),
    steps=st.lists(st.builds(Step, started_at=TIMES, completed_at=st.none() | TIMES, commits=st.just(("c",)))).map(
        tuple
    ),
    budgets=st.dictionaries(TEXT, st.builds(Budget)),
    failures=st.builds(
        FailureLog, entries=st.lists(st.builds(Failure, occurred_at=TIMES), max_size=2).map(tuple), patterns=st.just(())
    ),
    retry_at=st.none() | TIMES,
    feedback=st.lists(TEXT, max_size=2).map(tuple),
    run=st.none() | st.builds(Run),
    agent=st.builds(
        Agent,
        session=st.builds(Session),
        turn=st.builds(TurnProgress, deadline=st.none() | TIMES, active_since=st.none() | TIMES, step=st.none()),
        usage=st.builds(AgentUsage, tokens=st.integers(0, 9), tokens_before_session=st.integers(0, 9)),
        setbacks=st.builds(Setbacks),
        last_update=st.none() | TIMES,
        last_saved=st.none() | TIMES,
    ),
    ticket=st.builds(Ticket, sensitive_check=st.none() | st.builds(SensitiveCheck, scanned_at=st.none() | TIMES)),
    publication=st.builds(
        Publication, pr_url=st.none() | TEXT, merged_at=st.none() | TIMES, merge_commit=st.none() | TEXT
    ),
)


@given(task=TASKS)
def test_a_task_in_any_pipeline_survives_the_round_trip_through_its_document(task: Task) -> None:
    assert from_document(cast(JsonObject, json.loads(json.dumps(to_document(task))))) == task


def checkpointed(store: FolderStore, number: int) -> list[Task]:
    tasks = history(store)
    for count in range(1, number + 1):
        tasks.append(decided(store, tasks[-1], feedback=(f"checkpoint {count}",)))
        store.save_checkpoint(tasks[-1], saved(tasks[-1], count))
    tasks.append(decided(store, tasks[-1], feedback=("later",)))
    store.release(NAME_OF_TASK)
    state_of(store).unlink()
    return tasks


def spoiled(path: Path, until: int) -> None:
    """Overwrite the first bytes of a file with zeros and keep its length."""
    path.write_bytes(bytes(until) + path.read_bytes()[until:])


def test_the_newest_checkpoint_and_the_lines_after_it_are_enough(store: FolderStore) -> None:
    tasks = checkpointed(store, 3)
    spoiled(journal_of(store), 500)  # nothing before the checkpoint is read
    assert store.load(NAME_OF_TASK).task == tasks[-1]


def test_a_damaged_checkpoint_is_replaced_by_an_older_one(store: FolderStore) -> None:
    tasks = checkpointed(store, 3)
    spoiled(journal_of(store), 500)
    folder = store.files.path_of(NAME_OF_TASK) / "checkpoints"
    (folder / "000003.json").write_bytes((folder / "000003.json").read_bytes().replace(b"main", b"evil"))
    (folder / "000002.json").unlink()
    os.mkfifo(folder / "000002.json")
    assert store.load(NAME_OF_TASK).task == tasks[-1]


def test_without_a_checkpoint_the_journal_is_read_from_its_first_line(store: FolderStore) -> None:
    tasks = checkpointed(store, 1)
    (store.files.path_of(NAME_OF_TASK) / "checkpoints" / "000001.json").write_text("{}")
    assert store.load(NAME_OF_TASK).task == tasks[-1]


def test_a_journal_shorter_than_a_checkpoint_knows_is_refused(store: FolderStore) -> None:
    checkpointed(store, 2)
    os.truncate(journal_of(store), journal_of(store).read_bytes().index(b"\n") + 1)
    with pytest.raises(DamagedJournal):
        store.load(NAME_OF_TASK)


def test_the_newest_ten_checkpoints_are_kept(store: FolderStore) -> None:
    checkpointed(store, KEPT + 3)
    kept = sorted(path.name for path in (store.files.path_of(NAME_OF_TASK) / "checkpoints").iterdir())
    assert kept == [f"{number:06d}.json" for number in range(4, KEPT + 4)]
