"""Schemas of disk space: what takes it, what would be removed and why, and what stays."""

from datetime import datetime

from pydantic import Field

from orchestrator.core.retention.plan import Action
from orchestrator.core.retention.policy import Kind
from orchestrator.server.schemas.base import Instant, RequestBody, Utf8, View, Words

MOST_TASKS_NAMED = 500


class KindUsageView(View):
    """What one kind of files takes, in bytes, and how long it is kept.

    `due_size` would be removed now, as far as it exists elsewhere too; `next_at` is when more becomes due by its age.
    `keep_days`, `keep_count` and `keep_bytes` are the limits; null is without limit.
    """

    kind: Kind
    size: int
    items: int
    due_size: int
    due_items: int
    next_at: datetime | None
    keep_days: float | None
    keep_count: int | None
    keep_bytes: int | None


class TaskUsageView(View):
    """What the files of one task take, in bytes, by their kind."""

    task: str
    title: Words
    size: int
    kinds: dict[Kind, int]


class OtherUsageView(View):
    """What else takes space in the data folder, in bytes."""

    name: str
    size: int


class DiskView(View):
    """What takes space in the data folder, in bytes, and what housekeeping would do about it.

    `free` and `total` are those of the disk; below `floor` every agent is frozen, and `warning` says so before.
    `incomplete` names the folders that hold more than was counted. `tasks` are the largest ones. The oldest size of a
    worktree or a repository is of `measured_at`.
    """

    at: datetime
    measured_at: datetime
    free: int
    total: int
    floor: int
    used: int
    due_size: int
    uncompressed: int
    automatic: bool
    warning: str
    kinds: tuple[KindUsageView, ...]
    tasks: tuple[TaskUsageView, ...]
    tasks_with_files: int
    others: tuple[OtherUsageView, ...]
    incomplete: tuple[str, ...]


class PruneBody(RequestBody):
    """What may be removed: of these kinds and tasks, all if none is named.

    Without `before` the settings decide; with it, whatever was used last before that time may go, quarantine and whole
    tasks only if their kind is named. With `dry_run` nothing is removed.
    """

    dry_run: bool = False
    before: Instant | None = None
    kinds: tuple[Kind, ...] = ()
    tasks: tuple[Utf8, ...] = Field(default=(), max_length=MOST_TASKS_NAMED)


class RemovalView(View):
    """An item that was or would be removed, compressed or archived: its size in bytes, its age, and the rule."""

    action: Action
    kind: Kind
    task: str
    name: str
    size: int
    since: datetime
    rule: str


class KeptView(View):
    """An item that is due by a rule, but stays for this reason."""

    kind: Kind
    task: str
    name: str
    size: int
    since: datetime
    rule: str
    reason: Words


class PruneView(View):
    """What was done, or with `dry_run` would be: `freed` bytes in all; `more` says that the same request does more.

    `kept_items` counts everything that is due but stays; `kept` has the first of it.
    """

    dry_run: bool
    removed: tuple[RemovalView, ...]
    kept: tuple[KeptView, ...]
    kept_items: int
    freed: int
    more: bool
