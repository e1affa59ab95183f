"""The board: tasks in columns by status or stage, a few cards of each, and what lists can be narrowed to."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import pytest_asyncio

from orchestrator import clock
from orchestrator.core.task.task import Priority, Task
from orchestrator.daemon.inspection.board import ELSEWHERE, ENDED, Board, Grouping
from orchestrator.daemon.services.tasks import TaskQuery
from orchestrator.daemon.task_factory import Submission
from tests.fakes.in_process_daemon import InProcessDaemon, create_daemon, serving
from tests.fakes.repositories import repository


@pytest_asyncio.fixture
async def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[InProcessDaemon]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    repository(tmp_path / "repo")
    daemon = create_daemon(tmp_path / "data")
    async with serving(daemon):
        yield daemon
    daemon.store.close()


async def drafted(
    daemon: InProcessDaemon, text: str, pipeline: str = "custom", priority: Priority = Priority.NORMAL
) -> Task:
    repo = daemon.settings.data_dir.parent / "repo"
    submission = Submission(text=text, repo=repo, pipeline=pipeline, priority=priority, draft=True)
    return await daemon.accept(submission, "test")


def columns(board: Board) -> dict[str, tuple[int, list[str]]]:
    return {
        column.name: (column.count, [one.title for one in column.tasks]) for column in board.columns if column.count
    }


async def test_by_status_there_is_a_column_for_each_with_the_next_tasks_first(daemon: InProcessDaemon) -> None:
    for text, priority in (("a", Priority.LOW), ("b", Priority.NORMAL), ("c", Priority.CRITICAL), ("d", Priority.LOW)):
        await drafted(daemon, text, priority=priority)
    for text in ("first", "second", "third"):
        task = await drafted(daemon, text)
        await daemon.service.tasks.cancel(task.id, "test")
    await daemon.inbox.settled()
    board = await daemon.service.board.board(TaskQuery(), most=2)
    assert columns(board) == {"draft": (4, ["c", "b"]), "cancelled": (3, ["third", "second"])}
    live = ["draft", "pending", "in_progress", "review", "blocked"]
    assert [column.name for column in board.columns] == [*live, "completed", "failed", "cancelled"]
    assert board.count == 7
    narrow = await daemon.service.board.board(TaskQuery(text="second"))
    assert (columns(narrow), narrow.count) == ({"cancelled": (1, ["second"])}, 1)


async def test_by_stage_the_columns_are_those_of_the_pipeline_with_the_most_live_tasks(daemon: InProcessDaemon) -> None:
    for text in ("one", "two"):
        await drafted(daemon, text, "review_only")
    for text in ("x", "y", "z"):
        ended = await drafted(daemon, text, "custom")
        await daemon.service.tasks.cancel(ended.id, "test")
    board = await daemon.service.board.board(TaskQuery(), Grouping.STAGE)
    declared = daemon.definitions.pipelines["review_only"]
    assert board.pipeline == "review_only"
    assert [column.name for column in board.columns] == [*declared.stages, ENDED]
    assert columns(board) == {declared.start: (2, ["one", "two"])}
    other = await daemon.service.board.board(TaskQuery(pipeline="custom"), Grouping.STAGE)
    assert columns(other)[ENDED][0] == 3


async def test_a_task_in_a_stage_that_its_pipeline_has_no_more_is_not_lost(daemon: InProcessDaemon) -> None:
    task = await drafted(daemon, "strange")
    daemon.supervisor.tasks[task.id] = replace(task, stage="GONE")
    board = await daemon.service.board.board(TaskQuery(), Grouping.STAGE)
    assert columns(board) == {ELSEWHERE: (1, ["strange"])}


async def test_lists_can_be_narrowed_to_declared_pipelines_and_known_repositories(
    daemon: InProcessDaemon, tmp_path: Path
) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain/a.txt").write_text("a")
    await daemon.accept(Submission(text="there", repo=tmp_path / "plain", no_git=True, draft=True), "test")
    await drafted(daemon, "here")
    facets = await daemon.service.board.facets()
    assert facets.pipelines == tuple(sorted(daemon.definitions.pipelines))
    assert facets.repositories == (str(tmp_path / "repo"),)


async def test_a_thousand_tasks_have_one_card_each_at_most(daemon: InProcessDaemon) -> None:
    task, at = await drafted(daemon, "many"), clock.now()
    for number in range(1000):
        one = replace(task, id=f"{task.id}-{number}", timing=replace(task.timing, created_at=at + timedelta(number)))
        daemon.supervisor.tasks[one.id] = one
    (drafts,) = [column for column in (await daemon.service.board.board(TaskQuery())).columns if column.count]
    assert (drafts.count, len(drafts.tasks), len({one.id for one in drafts.tasks})) == (1001, 20, 20)
