"""Foreign edits, second daemons and hostile folders."""

import json
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from signal import SIGKILL

import orjson
import psutil
import pytest

from orchestrator.core.events import events
from orchestrator.core.task.task import TaskStatus
from orchestrator.formats.files import sealed, unsealed
from orchestrator.pipelines.given_files import write_given
from orchestrator.redaction.rules import Redactor
from orchestrator.storage.journal import NAME, DamagedJournal, seal_key
from orchestrator.storage.records import (
    LoadedTask,
    StoreError,
    StoreInUse,
    TaskSummary,
    UncommittedTask,
    UnreadableTask,
)
from orchestrator.storage.state_document import to_document
from orchestrator.storage.state_file import LARGEST_TOP, FutureFile
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


def test_a_state_edited_while_the_daemon_was_down_is_set_aside_and_restored(store: FolderStore) -> None:
    task = history(store)[-1]
    edited = orjson.loads(state_of(store).read_bytes()) | {"status": "completed", "title": "mine"}
    store.release(task.id)
    state_of(store).write_bytes(orjson.dumps(edited))
    assert [found.status for found in store.summaries() if isinstance(found, TaskSummary)] == [TaskStatus.IN_PROGRESS]
    found = store.load(task.id, keep_open=True)
    assert (found.task, found.foreign) == (task, "state.json.foreign-6")
    assert set(found.changed) >= {"/status", "/title"}
    assert orjson.loads((store.files.path_of(task.id) / "state.json.foreign-6").read_bytes())["title"] == "mine"
    assert opened_again(store) == LoadedTask(task=task)


def test_a_state_edited_while_the_daemon_runs_is_set_aside_and_restored(store: FolderStore) -> None:
    task = history(store)[-1]
    assert store.foreign_edits(task) == []
    state_of(store).write_bytes(state_of(store).read_bytes().replace(b"main", b"evil"))
    assert [(edit.kept_as, edit.changed) for edit in store.foreign_edits(task)] == [
        ("state.json.foreign-6", ("/base_branch",))
    ]
    state_of(store).write_bytes(b"second edit of the same state")
    assert [edit.kept_as for edit in store.foreign_edits(task)] == ["state.json.foreign-6-2"]
    assert store.foreign_edits(task) == []
    assert opened_again(store) == LoadedTask(task=task)


def test_a_task_is_read_once_until_anybody_writes_its_files(store: FolderStore) -> None:
    task = history(store)[-1]
    first = store.load(task.id)
    assert store.load(task.id) is first
    later = decided(store, task, title="another")
    assert store.load(task.id).task == later
    before = state_of(store).stat()
    state_of(store).write_bytes(state_of(store).read_bytes().replace(b"main", b"evil"))
    os.utime(state_of(store), ns=(before.st_atime_ns, before.st_mtime_ns))
    assert "/base_branch" in store.load(task.id).changed
    store.delete(task.id)
    with pytest.raises(StoreError):
        store.load(task.id)


def test_telemetry_does_not_replace_a_state_that_was_edited_while_the_daemon_runs(store: FolderStore) -> None:
    task = history(store)[-1]
    edited = state_of(store).read_bytes().replace(b"main", b"evil")
    state_of(store).write_bytes(edited)
    seen = replace(task, agent=replace(task.agent, read_offset=12345))
    store.note_telemetry(seen)
    assert state_of(store).read_bytes() == edited
    assert [edit.changed for edit in store.foreign_edits(seen)] == [("/base_branch",)]
    assert orjson.loads(state_of(store).read_bytes())["agent"]["read_offset"] == 12345


@pytest.mark.parametrize("content", [None, b""])
def test_a_state_deleted_or_emptied_while_the_daemon_runs_is_restored(
    store: FolderStore, content: bytes | None
) -> None:
    task = history(store)[-1]
    state_of(store).unlink()
    if content is not None:
        state_of(store).write_bytes(content)
    assert store.foreign_edits(task) == []
    assert opened_again(store) == LoadedTask(task=task)


def test_an_older_state_put_back_while_the_daemon_runs_is_a_foreign_edit(store: FolderStore) -> None:
    task, earlier = history(store)[-1], b""
    earlier = state_of(store).read_bytes()
    task = decided(store, task, feedback=("newer",))
    state_of(store).write_bytes(earlier)
    assert store.foreign_edits(task)
    assert opened_again(store).task == task


def test_a_state_of_a_newer_version_is_left_alone_with_instructions(store: FolderStore) -> None:
    task = history(store)[-1]
    store.release(task.id)
    content = sealed({**to_document(task), "schema_version": 3, "journal_bytes": 1})
    state_of(store).write_bytes(content)
    with pytest.raises(FutureFile, match="version 3"):
        store.load(task.id, keep_open=True)
    (listed,) = store.summaries()
    assert isinstance(listed, UnreadableTask)
    assert "version 3" in str(listed)
    assert state_of(store).read_bytes() == content


def test_a_journal_damaged_in_the_middle_names_the_byte(store: FolderStore) -> None:
    history(store)
    store.release(NAME_OF_TASK)
    state_of(store).unlink()
    content = bytearray(journal_of(store).read_bytes())
    second = content.index(b"\n") + 1
    content[second + 3] ^= 0xFF
    journal_of(store).write_bytes(content)
    with pytest.raises(DamagedJournal, match=rf"decision 2 .* byte {second}; "):
        store.load(NAME_OF_TASK)


@pytest.mark.parametrize("left", [0, 100])
def test_a_journal_truncated_while_the_daemon_runs_is_mended_by_the_next_decision(
    store: FolderStore, left: int
) -> None:
    task = history(store)[-1]
    os.truncate(journal_of(store), left)
    after = decided(store, task)
    assert numbers(store) == [task.seq, after.seq]
    state_of(store).unlink()
    found = opened_again(store).task
    assert replace(found, agent=after.agent) == after


def test_a_journal_that_lost_decisions_of_which_no_state_is_left_accepts_no_other(store: FolderStore) -> None:
    task = history(store)[-1]
    whole = journal_of(store).read_bytes().splitlines(keepends=True)
    journal_of(store).write_bytes(b"".join(whole[:-2]))
    folder = state_of(store).parent
    state_of(store).unlink()
    state_of(store).mkdir()
    (folder / "checkpoints").touch()
    with pytest.raises(DamagedJournal, match="was truncated to"):
        decided(store, task)


def test_foreign_lines_appended_to_the_journal_are_cut_off(store: FolderStore) -> None:
    task = history(store)[-1]
    with journal_of(store).open("ab") as journal:
        journal.write(b'{"seq":7,"change":[]}\n')
    after = decided(store, task, feedback=("ours",))
    state_of(store).unlink()
    assert opened_again(store).task == after


def test_a_task_is_created_only_once(store: FolderStore) -> None:
    tasks = history(store)
    with pytest.raises(StoreError, match="already exists"):
        store.commit(None, tasks[0], events.TaskSubmitted(at=START, task=tasks[0]))
    assert opened_again(store).task == tasks[-1]


HOLDER = """
import sys
from pathlib import Path
from orchestrator.storage.store import FolderStore
store = FolderStore(Path(sys.argv[1]))
print("open", flush=True)
sys.stdin.read()
"""
FORKING_HOLDER = """
import os, sys
from pathlib import Path
from orchestrator.storage.store import FolderStore
store = FolderStore(Path(sys.argv[1]))
if os.fork():
    os._exit(0)
sys.stdin.read()
"""
"""Dies while a child that runs no program of its own yet still shares its lock."""


def test_a_second_daemon_is_refused_with_the_first_ones_pid_until_that_has_ended(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "data")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as first:
        assert first.stdout
        assert first.stdout.readline() == b"open\n"
        with pytest.raises(StoreInUse, match=rf"pid {first.pid}"):
            FolderStore(tmp_path / "data")
        first.send_signal(SIGKILL)
        first.wait()
    FolderStore(tmp_path / "data").close()


def test_the_lock_that_a_dead_daemon_left_to_a_child_is_waited_for(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FORKING_HOLDER, str(tmp_path / "data")]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as first:
        assert first.wait() == 0
        assert first.stdin
        with pytest.raises(StoreInUse), ThreadPoolExecutor(1) as other:
            other.submit(FolderStore, tmp_path / "data").result()
        with ThreadPoolExecutor(1) as other:
            waiting = other.submit(FolderStore, tmp_path / "data")
            first.stdin.close()
            waiting.result().close()


def test_all_files_are_private_to_their_owner(store: FolderStore) -> None:
    task = history(store)[-1]
    store.save_checkpoint(task, saved(task, 1))
    for path in [store.data_dir, *store.data_dir.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


@pytest.mark.parametrize("kind", ["fifo", "folder", "link", "dangling link", "socket name"])
def test_a_state_that_is_not_a_plain_file_is_set_aside(store: FolderStore, tmp_path: Path, kind: str) -> None:
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
    assert [type(found) for found in store.summaries()] == [TaskSummary]
    assert store.load(task.id, keep_open=True) == LoadedTask(task=task, foreign="state.json.foreign-6-2")
    assert opened_again(store) == LoadedTask(task=task)
    assert secret.read_text() == "{}"


def test_a_trap_under_the_name_of_a_temporary_state_file_is_removed(store: FolderStore, tmp_path: Path) -> None:
    task, secret = history(store)[-1], tmp_path / "secret"
    secret.write_text("keep me")
    partial = store.files.path_of(task.id) / ".state.json.partial"
    partial.symlink_to(secret)
    task = decided(store, task)
    os.mkfifo(partial)
    task = decided(store, task)
    assert opened_again(store) == LoadedTask(task=task)
    assert secret.read_text() == "keep me"


def test_the_listing_skips_every_hostile_folder(store: FolderStore) -> None:
    good = history(store)[-1]
    for name in ("link", "fifo", "copy", "empty", "broken", "strange"):
        (store.files.root / name).mkdir()
    (store.files.root / "stray file").touch()
    odd = os.fsencode(store.files.root) + b"/\xff\n\x1b[31m"
    os.mkdir(odd)  # noqa: PTH102 - a name that no str can express
    (store.files.root / "link" / NAME).symlink_to(journal_of(store))
    os.mkfifo(store.files.root / "fifo" / NAME)
    os.mkfifo(store.files.root / "fifo" / "state.json")
    (store.files.root / "copy" / NAME).write_bytes(journal_of(store).read_bytes())
    (store.files.root / "copy" / "state.json").write_bytes(state_of(store).read_bytes())
    (store.files.root / "broken" / NAME).write_bytes(b'{"seq":1,"change":[{"op":"add","path":"","value":1}]}\n')
    (store.files.root / "strange" / NAME).write_bytes(b'{"seq":1,"change":[3]}\n')
    found = list(store.summaries())
    assert [one.id for one in found if isinstance(one, TaskSummary)] == [good.id]
    problems = [str(one) for one in found if isinstance(one, StoreError)]
    assert len(problems) == 8
    assert all(problem.isprintable() for problem in problems)
    assert any("the folder copy holds the task" in problem for problem in problems)
    for name in ("link", "fifo", "copy", "../tasks/" + good.id, ".."):
        with pytest.raises(StoreError):
            store.load(name)


def listed(store: FolderStore) -> TaskSummary:
    (found,) = store.summaries()
    assert isinstance(found, TaskSummary)
    return found


def test_a_list_believes_only_what_is_sealed(store: FolderStore) -> None:
    task = history(store)[-1]
    truth, state = listed(store), state_of(store)
    content = state.read_bytes()
    state.write_bytes(content.replace(task.title.encode(), b"Something else"))
    assert listed(store) == truth
    state.write_bytes(sealed(unsealed(content, key=seal_key(state.parent)) or {}))
    assert listed(store) == truth, "written by a version that sealed no top"
    state.write_bytes(content[: content.index(b'"states": ') + 20])
    assert listed(store) == truth, "torn below what a list shows"


def test_a_list_shows_a_title_that_fills_pages(store: FolderStore) -> None:
    long = "x" * 3 * LARGEST_TOP
    decided(store, history(store)[-1], title=long)
    assert listed(store).title == long


def test_a_burst_of_decisions_is_in_the_journal_at_once_and_in_the_state_after_settling(store: FolderStore) -> None:
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


def test_only_folders_of_tickets_that_were_never_accepted_are_removed(store: FolderStore) -> None:
    history(store)
    unborn, odd = store.files.path_of("LOCAL-1"), store.files.path_of("LOCAL-2")
    for folder in (unborn, odd, store.files.path_of("LOCAL-3")):
        folder.mkdir()
        (folder / "ticket.json").write_text("{}")
    (unborn / ".pipeline.toml.partial").touch()
    (unborn / "origin.json").touch()
    (unborn / "journal.jsonl").write_text('{"seq": 1, "timest')
    write_given(store.files, "LOCAL-3", {"work/TASK-01.md": "the first"}, {"batch.json": "{}"}, Redactor(()))
    (odd / "notes.md").touch()
    found = [one for one in store.summaries() if isinstance(one, UncommittedTask)]
    assert [one.task_id for one in found] == ["LOCAL-1", "LOCAL-3"]
    for one in found:
        store.delete(one.task_id)
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
    assert (store.files.path_of(task.id) / found.kept_as).read_bytes() == edited
    assert json.loads(state_of(store).read_bytes())["base_branch"] == "main"
    assert store.settle() == []
