"""What a task's branch changes, for people and programs: the list of files, one file, or all of it as a patch.

Everything leaves masked and bounded, and says where it was cut. It is read from the daemon's own clone, so it is there
as long as the task is, with or without its worktree. Work that is not committed yet is not in it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from orchestrator.core.task.task import Task
from orchestrator.daemon.history.aside import aside
from orchestrator.daemon.services.errors import NoSuchFile
from orchestrator.daemon.services.task_index import TaskIndex
from orchestrator.formats.diffs.unified_diff import Hunk, masked
from orchestrator.redaction.display import escape_text
from orchestrator.workspaces.clone import WorkspaceError
from orchestrator.workspaces.evaluation.changes import LONGEST_TIME, ChangedPath, ChangeList, compare, list_changes
from orchestrator.workspaces.git import Git
from orchestrator.workspaces.workspace import Commit, Workspace

MOST_LINES = 2_000
"""Lines of one file's diff that are read at once."""
MOST_LETTERS = 1_000_000
LARGEST_PATCH = 20 * 1024 * 1024
"""Bytes of a whole patch that are sent."""
MOST_COMMITS = 100
_LONGEST_PATH = 4_096
_HEADERS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """A changed file. Its names are shown with control characters escaped, and `id` finds it whatever it is called."""

    file: ChangedPath
    path: str
    old_path: str

    @property
    def id(self) -> str:
        """A name for the file that fits into any address."""
        return self.file.id


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDiff:
    """What a branch changes between two commits; `complete` says whether all files are listed."""

    task: Task
    base: str
    head: str
    files: tuple[FileChange, ...]
    complete: bool
    counted: bool
    commits: tuple[Commit, ...] = ()

    @property
    def added(self) -> int:
        """The lines added in all files."""
        return sum(one.file.added or 0 for one in self.files)

    @property
    def removed(self) -> int:
        """The lines removed in all files."""
        return sum(one.file.removed or 0 for one in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDiff:
    """The change of one file; `next_line` says how many lines were passed where more follow, None at the end."""

    diff: TaskDiff
    change: FileChange
    hunks: tuple[Hunk, ...]
    next_line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffService:
    """The use cases of diffs; each raises NoSuchTask, AmbiguousName, GitError, and NoSuchFile where nothing is yet."""

    index: TaskIndex
    workspace: Workspace
    redact: Callable[[str], str] = field(repr=False)

    async def files(self, name: str) -> TaskDiff:
        """Return the files that a task's branch changes, with lines counted, and its commits."""
        task = await self.index.find(name)
        return await aside(self._files, task, count=True)

    async def file(self, name: str, wanted: str, line: int = 0) -> FileDiff:
        """Return the change of the file with this id or path, from a line of its diff on. Raises NoSuchFile."""
        task = await self.index.find(name)
        return await aside(self._file, task, wanted, line)

    async def patch(self, name: str) -> Iterator[bytes]:
        """Return the whole patch in pieces, to be read in a thread, which may raise GitError."""
        task = await self.index.find(name)
        git, base, head = await aside(self._place, task)
        return self._patch(git, base, head)

    def _place(self, task: Task) -> tuple[Git, str, str]:
        """Return git for the task's clone, and the commits to compare."""
        base = task.source.base_commit
        try:
            clone = self.workspace.clone_of(task.id)
        except WorkspaceError as error:
            raise NoSuchFile(f"{task.id} has no branch yet, so there is nothing to compare") from error
        head = clone.ref(f"refs/orchestrator/{task.id}/head") or task.source.head or base
        if not (clone.has(base) and clone.has(head)):
            raise NoSuchFile(f"the commits of {task.id} are not in its clone any more")
        return clone.git, base, head

    def _files(self, task: Task, *, count: bool) -> TaskDiff:
        git, base, head = self._place(task)
        found = list_changes(git, base, head, count=count)
        return self._task_diff(task, found, base, head, self._commits(git, base, head) if count else ())

    def _task_diff(
        self, task: Task, found: ChangeList, base: str, head: str, commits: tuple[Commit, ...] = ()
    ) -> TaskDiff:
        shown = self._shown([name for one in found.files for name in (one.path, one.old_path)])
        changes = tuple(
            FileChange(file=one, path=path, old_path=old)
            for one, path, old in zip(found.files, shown[::2], shown[1::2], strict=True)
        )
        return TaskDiff(
            task=task,
            base=base,
            head=head,
            files=changes,
            complete=found.complete,
            counted=found.counted,
            commits=commits,
        )

    def _commits(self, git: Git, base: str, head: str) -> tuple[Commit, ...]:
        form = "--format=%H %<(300,trunc)%s"
        said = git.run("log", "-z", f"--max-count={MOST_COMMITS}", form, f"{base}..{head}", "--", timeout=LONGEST_TIME)
        rows = [row.partition(" ") for row in said.split("\0") if row]
        subjects = self._shown([subject.rstrip() for _, _, subject in rows])
        return tuple(Commit(sha=sha, subject=subject) for (sha, _, _), subject in zip(rows, subjects, strict=True))

    def _file(self, task: Task, wanted: str, line: int) -> FileDiff:
        diff = self._files(task, count=False)
        names = (one for one in diff.files if wanted in {one.id, one.path, one.file.path})
        change = next(names, None)
        if change is None:
            more = "" if diff.complete else f"; only the first {len(diff.files)} files can be looked at one by one"
            raise NoSuchFile(f"{task.id} does not change {escape_text(wanted)}{more}")
        git, base, head = self._place(task)
        with compare(git, base, head, change.file) as sections:
            hunks, more_follow = _taken((one for one in sections if isinstance(one, Hunk)), line)
        passed = line + sum(len(hunk.lines) for hunk in hunks) if more_follow else None
        return FileDiff(
            diff=diff, change=change, hunks=tuple(masked(hunk, self.redact) for hunk in hunks), next_line=passed
        )

    def _patch(self, git: Git, base: str, head: str) -> Iterator[bytes]:
        sent = 0
        with compare(git, base, head) as sections:
            for text in self._masked(sections):
                piece = text.encode("utf-8", "replace")
                sent += len(piece)
                if sent > LARGEST_PATCH:
                    yield f"# cut here: the patch is larger than {LARGEST_PATCH} bytes\n".encode()
                    return
                yield piece

    def _masked(self, sections: Iterable[str | Hunk]) -> Iterator[str]:
        """Yield a patch, with neighbouring headers in one piece: masking each by itself would take most of the time."""
        headers: list[str] = []
        for section in sections:
            if not isinstance(section, Hunk) and len(headers) < _HEADERS:
                headers.append(section)
                continue
            yield self.redact("".join(f"{line}\n" for line in headers))
            headers = [] if isinstance(section, Hunk) else [section]
            if isinstance(section, Hunk):
                yield masked(section, self.redact).text()
        yield self.redact("".join(f"{line}\n" for line in headers))

    def _shown(self, names: Sequence[str]) -> list[str]:
        """Return names fit to show; they are masked together, which is much quicker than one by one."""
        escaped = [escape_text(name, _LONGEST_PATH) for name in names]
        together = self.redact("\n".join(escaped)).split("\n")
        return together if len(together) == len(escaped) else [self.redact(name) for name in escaped]


def _taken(hunks: Iterator[Hunk], passed: int) -> tuple[list[Hunk], bool]:
    """Return whole hunks after as many lines as were read before, and whether more follow.

    What was passed were whole hunks, too.
    """
    taken: list[Hunk] = []
    lines = letters = skipped = 0
    for hunk in hunks:
        if skipped < passed:
            skipped += len(hunk.lines)
            continue
        size = sum(len(line.text) for line in hunk.lines)
        if taken and (lines + len(hunk.lines) > MOST_LINES or letters + size > MOST_LETTERS):
            return taken, True
        taken.append(hunk)
        lines, letters = lines + len(hunk.lines), letters + size
    return taken, next(islice(hunks, 1), None) is not None
