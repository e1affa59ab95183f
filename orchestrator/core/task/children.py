"""The children of a task: tasks of their own that together do the work of one of its stages.

A plan file names them, with what each depends on. They are made once, because a child's id follows from its parent's id
and its key in the plan.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256

import orjson

from orchestrator.formats.codec import from_json

_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,39}")

MOST_CHILDREN = 1000
"""How many children one plan may name."""


class ChildStatus(StrEnum):
    """What became of a child, as its parent knows it."""

    PLANNED = "planned"
    SUBMITTED = "submitted"
    STOPPING = "stopping"
    """It is a task that is to be cancelled, because another child failed or the parent ended."""
    COMPLETED = "completed"
    FAILED = "failed"
    SKIPPED = "skipped"

    @property
    def is_live(self) -> bool:
        """Whether the child is a task that has not ended."""
        return self in (ChildStatus.SUBMITTED, ChildStatus.STOPPING)

    @property
    def is_open(self) -> bool:
        """Whether the child still has to end."""
        return self is ChildStatus.PLANNED or self.is_live


class OnChildFailure(StrEnum):
    """What a failed child means for the others."""

    STOP = "stop"
    """All others are cancelled."""
    SKIP_DEPENDANTS = "skip_dependants"
    """Those that depend on it are skipped, the others continue."""
    GO_ON = "go_on"
    """The others continue, also those that depend on it; a child whose tries are used up waits for nobody and fails."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildPlan:
    """A child as the plan names it; `after` has the keys of those it depends on, `digest` identifies its text.

    `pipeline` is empty for the usual one of the stage.
    """

    key: str
    title: str
    after: tuple[str, ...] = ()
    digest: str = ""
    pipeline: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """A child as its parent knows it. `task` is its id, `commit` its work, `reason` why it failed or was skipped."""

    plan: ChildPlan
    task: str
    status: ChildStatus = ChildStatus.PLANNED
    commit: str | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildDraft:
    """A child with its text, the ticket of its task, and the files that the folder of its task gets."""

    key: str
    title: str
    text: str
    after: tuple[str, ...] = ()
    pipeline: str = ""
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def plan(self) -> ChildPlan:
        """What the parent keeps of it."""
        files = "".join(f"\n{name}\n{text}" for name, text in self.files.items())
        digest = sha256(f"{self.title}\n{self.text}{files}".encode()).hexdigest()[:16]
        return ChildPlan(key=self.key, title=self.title, after=self.after, digest=digest, pipeline=self.pipeline)


@dataclass(frozen=True, slots=True, kw_only=True)
class _WrittenChild:
    """A child as an agent may write it down: without files, because these are names in a task's own folder."""

    key: str
    title: str
    text: str
    after: tuple[str, ...] = ()
    pipeline: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _ChildrenFile:
    children: tuple[_WrittenChild, ...]


def read_children(text: str) -> tuple[ChildDraft, ...]:
    """Return the children of a JSON document `{"children": [{"key", "title", "text", "after"}]}`. Raises ValueError."""
    try:
        written = from_json(_ChildrenFile, orjson.loads(text)).children
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(
            f'it must be a JSON object like {{"children": [{{"key": "A", "title": "…", "text": "…", "after": []}}]}}: '
            f"{error!s:.200}"
        ) from error
    return tuple(
        ChildDraft(key=one.key, title=one.title, text=one.text, after=one.after, pipeline=one.pipeline)
        for one in written
    )


def parent_id(child: str) -> str:
    """Return the id of the task whose child has this id; empty if it is nobody's child."""
    return child.rpartition(".")[0]


def problems_of(plans: Sequence[ChildPlan], pipelines: Sequence[str] = ()) -> tuple[str, ...]:
    """Return why these children cannot be made, in words for an agent: malformed keys, keys used twice or unknown,
    other pipelines than these, and circles.
    """
    if len(plans) > MOST_CHILDREN:
        return (f"it names {len(plans)} children; at most {MOST_CHILDREN} are allowed",)
    uses = Counter(plan.key for plan in plans)
    found = [
        f"{key!r:.80} is not a key: letters, digits and dashes, at most 40" for key in uses if not _KEY.fullmatch(key)
    ]
    found += [f"it names {key} {count} times" for key, count in uses.items() if count > 1]
    found += [
        f"{plan.key} depends on {key:.80}, which it does not name"
        for plan in plans
        for key in plan.after
        if key not in uses
    ]
    found += [
        f"{plan.key} wants the pipeline {plan.pipeline!r:.80}; possible are {', '.join(pipelines)}"
        for plan in plans
        if plan.pipeline not in ("", *pipelines)
    ]
    return tuple(found) or _cycles(plans)


def _cycles(plans: Iterable[ChildPlan]) -> tuple[str, ...]:
    """Return the keys that depend on themselves through others, as one problem."""
    waiting = {plan.key: set(plan.after) for plan in plans}
    ready = [key for key, after in waiting.items() if not after]
    dependants: dict[str, list[str]] = {}
    for key, after in waiting.items():
        for other in after:
            dependants.setdefault(other, []).append(key)
    while ready:
        done = ready.pop()
        del waiting[done]
        for key in dependants.get(done, ()):
            waiting[key].discard(done)
            if not waiting[key]:
                ready.append(key)
    return (f"these depend on each other in a circle: {', '.join(sorted(waiting)[:20])}",) if waiting else ()
