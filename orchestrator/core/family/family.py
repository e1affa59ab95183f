"""A family of pipelines: what its pipelines share, as data and pure functions for an engine that knows no family.

Each function gets the task, and the files that it may read of it; none does input or output of its own.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from orchestrator.core.events.callback import Callback
from orchestrator.core.family.verdict import VerdictReader, read_verdict
from orchestrator.core.records.projection import Projection
from orchestrator.core.task.children import ChildDraft, read_children
from orchestrator.core.task.guards import Guard
from orchestrator.core.task.task import Task
from orchestrator.core.task.task_policy import Autonomy


class Files(Protocol):
    """What a family may read of a task: regular UTF-8 files of at most 2 MiB; None stands for any other."""

    def artifact(self, name: str) -> str | None:
        """Return the text of a file in the task's own folder."""

    def committed(self, path: str) -> str | None:
        """Return the text of a file of the work as it stands: of the worktree, or of the commit that it starts from."""

    def names(self, folder: str) -> tuple[str, ...]:
        """Return the paths of the files below a folder of the work, sorted, at most 1,000; "." is its top."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """A submission as its family sees it: `files` came with it, `keys` are those of all tickets of its repository."""

    text: str
    title: str
    pipeline: str
    ticket: str = ""
    """The key of its ticket, if it was given one."""
    keys: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """How a task begins where its family decides that: empty and None leave it as it was submitted.

    `key` names its ticket, `pipeline` is another of the same family, `files` are written to the task's folder.
    """

    key: str = ""
    pipeline: str = ""
    autonomy: Autonomy | None = None
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """Files for the branch, by path, and the message of the commit that puts them there."""

    message: str = ""
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """What a family finds in a file: `problems` keep the guard `files_valid` closed, its own guards see `marks`."""

    problems: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()


ChildrenReader = Callable[[str, Files], tuple[ChildDraft, ...]]
"""Reads a plan of children. Raises ValueError, with a text for its author, if it is malformed."""


def begin_as_submitted(submitted: Submitted, files: Files) -> Begun:
    """Leave everything as it was submitted."""
    del submitted, files
    return Begun()


def read_children_file(text: str, files: Files) -> tuple[ChildDraft, ...]:
    """Return the children of a JSON document that has all of them. Raises ValueError."""
    del files
    return read_children(text)


def examine_nothing(task: Task, name: str, text: str, files: Files) -> Examined:
    """Find nothing."""
    del task, name, text, files
    return Examined()


def prepare_nothing(task: Task, stage: str, files: Files) -> Mapping[str, str]:
    """Return no files."""
    del task, stage, files
    return {}


def say_nothing(task: Task, stage: str) -> str:
    """Return no text."""
    del task, stage
    return ""


CallbackComposer = Callable[[Task, Files, str], tuple[Callback, ...]]
"""Composes callbacks of a task from its files and the last note of its agent."""


def record_nothing(task: Task, stage: str, files: Files, at: datetime) -> Records:
    """Return no files."""
    del task, stage, files, at
    return Records()


@dataclass(frozen=True, slots=True, kw_only=True)
class StateAlias:
    """A state of the original system that is a result of a stage: the stage passed, or it failed."""

    stage: str
    failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """What the pipelines of one family share, as data for an engine that knows no family by name.

    A file or pattern that is empty means that the family has none.
    """

    name: str
    guards: Mapping[str, type[Guard]] = field(default_factory=dict)
    """Guards of its own, by the names that its pipeline files use."""
    aliases: Mapping[str, StateAlias] = field(default_factory=dict)
    """States that callers of the state operations may name instead of a stage."""
    analysis: str = ""
    related_code: str = ""
    """Files that a pull request's text is made from: the analysis, and the related code."""
    release_summary: str = ""
    """The file that the changelog's entry is made from."""
    failure_analysis: str = ""
    """The JSON file in which an agent explains failed checks."""
    plan_fix: str = ""
    """Pattern of numbered files; the newest one takes the place of the plan."""
    draft: str = ""
    """Pattern of numbered drafts, each of which is reviewed before it counts as done."""
    draft_review: str = ""
    """The file that a review of a draft leaves if it asks for changes."""
    draft_budget: str = ""
    """The budget that counts the drafts which their review rejected: all but one in each visit of the stage."""
    plan_details: str = ""
    """Where an agent finds details of the plan, in words."""
    listing: str = ""
    """The given file that a list of a tracker's tickets becomes: JSON lines with id, title, description, tags and url.
    """
    given: tuple[str, ...] = ()
    """Names of files that a submission may bring; the gate of the first stage finds them as if an agent left them."""
    begin: Callable[[Submitted, Files], Begun] = begin_as_submitted
    """Decides how a task begins, when it is submitted. Raises ValueError, with a text for the submitter."""
    read_children: ChildrenReader = read_children_file
    """Reads the file that names the children of a stage."""
    read_verdict: VerdictReader = read_verdict
    """Reads what the agent of a verifying stage left."""
    examine: Callable[[Task, str, str, Files], Examined] = examine_nothing
    """Looks at a file that an agent of the task's stage left: its name, and its text."""
    prepare: Callable[[Task, str, Files], Mapping[str, str]] = prepare_nothing
    """Composes files, by name, that the task's folder gets before an agent of the stage starts."""
    brief: Callable[[Task, str], str] = say_nothing
    """Returns what an agent of the stage is told in each turn beyond what the engine tells."""
    records: Callable[[Task, str, Files, datetime], Records] = record_nothing
    """Composes what a stage that records puts on the branch."""
    callbacks: CallbackComposer | None = None
    """Composes what other programs are to be told about the task as it is now."""
    projection: Projection | None = None
    """Composes the files that show a task of the family to other programs, below `records/`."""


PLAIN = Family(name="plain")
"""A family without names, files or guards of its own."""
