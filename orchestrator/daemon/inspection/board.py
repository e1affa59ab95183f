"""The board: tasks in columns, by their status or by the stage of one pipeline, and what lists can be narrowed to."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.task import Priority, Task, TaskStatus
from orchestrator.daemon.services.task_index import ListedTask, TaskIndex, task_age
from orchestrator.daemon.services.tasks import TaskQuery, select
from orchestrator.formats.codec import stamp

MOST_CARDS = 20
"""Cards of a column, if nobody asks for another number."""
MOST_REPOSITORIES = 50
"""Repositories that are offered to choose from."""
ELSEWHERE, ENDED = "elsewhere", "ended"
"""Columns of the board by stage: for live tasks in a stage that the pipeline has no more, and for ended tasks."""

_RANK = {priority: -rank for rank, priority in enumerate(Priority)}


class Grouping(StrEnum):
    """What the columns of a board are."""

    STATUS = "status"
    STAGE = "stage"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column: a status, a stage, ELSEWHERE or ENDED; how many tasks it has, and the first ones.

    Live tasks are in the order in which they get a slot: by priority, then the oldest; ended ones newest end first.
    """

    name: str
    count: int
    tasks: tuple[ListedTask, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """The columns; `pipeline` is the one whose stages they are, if they are stages."""

    by: Grouping
    pipeline: str | None
    columns: tuple[Column, ...]
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Facets:
    """What a list can be narrowed to: declared pipelines, and repositories of tasks, that of the newest task first."""

    pipelines: tuple[str, ...]
    repositories: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardService:
    """The use cases of the board. `folders` is the path below which the daemon keeps plain folders as repositories."""

    index: TaskIndex
    pipelines: Callable[[], Mapping[str, Pipeline]]
    folders: str

    async def board(self, query: TaskQuery, by: Grouping = Grouping.STATUS, most: int = MOST_CARDS) -> Board:
        """Return the tasks that a query means in columns, with at most so many tasks each; its limit does not count.

        By stage, a query without a pipeline gets the one with the most live tasks.
        """
        return await asyncio.to_thread(self._board, await self.index.all_tasks(), query, by, most)

    def _board(self, every: Sequence[ListedTask], query: TaskQuery, by: Grouping, most: int) -> Board:
        pipeline = None
        if by is Grouping.STAGE:
            pipeline = query.pipeline or self._busiest(select(every, query))
            query = replace(query, pipeline=pipeline)
        found = select(every, query)
        names = self._stages(pipeline, found) if by is Grouping.STAGE else _statuses(found)
        columns: dict[str, list[ListedTask]] = {name: [] for name in names}
        for one in found:
            columns[_column(one, columns) if by is Grouping.STAGE else one.status.value].append(one)
        return Board(
            by=by,
            pipeline=pipeline,
            columns=tuple(_cut(name, tasks, most) for name, tasks in columns.items()),
            count=len(found),
        )

    async def facets(self) -> Facets:
        """Return what lists and boards can be narrowed to."""
        named = dict.fromkeys(
            one.source.repo if isinstance(one, Task) else one.repo for one in await self.index.all_tasks()
        )
        own = [repo for repo in named if not repo.startswith(f"{self.folders}/")]
        return Facets(pipelines=tuple(sorted(self.pipelines())), repositories=tuple(own[:MOST_REPOSITORIES]))

    def _busiest(self, tasks: Iterable[ListedTask]) -> str:
        """Return the pipeline with the most live tasks, then with the most tasks, then the first by name."""
        every, live = Counter[str](), Counter[str]()
        for one in tasks:
            every[one.pipeline] += 1
            live[one.pipeline] += not one.status.is_final
        return max(sorted(self.pipelines()), key=lambda name: (live[name], every[name]), default="")

    def _stages(self, pipeline: str | None, tasks: Iterable[ListedTask]) -> list[str]:
        """Return the columns for a pipeline's tasks, in the order of its file."""
        declared = self.pipelines().get(pipeline or "")
        stages = list(declared.stages) if declared else []
        has_others = any(not one.status.is_final and one.stage not in stages for one in tasks)
        return [*stages, *[ELSEWHERE] * has_others, ENDED]


def _statuses(tasks: Iterable[ListedTask]) -> list[str]:
    """Return every status as a column, live ones first, that of archived tasks only if there are any."""
    archived = any(one.status is TaskStatus.ARCHIVED for one in tasks)
    in_order = sorted(TaskStatus, key=lambda status: status.is_final)
    return [status.value for status in in_order if archived or status is not TaskStatus.ARCHIVED]


def _column(one: ListedTask, columns: Mapping[str, object]) -> str:
    if one.status.is_final:
        return ENDED
    return one.stage if one.stage in columns else ELSEWHERE


def _cut(name: str, tasks: list[ListedTask], most: int) -> Column:
    ended = [one for one in tasks if one.status.is_final]
    live = [one for one in tasks if not one.status.is_final]
    live.sort(key=lambda one: (_rank(one), task_age(one)))
    if len(live) < most:
        ended.sort(key=_changed, reverse=True)
    return Column(name=name, count=len(tasks), tasks=tuple((*live, *ended)[:most]))


def _rank(one: ListedTask) -> int:
    priority = one.schedule.priority if isinstance(one, Task) else one.priority
    return _RANK[priority or Priority.NORMAL]


def _changed(one: ListedTask) -> str:
    return stamp(one.updated_at) if isinstance(one, Task) else one.updated_at
