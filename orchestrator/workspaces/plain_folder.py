"""A folder without git: a repository beside the data keeps what it held, and the finished work is brought back to it.

The folder itself never becomes a repository. Each submission commits what it holds then, as far as its `.gitignore`
allows; the result is brought back only where nobody has changed the same files meanwhile.
"""

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from orchestrator.redaction.display import escape_text
from orchestrator.workspaces.clone import Clone, WorkspaceError
from orchestrator.workspaces.git import Git, GitError
from orchestrator.workspaces.repository import RepositoryError
from orchestrator.workspaces.worktree import Worktree, items

BRANCH = "main"
MOST_FILES, LARGEST_FOLDER = 50_000, 2 * 1024**3
"""Files, and bytes of them, beyond which a folder is refused: most likely it is not the one that was meant."""
KERNELS = (Path("/proc"), Path("/sys"), Path("/dev"))
"""What is no folder of files, but a view of the machine; memory that programs share, below the last, is one."""
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - it is compared with, not written to


def snapshot(folder: Path, folders: Path) -> Path:
    """Return a repository below `folders` whose branch `main` holds what the folder holds now.

    `folders` lies at the top of the daemon's data folder. Raises RepositoryError if the folder is the machine's or the
    daemon's own, if there is a repository around it, or too much in it, and GitError.
    """
    folder = folder.absolute()
    _must_be_plain(folder, folders.parent)
    repository = folders / f"{folder.name[:50] or 'root'}-{sha256(str(folder).encode()).hexdigest()[:12]}"
    repository.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _alone(repository):
        _keep(repository, folder)
    return repository


def bring_back(repository: Path, folder: Path, base: str, commit: str) -> None:
    """Make the files of the folder those of `commit` that differ from `base`; others stay. It may be repeated, also
    after a crash that left only some of them there.

    Raises WorkspaceError, with what to do, if one of these files was changed in the folder since `base`.
    """
    try:
        with _alone(repository):
            _bring(_files(repository, folder), f"{base}^{{tree}}", f"{commit}^{{tree}}")
    except (GitError, WorkspaceError) as error:
        raise WorkspaceError(
            f"the result cannot be brought to {escape_text(str(folder))}, where the same files were changed meanwhile "
            f"({error}); put those files back as they were, or elsewhere, and retry: the work is safe as {commit} in "
            f"{escape_text(str(repository))}"
        ) from error


@contextmanager
def _alone(repository: Path) -> Generator[None, None, None]:
    """Wait until nobody else uses the repository, whose index of the folder is for one user at a time."""
    descriptor = os.open(repository / "folder.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _keep(repository: Path, folder: Path) -> None:
    """Commit what the folder holds now, if that is not the newest commit."""
    if not (repository / "HEAD").exists():
        Git(folder=repository).run("init", "--quiet", "--template=", "--bare", f"--initial-branch={BRANCH}", ".")
    files = _files(repository, folder)
    head = files.clone.ref(f"refs/heads/{BRANCH}")
    tree = files.tree(head or files.clone.git.run("hash-object", "-t", "tree", "-w", "--stdin").strip())
    if head is None or tree != files.clone.ref(f"{head}^{{tree}}"):
        parents = ("-p", head) if head else ()
        message = f"What {folder} holds\n".encode()
        commit = files.clone.git.run("commit-tree", tree, *parents, stdin=message).strip()
        files.clone.git.run("update-ref", f"refs/heads/{BRANCH}", commit)


def _bring(files: Worktree, base: str, wanted: str) -> None:
    changed = _changes(files.clone.git, base, wanted)
    missing = changed.keys() & _changes(files.clone.git, files.tree(base), wanted).keys()
    if missing:
        there = {name: entry for name, entry in changed.items() if name not in missing}
        files.bring_to(files.clone.tree_with(base, there, "of-folder.present"), wanted)


def _must_be_a_persons(folder: Path, data_dir: Path) -> None:
    """Refuse, before anything is read, what holds more than a person's files: the machine's, or the daemon's own."""
    place, own = folder.resolve(), data_dir.resolve()
    is_shared_memory = place != SHARED_MEMORY and place.is_relative_to(SHARED_MEMORY)
    is_kernels = any(place.is_relative_to(one) for one in KERNELS) and not is_shared_memory
    if place == Path("/") or is_kernels:
        raise RepositoryError(folder, "is a part of the machine, not a folder of files", "give the folder of the files")
    if own.is_relative_to(place) or place.is_relative_to(own):
        problem = f"holds the daemon's own data ({escape_text(str(own))}), or lies in it"
        raise RepositoryError(folder, problem, "give the folder of the files to work on")


def _must_be_plain(folder: Path, data_dir: Path) -> None:
    if not folder.is_dir():
        raise RepositoryError(folder, "is not a folder", "check the path")
    _must_be_a_persons(folder, data_dir)
    for around in (folder, *folder.parents):
        if (around / ".git").exists():
            raise RepositoryError(folder, f"lies in the repository {escape_text(str(around))}", "leave --no-git out")
    count = size = 0
    for path in folder.rglob("*"):
        if path.is_symlink() or not path.is_file():
            continue
        count, size = count + 1, size + path.stat().st_size
        if count > MOST_FILES or size > LARGEST_FOLDER:
            raise RepositoryError(
                folder,
                f"holds more than {MOST_FILES:,} files or {LARGEST_FOLDER // 1024**3} GiB",
                "give a smaller folder, or run `git init` and commit there",
            )


def _changes(git: Git, tree: str, other: str) -> dict[str, str]:
    """Return the names of the files that differ, each with its mode and its blob in the other tree."""
    listed = items(git.run("diff-tree", "-r", "-z", "--no-renames", tree, other))
    facts = (one.split(" ") for one in listed[::2])
    return {name: f"{mode} {blob}" for name, (_, mode, _, blob, _) in zip(listed[1::2], facts, strict=True)}


def _files(repository: Path, folder: Path) -> Worktree:
    return Worktree(clone=Clone(repository), folder=folder, index=repository / "index-of-folder")
