"""Tasks on disk, with the power cut at any byte, full disks, other hands and hostile folders."""

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from datetime import UTC, timedelta
from pathlib import Path
from signal import SIGKILL
from typing import cast

import orjson
import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator.core import events
from orchestrator.core.codec import Json
from orchestrator.core.document import Object, from_document, to_document
from orchestrator.core.failures import Failure, FailureLog
from orchestrator.core.model import (
    Agent,
    AgentStatus,
    Budget,
    Check,
    CheckResult,
    Owed,
    Run,
    SensitiveCheck,
    StageRecord,
    Step,
    Task,
    TaskStatus,
    Ticket,
)
from orchestrator.core.patch import Operation, applied, difference
from orchestrator.files import sealed
from orchestrator.journal import NAME, DamagedJournal, StoreError, TaskFolderGone, lines
from orchestrator.state_file import FutureFile
from orchestrator.store import KEPT_CHECKPOINTS, DataFolderTaken, FolderStore, Loaded, Summary
from tests.fakes.world import START

NAME_OF_TASK = "LOCAL-20261121_220000"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[FolderStore]:
    opened = FolderStore(tmp_path / "data")
    yield opened
    opened.close()


def a_task(store: FolderStore, task_id: str = NAME_OF_TASK) -> Task:
    return Task(
        id=task_id,
        title="Schön: a flag",
        folder=str(store.folder(task_id)),
        ticket=Ticket(key=task_id, sensitive_check=SensitiveCheck(result="CLEAN")),
        pipeline="full",
        repo="/repo",
        base_branch="main",
        base_commit="b" * 40,
        created_at=START,
        updated_at=START,
        branch="feature/LOCAL",
        seq=1,
    )


def decided(store: FolderStore, before: Task, **changes: object) -> Task:
    """One more decision on disk."""
    at = before.updated_at + timedelta(seconds=1)
    after = replace(before, seq=before.seq + 1, updated_at=at, **changes)  # type: ignore[arg-type]  # any field
    store.commit(before, after, events.AlarmRang(at=at))
    store.settle()
    return after


def history(store: FolderStore, task_id: str = NAME_OF_TASK) -> list[Task]:
    """A task after each of six decisions, telemetry in between."""
    task = a_task(store, task_id)
    store.commit(None, task, events.TaskSubmitted(at=START, task=task, by="ann"))
    store.settle()
    tasks = [task, decided(store, task, status=TaskStatus.IN_PROGRESS, owed=Owed.WORKSPACE)]
    tasks.append(decided(store, tasks[-1], agent=replace(tasks[-1].agent, role="planner", attempt=1, read_offset=40)))
    store.note_telemetry(replace(tasks[-1], agent=replace(tasks[-1].agent, read_offset=900, tokens_used=7)))
    failure = Failure(
        id="", occurred_at=START, state="ANALYSIS", agent="planner", step=None, attempted="turn 1", command=None,
        expected="a finished turn", type="agent_lost", summary="it ended: “\u0000”\nwithout a word",
    )  # fmt: skip
    tasks.append(decided(store, tasks[-1], failures=tasks[-1].failures.with_failure(failure)))
    tasks.append(decided(store, tasks[-1], failures=tasks[-1].failures.with_failure(failure), feedback=("a/b~c",)))
    tasks.append(decided(store, tasks[-1], feedback=(), agent=replace(tasks[-1].agent, status=AgentStatus.RUNNING)))
    return tasks


def opened_again(store: FolderStore, task_id: str = NAME_OF_TASK) -> Loaded:
    store.release(task_id)
    return store.load(task_id, keep_open=True)


def state_of(store: FolderStore) -> Path:
    return store.folder(NAME_OF_TASK) / "state.json"


def journal_of(store: FolderStore) -> Path:
    return store.folder(NAME_OF_TASK) / NAME


def numbers(store: FolderStore) -> list[object]:
    return [line["seq"] for line in lines(store.folder(NAME_OF_TASK))]


# The power is cut


@pytest.mark.parametrize("left", ["missing", "empty", "torn", "zeros", "first", "newest of what the journal has"])
def test_a_power_cut_at_any_byte_leaves_the_state_after_the_last_whole_line(store: FolderStore, left: str) -> None:
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


def test_what_was_torn_is_cut_off_and_the_next_decision_follows_the_last_whole_one(store: FolderStore) -> None:
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


def test_the_journal_alone_gives_what_state_json_gives_even_when_telemetry_was_set_back(store: FolderStore) -> None:
    task = history(store)[-1]
    store.note_telemetry(replace(task, agent=replace(task.agent, read_offset=5000, tool_uses=3)))
    with_telemetry = state_of(store).read_bytes()
    task = decided(store, task, agent=replace(task.agent, attempt=2))  # its offset is again the one last committed
    store.release(task.id)
    state_of(store).write_bytes(with_telemetry)
    assert store.load(task.id).task == task
    state_of(store).unlink()
    assert store.load(task.id).task == task


def test_telemetry_survives_a_restart_and_never_enters_the_journal(store: FolderStore) -> None:
    task, before = history(store)[-1], journal_of(store).read_bytes()
    noted = replace(task, agent=replace(task.agent, read_offset=12_345, tokens_used=99))
    store.note_telemetry(noted)
    assert journal_of(store).read_bytes() == before
    assert opened_again(store).task == noted
    after = decided(store, noted, feedback=("go on",))
    assert [change["path"] for change in changes(store) if "/agent" in str(change["path"])] == ["/agent"]
    store.release(task.id)
    state_of(store).unlink()
    assert store.load(task.id).task == after


def changes(store: FolderStore) -> list[dict[str, object]]:
    """What the last line of the journal changed."""
    found: list[dict[str, object]] = orjson.loads(journal_of(store).read_bytes().splitlines()[-1])["change"]
    return found


def test_the_journal_tells_who_submitted_the_task_and_every_event_whole(store: FolderStore) -> None:
    tasks = history(store)
    told = [line["event"] for line in lines(store.folder(NAME_OF_TASK))]
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
def test_a_difference_applied_gives_the_new_document_and_leaves_the_old_one_alone(
    old: Object, new: Object, grown: list[Json]
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
    checks=st.lists(st.builds(Check, name=TEXT, command=TEXT), unique_by=lambda check: check.name).map(tuple),
    steps=st.lists(st.builds(Step, started_at=TIMES, completed_at=st.none() | TIMES, commits=st.just(("c",)))).map(
        tuple
    ),
    results=st.dictionaries(TEXT, st.builds(CheckResult, seconds=st.none() | st.floats(0, 1e6))),
    budgets=st.dictionaries(TEXT, st.builds(Budget)),
    failures=st.builds(
        FailureLog, entries=st.lists(st.builds(Failure, occurred_at=TIMES), max_size=2).map(tuple), patterns=st.just(())
    ),
    retry_at=st.none() | TIMES,
    after=st.lists(TEXT, max_size=2).map(tuple),
    feedback=st.lists(TEXT, max_size=2).map(tuple),
    run=st.none() | st.builds(Run),
    agent=st.builds(
        Agent, turn_deadline=st.none() | TIMES, last_update=st.none() | TIMES, last_saved=st.none() | TIMES
    ),
    **dict.fromkeys(("created_at", "updated_at"), TIMES),
    **{name: st.none() | TIMES for name in ("start_at", "started_at", "completed_at", "failed_at", "merged_at")},
    ticket=st.builds(Ticket, sensitive_check=st.none() | st.builds(SensitiveCheck, scanned_at=st.none() | TIMES)),
    report_path=st.none() | TEXT,
    pr_url=st.none() | TEXT,
    merge_commit=st.none() | TEXT,
)


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(task=TASKS)
def test_a_task_in_any_pipeline_comes_back_from_its_document_as_it_was(task: Task) -> None:
    assert from_document(cast(Object, json.loads(json.dumps(to_document(task))))) == task


# Another hand


def test_a_state_edited_while_the_daemon_was_away_is_set_aside_and_the_truth_restored(store: FolderStore) -> None:
    task = history(store)[-1]
    edited = orjson.loads(state_of(store).read_bytes()) | {"status": "completed", "title": "mine"}
    store.release(task.id)
    state_of(store).write_bytes(orjson.dumps(edited))
    assert [found.status for found in store.summaries() if isinstance(found, Summary)] == [TaskStatus.IN_PROGRESS]
    found = store.load(task.id, keep_open=True)
    assert (found.task, found.foreign) == (task, "state.json.foreign-6")
    assert set(found.changed) >= {"/status", "/title"}
    assert orjson.loads((store.folder(task.id) / "state.json.foreign-6").read_bytes())["title"] == "mine"
    assert opened_again(store) == Loaded(task=task)


def test_a_state_edited_under_the_daemon_is_set_aside_and_the_truth_restored(store: FolderStore) -> None:
    task = history(store)[-1]
    assert store.foreign_edits(task) == []
    state_of(store).write_bytes(state_of(store).read_bytes().replace(b"main", b"evil"))
    assert [(edit.kept_as, edit.changed) for edit in store.foreign_edits(task)] == [
        ("state.json.foreign-6", ("/base_branch",))
    ]
    state_of(store).write_bytes(b"second edit of the same state")
    assert [edit.kept_as for edit in store.foreign_edits(task)] == ["state.json.foreign-6-2"]
    assert store.foreign_edits(task) == []
    assert opened_again(store) == Loaded(task=task)


@pytest.mark.parametrize("content", [None, b""])
def test_a_state_deleted_or_emptied_under_the_daemon_comes_back(store: FolderStore, content: bytes | None) -> None:
    task = history(store)[-1]
    state_of(store).unlink()
    if content is not None:
        state_of(store).write_bytes(content)
    assert store.foreign_edits(task) == []
    assert opened_again(store) == Loaded(task=task)


def test_an_older_state_of_ours_put_back_under_the_daemon_is_a_foreign_edit(store: FolderStore) -> None:
    task, earlier = history(store)[-1], b""
    earlier = state_of(store).read_bytes()
    task = decided(store, task, feedback=("newer",))
    state_of(store).write_bytes(earlier)
    assert store.foreign_edits(task)
    assert opened_again(store).task == task


def test_a_state_from_the_future_is_left_alone_and_says_what_to_do(store: FolderStore) -> None:
    task = history(store)[-1]
    store.release(task.id)
    content = sealed({**to_document(task), "schema_version": 2, "journal_bytes": 1})
    state_of(store).write_bytes(content)
    with pytest.raises(FutureFile, match="has version 2, this program reads 1; install the version that wrote it"):
        store.load(task.id, keep_open=True)
    assert [type(found) for found in store.summaries()] == [FutureFile]
    assert state_of(store).read_bytes() == content


def test_a_journal_damaged_in_the_middle_names_the_byte(store: FolderStore) -> None:
    history(store)
    store.release(NAME_OF_TASK)
    state_of(store).unlink()
    content = bytearray(journal_of(store).read_bytes())
    second = content.index(b"\n") + 1
    content[second + 3] ^= 0xFF
    journal_of(store).write_bytes(content)
    with pytest.raises(DamagedJournal, match=rf"decision 2 should stand at byte {second}; restore it from a backup"):
        store.load(NAME_OF_TASK)


def test_a_journal_shorter_than_the_state_knows_is_refused(store: FolderStore) -> None:
    history(store)
    store.release(NAME_OF_TASK)
    os.truncate(journal_of(store), 100)
    with pytest.raises(DamagedJournal, match=r"has 100 bytes, but \d+ were written; restore it from a backup"):
        store.load(NAME_OF_TASK, keep_open=True)


def test_a_journal_cut_under_the_daemon_takes_no_decision_that_would_not_fit(store: FolderStore) -> None:
    task = history(store)[-1]
    os.truncate(journal_of(store), 100)
    with pytest.raises(DamagedJournal, match="was cut to 100 of"):
        decided(store, task)
    assert journal_of(store).stat().st_size == 100


def test_what_another_hand_appended_to_the_journal_is_cut_off(store: FolderStore) -> None:
    task = history(store)[-1]
    with journal_of(store).open("ab") as journal:
        journal.write(b'{"seq":7,"change":[]}\n')
    after = decided(store, task, feedback=("ours",))
    state_of(store).unlink()
    assert opened_again(store).task == after


def test_a_task_begins_only_once(store: FolderStore) -> None:
    tasks = history(store)
    with pytest.raises(StoreError, match="exists already; a task begins only once"):
        store.commit(None, tasks[0], events.TaskSubmitted(at=START, task=tasks[0]))
    assert opened_again(store).task == tasks[-1]


# Checkpoints


def checkpointed(store: FolderStore, number: int) -> list[Task]:
    tasks = history(store)
    for count in range(1, number + 1):
        tasks.append(decided(store, tasks[-1], feedback=(f"checkpoint {count}",)))
        store.save_checkpoint(tasks[-1], count, None)
    tasks.append(decided(store, tasks[-1], feedback=("later",)))
    store.release(NAME_OF_TASK)
    state_of(store).unlink()
    return tasks


def spoiled(path: Path, until: int) -> None:
    """The first bytes of a file turned to zeros, its length kept."""
    path.write_bytes(bytes(until) + path.read_bytes()[until:])


def test_the_newest_checkpoint_and_the_lines_after_it_are_enough(store: FolderStore) -> None:
    tasks = checkpointed(store, 3)
    spoiled(journal_of(store), 500)  # nothing before the checkpoint is read
    assert store.load(NAME_OF_TASK).task == tasks[-1]


def test_a_damaged_checkpoint_gives_way_to_an_older_one(store: FolderStore) -> None:
    tasks = checkpointed(store, 3)
    spoiled(journal_of(store), 500)
    folder = store.folder(NAME_OF_TASK) / "checkpoints"
    (folder / "000003.json").write_bytes((folder / "000003.json").read_bytes().replace(b"main", b"evil"))
    (folder / "000002.json").unlink()
    os.mkfifo(folder / "000002.json")
    assert store.load(NAME_OF_TASK).task == tasks[-1]


def test_without_a_checkpoint_the_journal_is_read_from_its_first_line(store: FolderStore) -> None:
    tasks = checkpointed(store, 1)
    (store.folder(NAME_OF_TASK) / "checkpoints" / "000001.json").write_text("{}")
    assert store.load(NAME_OF_TASK).task == tasks[-1]


def test_a_journal_shorter_than_a_checkpoint_knows_is_refused(store: FolderStore) -> None:
    checkpointed(store, 2)
    os.truncate(journal_of(store), journal_of(store).read_bytes().index(b"\n") + 1)
    with pytest.raises(DamagedJournal, match="restore it from a backup"):
        store.load(NAME_OF_TASK)


def test_the_newest_ten_checkpoints_are_kept(store: FolderStore) -> None:
    checkpointed(store, KEPT_CHECKPOINTS + 3)
    kept = sorted(path.name for path in (store.folder(NAME_OF_TASK) / "checkpoints").iterdir())
    assert kept == [f"{number:06d}.json" for number in range(4, KEPT_CHECKPOINTS + 4)]


# The disk refuses


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
    """Take all the space of a disk but some pages."""
    ballast = place / "ballast"
    with ballast.open("wb", buffering=0) as file:
        with suppress(OSError):
            while file.write(bytes(4096)) == 4096:
                continue
        file.truncate(max(0, file.tell() - leave * 4096))
    return ballast


def test_on_a_full_disk_a_decision_is_refused_whole_and_taken_once_there_is_space(small_disk: Path) -> None:
    store = FolderStore(small_disk / "data")
    tasks = history(store)
    ballast, content = fill(small_disk), journal_of(store).read_bytes()
    with pytest.raises(OSError, match=r"could not be written whole|No space left"):
        decided(store, tasks[-1], feedback=("x" * 8192,))
    assert journal_of(store).read_bytes() == content
    assert not list(store.folder(NAME_OF_TASK).glob(".*.partial"))
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
    store.save_checkpoint(task, 1, None)
    with pytest.raises(OSError, match="No space left"):
        store.note_telemetry(task)
    assert opened_again(store).task == task, "a task is taken up on a full disk"
    ballast.unlink()
    task = decided(store, task, feedback=("z",))
    assert numbers(store) == list(range(1, task.seq + 1))
    assert opened_again(store).task == task
    store.close()


def test_a_task_that_finds_no_space_to_begin_leaves_nothing_and_begins_later(small_disk: Path) -> None:
    store = FolderStore(small_disk / "data")
    task = a_task(store)
    store.folder(task.id).mkdir(mode=0o700)
    ballast = fill(small_disk)
    with pytest.raises(OSError, match=r"could not be written whole|No space left"):
        store.commit(None, task, events.TaskSubmitted(at=START, task=task))
    assert not list(store.folder(task.id).iterdir())
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
    with pytest.raises(StoreError, match=r"cannot hold the data: .*make it writable for this user, or give another"):
        FolderStore(small_disk / "data")
    subprocess.run(["mount", "-o", "remount,rw", small_disk], check=True)
    store = FolderStore(small_disk / "data")
    assert store.load(NAME_OF_TASK).task == task
    store.close()


def test_a_task_folder_that_is_deleted_or_moved_takes_no_decision(store: FolderStore, tmp_path: Path) -> None:
    task, other = history(store)[-1], history(store, "OTHER")[-1]
    subprocess.run(["rm", "-r", store.folder(task.id)], check=True)
    with pytest.raises(TaskFolderGone, match="was deleted or moved while its task was at work"):
        decided(store, task)
    assert store.foreign_edits(task) == []
    store.folder(other.id).rename(tmp_path / "elsewhere")
    with pytest.raises(TaskFolderGone, match="was deleted or moved"):
        decided(store, other)


def test_a_decision_that_is_no_json_is_refused_and_nothing_of_it_is_left(store: FolderStore) -> None:
    task, content = history(store)[-1], journal_of(store).read_bytes()
    with pytest.raises(StoreError, match="cannot be written to"):
        decided(store, task, feedback=("a name of broken bytes: \udcff",))
    assert journal_of(store).read_bytes() == content


# One daemon at a time

HOLDER = """
import sys
from pathlib import Path
from orchestrator.store import FolderStore
store = FolderStore(Path(sys.argv[1]))
print("open", flush=True)
sys.stdin.read()
"""


def test_a_second_daemon_is_refused_with_the_first_ones_pid_until_that_is_gone(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "data")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as first:
        assert first.stdout
        assert first.stdout.readline() == b"open\n"
        with pytest.raises(DataFolderTaken, match=rf"in use by the daemon with pid {first.pid}; stop that one"):
            FolderStore(tmp_path / "data")
        first.send_signal(SIGKILL)
        first.wait()
    FolderStore(tmp_path / "data").close()


# Hostile folders


def test_everything_is_for_its_owner_only(store: FolderStore) -> None:
    task = history(store)[-1]
    store.save_checkpoint(task, 1, None)
    for path in [store.data_dir, *store.data_dir.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


@pytest.mark.parametrize("kind", ["fifo", "folder", "link", "dangling link", "socket name"])
def test_a_state_that_is_no_plain_file_is_set_aside(store: FolderStore, tmp_path: Path, kind: str) -> None:
    task, secret = history(store)[-1], tmp_path / "secret"
    secret.write_text("{}")

    def trap() -> None:
        state_of(store).unlink()
        match kind:
            case "fifo":
                os.mkfifo(state_of(store))
            case "folder":
                (state_of(store) / "inner").mkdir(parents=True)
            case "link":
                state_of(store).symlink_to(secret)
            case "dangling link":
                state_of(store).symlink_to(tmp_path / "nowhere")
            case _:
                os.mknod(state_of(store), stat.S_IFSOCK | 0o600)

    trap()
    assert [edit.kept_as for edit in store.foreign_edits(task)] == ["state.json.foreign-6"]
    trap()
    store.release(task.id)
    assert [type(found) for found in store.summaries()] == [Summary]
    assert store.load(task.id, keep_open=True) == Loaded(task=task, foreign="state.json.foreign-6-2")
    assert opened_again(store) == Loaded(task=task)
    assert secret.read_text() == "{}"


def test_a_trap_under_the_name_of_a_half_written_state_is_taken_away(store: FolderStore, tmp_path: Path) -> None:
    task, secret = history(store)[-1], tmp_path / "secret"
    secret.write_text("keep me")
    partial = store.folder(task.id) / ".state.json.partial"
    partial.symlink_to(secret)
    task = decided(store, task)
    os.mkfifo(partial)
    task = decided(store, task)
    assert opened_again(store) == Loaded(task=task)
    assert secret.read_text() == "keep me"


def test_the_listing_goes_past_every_hostile_folder(store: FolderStore) -> None:
    good = history(store)[-1]
    for name in ("link", "fifo", "copy", "empty", "broken", "strange"):
        (store.tasks_dir / name).mkdir()
    (store.tasks_dir / "stray file").touch()
    odd = os.fsencode(store.tasks_dir) + b"/\xff\n\x1b[31m"
    os.mkdir(odd)  # noqa: PTH102 - a name that no str can spell
    (store.tasks_dir / "link" / NAME).symlink_to(journal_of(store))
    os.mkfifo(store.tasks_dir / "fifo" / NAME)
    os.mkfifo(store.tasks_dir / "fifo" / "state.json")
    (store.tasks_dir / "copy" / NAME).write_bytes(journal_of(store).read_bytes())
    (store.tasks_dir / "copy" / "state.json").write_bytes(state_of(store).read_bytes())
    (store.tasks_dir / "broken" / NAME).write_bytes(b'{"seq":1,"change":[{"op":"add","path":"","value":1}]}\n')
    (store.tasks_dir / "strange" / NAME).write_bytes(b'{"seq":1,"change":[3]}\n')
    found = list(store.summaries())
    assert [one.id for one in found if isinstance(one, Summary)] == [good.id]
    problems = [str(one) for one in found if isinstance(one, StoreError)]
    assert len(problems) == 8
    assert all(problem.isprintable() for problem in problems)
    assert any("the folder copy holds the task" in problem for problem in problems)
    for name in ("link", "fifo", "copy", "../tasks/" + good.id, ".."):
        with pytest.raises(StoreError):
            store.load(name)


def test_a_burst_of_decisions_is_in_the_journal_at_once_and_in_the_state_when_it_settles(store: FolderStore) -> None:
    task = history(store)[-1]
    before = state_of(store).read_bytes()
    for turn in range(3):
        after = replace(task, seq=task.seq + 1, feedback=(f"turn {turn}",))
        store.commit(task, after, events.AlarmRang(at=START))
        task = after
    assert state_of(store).read_bytes() == before
    assert store.load(task.id).task.feedback == ("turn 2",)
    store.settle()
    assert json.loads(state_of(store).read_bytes())["seq"] == task.seq


def test_folders_of_tickets_that_were_never_accepted_are_removed_and_no_others(store: FolderStore) -> None:
    history(store)
    unborn, odd = store.folder("LOCAL-1"), store.folder("LOCAL-2")
    for folder in (unborn, odd, store.folder("LOCAL-3")):
        folder.mkdir()
        (folder / "ticket.json").write_text("{}")
    (unborn / ".pipeline.toml.partial").touch()
    (odd / "notes.md").touch()
    assert sorted(store.remove_unborn()) == ["LOCAL-1", "LOCAL-3"]
    assert not unborn.exists()
    assert odd.exists()
    assert opened_again(store).task.id == NAME_OF_TASK


def test_a_store_holds_no_file_open_for_a_task_at_rest(store: FolderStore) -> None:
    before = psutil.Process().num_fds()
    for number in range(20):
        task = a_task(store, f"LOCAL-{number}")
        store.commit(None, task, events.TaskSubmitted(at=START, task=task))
        store.settle()
    assert psutil.Process().num_fds() == before


def test_an_edit_that_the_next_decision_would_overwrite_is_set_aside_first(store: FolderStore) -> None:
    task = history(store)[-1]
    edited = state_of(store).read_bytes().replace(b'"base_branch": "main"', b'"base_branch": "mine"')
    state_of(store).write_bytes(edited)
    store.commit(task, replace(task, seq=task.seq + 1, feedback=("newer",)), events.AlarmRang(at=START))
    (found,) = store.settle()
    assert found.changed == ("/base_branch",)
    assert (store.folder(task.id) / found.kept_as).read_bytes() == edited
    assert json.loads(state_of(store).read_bytes())["base_branch"] == "main"
    assert store.settle() == []
