"""The files that show tasks to other programs: written after decisions, and made up for at the next start."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from orchestrator.core.events.events import AlarmRang
from orchestrator.core.records.projection import Projected, Projection
from orchestrator.core.task.children import Child, ChildPlan, ChildStatus
from orchestrator.core.task.task import Task, TaskStatus
from orchestrator.daemon.reporting.projections import BEHIND, ProjectionWriter
from orchestrator.storage.store import FolderStore
from tests.fakes.tasks import TASK_ID, full_pipeline, submitted
from tests.fakes.world import START

EVENT = AlarmRang(at=START)
CHILD, OTHER = f"{TASK_ID}.A", f"{TASK_ID}.B"


@dataclass(slots=True)
class Titles(Projection):
    """Shows the titles of a task and of its children, and counts how often it is asked."""

    asked: list[str] = field(default_factory=list)
    broken: bool = False

    def facts(self, child: Task, artifact: Callable[[str], str]) -> object:
        self.asked.append(child.id)
        assert child.title != "a bug"
        return {"title": child.title, "left": artifact("left.json")}

    def files(self, projected: Projected) -> Mapping[str, str]:
        assert not self.broken
        self.asked.append(projected.task.id)
        return {
            "titles.json": json.dumps([projected.task.title, *projected.children.values()]),
            "below/reason.md": f"{projected.task.block_reason} {projected.artifact('note.md')}",
            "saves.txt": projected.record("saves.txt") + "x",
        }


@asynccontextmanager
async def writing(root: Path, projection: Projection | None) -> AsyncIterator[ProjectionWriter]:
    """A writer over a store whose only family has this projection."""
    pipeline = full_pipeline()
    shown = replace(pipeline, family=replace(pipeline.family, projection=projection))
    store = FolderStore(root)
    keeper = ProjectionWriter(store, lambda _: shown, lambda text: text.replace("hunter2", "[REDACTED]"))
    try:
        yield keeper
    finally:
        await keeper.close()
        store.close()


def stored(root: Path, task: Task) -> Task:
    """A task whose first decision is on disk."""
    store = FolderStore(root)
    task = replace(task, folder=str(store.files.path_of(task.id)), seq=1)
    store.commit(None, task, EVENT)
    store.close()
    return task


def a_parent(status: ChildStatus = ChildStatus.SUBMITTED, reason: str = "") -> Task:
    """A task with one child."""
    child = Child(plan=ChildPlan(key="A", title="a"), task=CHILD, status=status)
    return submitted(children=(child,), status=TaskStatus.IN_PROGRESS, block_reason=reason)


def a_child(title: str = "Add a flag") -> Task:
    """Its child."""
    return submitted(CHILD, parent=TASK_ID, title=title)


def records(root: Path) -> Path:
    return root / "tasks" / TASK_ID / "records"


def titles(root: Path) -> object:
    return json.loads((records(root) / "titles.json").read_text())


async def test_what_is_waited_for_is_on_disk_with_secrets_masked(tmp_path: Path) -> None:
    parent = stored(tmp_path, a_parent(reason="it said hunter2"))
    folder = tmp_path / "tasks" / TASK_ID
    (folder / "note.md").write_text("hunter2 again")
    stored(tmp_path, a_child())
    (tmp_path / "tasks" / CHILD / "left.json").write_text('{"key": "hunter2", "n": [1]}')
    async with writing(tmp_path, Titles()) as keeper:
        keeper.on_decision(parent, EVENT)
        await keeper.written(a_child())
        assert titles(tmp_path) == ["Add a flag", {"title": "Add a flag", "left": '{"key":"[REDACTED]","n":[1]}'}]
        assert (records(tmp_path) / "below/reason.md").read_text() == "it said [REDACTED] [REDACTED] again"


async def test_a_burst_of_decisions_is_written_once_and_the_last_one_counts(tmp_path: Path) -> None:
    parent, child = stored(tmp_path, a_parent()), stored(tmp_path, a_child())
    shows = Titles()
    async with writing(tmp_path, shows) as keeper:
        for number in range(1000):
            keeper.on_decision(replace(parent, title=f"title {number}"), EVENT)
            keeper.on_decision(replace(child, title=f"child {number}"), EVENT)
        await keeper.written(child)
        assert titles(tmp_path) == ["title 999", {"title": "child 999", "left": ""}]
        assert shows.asked == [CHILD, TASK_ID]


async def test_what_did_not_change_is_not_written_again(tmp_path: Path) -> None:
    parent = stored(tmp_path, a_parent(ChildStatus.PLANNED))
    async with writing(tmp_path, Titles()) as keeper:
        keeper.on_decision(parent, EVENT)
        await keeper.written(parent)
        file = records(tmp_path) / "titles.json"
        before = file.stat().st_mtime_ns, file.stat().st_ino
        keeper.on_decision(replace(parent, seq=2), EVENT)
        await keeper.written(parent)
        assert (file.stat().st_mtime_ns, file.stat().st_ino) == before
        assert (records(tmp_path) / "saves.txt").read_text() == "xx"


async def test_files_of_a_crash_are_made_up_for_at_the_next_start(tmp_path: Path) -> None:
    parent = stored(tmp_path, a_parent())
    stored(tmp_path, a_child(title="The child"))
    async with writing(tmp_path, Titles()) as first:
        first.on_decision(parent, EVENT)
    async with writing(tmp_path, Titles()) as keeper:
        keeper.catch_up(parent)
        await keeper.written(parent)
        assert titles(tmp_path) == ["Add a flag", {"title": "The child", "left": ""}]


async def test_a_mark_stays_until_the_end_of_a_task_is_shown(tmp_path: Path) -> None:
    parent = stored(tmp_path, a_parent())
    mark = tmp_path / "tasks" / TASK_ID / BEHIND
    async with writing(tmp_path, Titles()) as keeper:
        keeper.on_decision(parent, EVENT)
        await keeper.written(parent)
        assert mark.exists()
        ended = replace(
            a_parent(ChildStatus.COMPLETED), folder=parent.folder, status=TaskStatus.COMPLETED, title="ended"
        )
        keeper.on_decision(ended, EVENT)
        await keeper.written(parent)
        assert titles(tmp_path) == ["ended"]
        assert not mark.exists()


async def test_a_disk_that_refuses_and_a_bug_do_not_hold_up_the_work(tmp_path: Path) -> None:
    parent = stored(tmp_path, a_parent())
    shows = Titles()
    async with writing(tmp_path, shows) as keeper:
        (tmp_path / "tasks" / TASK_ID / "records").write_text("in the way")
        keeper.on_decision(parent, EVENT)
        await asyncio.wait_for(keeper.written(parent), 60)
        shows.broken = True
        keeper.on_decision(parent, EVENT)
        await asyncio.wait_for(keeper.written(parent), 60)
        shows.broken = False
        (tmp_path / "tasks" / TASK_ID / "records").unlink()
        keeper.on_decision(parent, EVENT)
        await asyncio.wait_for(keeper.written(parent), 60)
        assert titles(tmp_path) == ["Add a flag"]


async def test_one_child_that_cannot_be_shown_costs_only_its_own_part(tmp_path: Path) -> None:
    children = (
        *a_parent().children,
        Child(plan=ChildPlan(key="B", title="b"), task=OTHER, status=ChildStatus.SUBMITTED),
    )
    parent, child = stored(tmp_path, replace(a_parent(), children=children)), stored(tmp_path, a_child("a bug"))
    stored(tmp_path, replace(a_child("The other"), id=OTHER))
    async with writing(tmp_path, Titles()) as keeper:
        keeper.on_decision(parent, EVENT)
        await keeper.written(parent)
        assert titles(tmp_path) == ["Add a flag", {"title": "The other", "left": ""}]
        keeper.on_decision(replace(child, title="Mended"), EVENT)
        await keeper.written(parent)
        assert {"title": "Mended", "left": ""} in json.loads((records(tmp_path) / "titles.json").read_text())


async def test_a_family_without_such_files_gets_none_and_nobody_waits(tmp_path: Path) -> None:
    parent = stored(tmp_path, a_parent())
    async with writing(tmp_path, None) as keeper:
        keeper.on_decision(parent, EVENT)
        keeper.on_decision(a_child(), EVENT)
        await keeper.written(parent)
        assert not records(tmp_path).exists()
