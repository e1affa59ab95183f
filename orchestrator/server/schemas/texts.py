"""Schemas of long texts: what a task's branch changes, and windows of transcripts."""

from typing import Literal

from pydantic import Field

from orchestrator.daemon.history.transcript_windows import MOST_ENTRIES
from orchestrator.formats.diffs.unified_diff import ChangeKind, FileKind, LineKind
from orchestrator.server.schemas.base import View, Words


class DiffFilter(View):
    """What of a diff: the list of files; one file, by its id or its path, from a `line` of its diff on; or a patch."""

    path: str = Field(default="", max_length=8192)
    line: int = Field(default=0, ge=0, le=10**9)
    format: Literal["json", "patch"] = "json"


class CommitView(View):
    """One commit of the branch."""

    sha: str
    subject: Words


class ChangedFileView(View):
    """A changed file; `additions` and `deletions` are null where lines were not counted, as in a binary file.

    `path` is shown with control characters escaped; `id` finds the file whatever it is called.
    """

    id: str
    path: Words
    old_path: Words
    status: ChangeKind
    kind: FileKind
    old_mode: str
    new_mode: str
    additions: int | None
    deletions: int | None
    binary: bool


class DiffView(View):
    """What a branch changes from `base` to `head`, as far as it is committed.

    `complete` says whether all files are listed, `counted` whether lines were counted.
    """

    task: str
    branch: Words
    base: str
    head: str
    files: tuple[ChangedFileView, ...]
    complete: bool
    counted: bool
    additions: int
    deletions: int
    commits: tuple[CommitView, ...]


class DiffLineView(View):
    """One line; `left_out` counts the characters that were cut, and `has_end` is false for a last line without end."""

    kind: LineKind
    old: int | None
    new: int | None
    text: Words
    left_out: int
    has_end: bool


class HunkView(View):
    """Lines that belong together."""

    heading: Words
    old_start: int
    new_start: int
    lines: tuple[DiffLineView, ...]


class FileDiffView(View):
    """The change of one file; where it was cut, the rest is asked for with `line` = `next_line`."""

    task: str
    base: str
    head: str
    file: ChangedFileView
    hunks: tuple[HunkView, ...]
    next_line: int | None = Field(default=None)


class WindowFilter(View):
    """Which part of a transcript: entries from offset `at` on, or those before it; by default its beginning or end."""

    at: int | None = Field(default=None, ge=0, lt=2**62)
    backward: bool = False
    limit: int = Field(default=100, ge=1, le=MOST_ENTRIES)
    kind: tuple[str, ...] = Field(default=(), max_length=20)
    text: str = Field(default="", max_length=500)


class EditView(View):
    """A change that a tool was asked to make to a file."""

    path: Words
    old: Words
    new: Words
    cut: bool


class CallView(View):
    """What a tool was called with: its edits, or else its input as text."""

    name: Words
    input: Words
    edits: tuple[EditView, ...]


class ResultView(View):
    """What a tool returned; `cut` says that there was more."""

    text: Words
    ok: bool
    cut: bool


class EntryView(View):
    """One thing that an agent said or did; a tool's call and its result have the same `tool`."""

    offset: int
    kind: str
    text: Words
    tool: Words
    call: CallView | None
    result: ResultView | None


class TranscriptWindowView(View):
    """A part of a transcript between two offsets; with `more` it is worth asking on from its other end."""

    attempt: int
    entries: tuple[EntryView, ...]
    begin: int
    end: int
    size: int
    more: bool
    ended: bool
