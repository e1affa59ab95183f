"""The daemon's git: it reads repositories of strangers and must never run a program that one of them names.

Theory of operation. Git runs programs that it finds in its configuration (hooks, core.fsmonitor, filters, diff and
merge drivers, ssh and credential commands, remote helpers, alternates' ref commands …). Configuration comes from four
places:

1. *System and user*: not read at all (GIT_CONFIG_NOSYSTEM, GIT_CONFIG_GLOBAL), except by `Git.setting`, which asks for
   a single value such as user.name and runs nothing.
2. *The environment*: not inherited; `_environment` builds a new one.
3. *The command line*, which overrides every file: it carries `FIXED`, passed as GIT_CONFIG_COUNT so that no key needs
   quoting. `GIT_ALLOW_PROTOCOL` permits only local paths, whatever protocol.*.allow says.
4. *The repository*. Filters, diff drivers and remotes have names that are not known in advance, so no fixed list of
   keys can disable them all. Therefore there are two kinds of repository, with one rule for each:

   * *Our own* (`Git.own`): the clone that the daemon keeps. Agents never work in it: each task's worktree is a
     repository of its own that borrows the clone's objects (workspace.py), so what an agent writes to its config,
     hooks, refs or index stays there. New commits arrive by a fetch, which runs nothing but `git upload-pack` on the
     agent's side (git's own advice for an untrusted .git folder: git(1), SECURITY) and hashes every object again.
   * *Foreign* (`Git.foreign`): the user's repository. It is inspected when a task is submitted, fetched from when the
     task starts, and given one branch when the task is done. All keys of its config are listed first, and each one that
     names a program is overridden with an empty value. Only plumbing commands that read are run there.

Submodules are never entered: `git status` and `git add` start a second git in each, with its own config. Therefore
workspace.py uses `ls-files` and `update-index`, which compare a submodule's commit and nothing else.
"""

import errno
import os
import re
import shlex
import shutil
import signal
import subprocess
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.errors import OrchestratorError
from orchestrator.redaction.display import escape_text

OVER_THE_NETWORK: Mapping[str, str] = {
    "core.sshCommand": "ssh -o BatchMode=yes",
    "protocol.https.allow": "always",
    "protocol.ssh.allow": "always",
    "http.followRedirects": "false",
}
"""Configuration that a push needs in addition: the user's own ssh, without prompts, and https to the given address."""

FIXED: Mapping[str, str] = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.alternateRefsCommand": ":",
    "core.attributesFile": "/dev/null",
    "core.sshCommand": "false",
    "core.gitProxy": "",
    "core.askPass": "",
    "core.editor": "false",
    "core.pager": "cat",
    "credential.helper": "",
    "diff.external": "",
    "diff.ignoreSubmodules": "all",
    "submodule.recurse": "false",
    "fetch.recurseSubmodules": "false",
    "fetch.writeCommitGraph": "false",
    "commit.gpgSign": "false",
    "log.showSignature": "false",
    "gpg.program": "false",
    "core.fsync": "committed",  # a reported commit survives a power cut
    "core.fsyncMethod": "batch",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "protocol.version": "2",
    "protocol.allow": "never",
    "protocol.file.allow": "always",
    "protocol.ext.allow": "never",
    "safe.directory": "*",  # a repository of another user is harmless: nothing that it configures is run
}
"""Configuration of every call, which overrides everything that a repository configures."""

SERVER = "git -c safe.directory='*' -c core.hooksPath=/dev/null upload-pack"
"""The other side of a local fetch; git does not pass its own settings on to it."""
SERVER_OF_ALL = SERVER.replace(" upload-pack", " -c uploadpack.hideRefs='!refs' upload-pack")
"""The same, where no ref may be hidden."""

_NAMES_A_PROGRAM = re.compile(
    r"^(filter\..*\.(clean|smudge|process)|diff\..*\.(command|textconv)|merge\..*\.driver"
    r"|credential\.(.*\.)?helper|remote\..*\.(uploadpack|receivepack|vcs|proxy)|gpg\.(.*\.)?program"
    r"|gpg\.ssh\.defaultkeycommand|pager\..*|alias\..*|submodule\..*\.update|trailer\..*\.(command|cmd))$",
    re.IGNORECASE | re.DOTALL,
)
_FILTER_REQUIRED = re.compile(r"^filter\..*\.required$", re.IGNORECASE | re.DOTALL)
_STDERR_LINES = 5
_DISK_FULL = (b"No space left on device", b"Disk quota exceeded", b"Out of diskspace")
LEAST_FREE = 1024 * 1024
"""Bytes; git that fails on a disk with less free space failed because of that."""


class GitError(OrchestratorError):
    """Git failed or was stopped; the message has the command, its exit code and the last lines of its output."""

    def __init__(self, command: str, code: int | None, stderr: str) -> None:
        self.command, self.code, self.stderr = command, code, stderr
        ended = "did not end in time and was stopped" if code is None else f"failed with exit code {code}"
        super().__init__(f"`{command}` {ended}{': ' if stderr else ''}{stderr}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Git:
    """Runs git on one repository; git searches for it from `folder`, unless `git_dir` names it.

    `more_objects` is the folder of another repository's objects, which are read beside its own.
    """

    folder: Path
    git_dir: Path | None = None
    work_tree: Path | None = None
    index: Path | None = None
    overrides: Mapping[str, str] = field(default_factory=dict, repr=False)
    network: bool = False
    more_objects: Path | None = None

    @classmethod
    def own(cls, git_dir: Path, *, work_tree: Path | None = None, index: Path | None = None) -> "Git":
        """Return git for a repository whose config only the daemon writes; anybody may write to the `work_tree`."""
        return cls(folder=work_tree or git_dir, git_dir=git_dir, work_tree=work_tree, index=index)

    @classmethod
    def foreign(cls, folder: Path, keys: Sequence[str] | None = None) -> "Git":
        """Return git for a repository of somebody else around `folder`, with every program in its config disabled.

        `keys` are those of its config, if they are known. Raises GitError if git finds no repository there.
        """
        keys = config_keys(folder) if keys is None else keys
        off = {key: "" for key in keys if _NAMES_A_PROGRAM.match(key)}
        not_needed = {key: "false" for key in keys if _FILTER_REQUIRED.match(key)}
        return cls(folder=folder, overrides=off | not_needed)

    def run(self, *args: str, stdin: bytes = b"", timeout: float = 120.0) -> str:
        """Return what one git command printed, with bytes that are not UTF-8 as surrogates; `timeout` in seconds.

        Raises GitError for any exit code but 0, and after the timeout, when the whole process group is killed; OSError
        if the disk is full.
        """
        code, out, err = self._call(args, stdin, timeout)
        if code != 0:
            raise self._failure(args, code, err)
        return os.fsdecode(out)

    def answer(self, *args: str) -> tuple[int, str]:
        """Return the exit code and the standard output of a command whose exit code is an answer."""
        code, out, _ = self._call(args, b"", 120.0)
        return code, os.fsdecode(out)

    def ask(self, *args: str) -> str | None:
        """Return the stripped answer to a question; None if git says by exit code 1 that there is no such thing."""
        code, out, err = self._call(args, b"", 120.0)
        if code not in {0, 1}:
            raise self._failure(args, code, err)
        return os.fsdecode(out).rstrip("\n") if code == 0 else None

    @contextmanager
    def talk(self, *args: str) -> Generator["subprocess.Popen[bytes]", None, None]:
        """Run a git command that answers requests, with pipes at its standard input and output, and kill it afterwards.

        Whoever reads decides how fast: there is no timeout. Raises GitError if git cannot be started.
        """
        process = self._begin(args, subprocess.DEVNULL)
        with process, _counted(process):
            try:
                yield process
            finally:
                _end(process)

    def _failure(self, args: tuple[str, ...], code: int, err: bytes) -> GitError | OSError:
        """Return why git failed. Many of its messages do not say that the disk is full, so the disk is asked too."""
        failure = GitError(escape_text("git " + shlex.join(args), 300), code, _tail(err))
        places = (self.folder, self.git_dir) if self.git_dir else (self.folder,)
        if any(words in err for words in _DISK_FULL) or any(_free_space(place) < LEAST_FREE for place in places):
            return OSError(errno.ENOSPC, f"the disk is full: {failure}")
        return failure

    def setting(self, key: str) -> str | None:
        """Return one value as the user's git sees it here: of the repository, else the user's, else the system's."""
        users = {"GIT_CONFIG_GLOBAL": None, "GIT_CONFIG_NOSYSTEM": None, "GIT_CONFIG_COUNT": "0"}
        code, out, _ = self._call(("-c", "safe.directory=*", "config", "--get", key), b"", 30.0, users)
        return os.fsdecode(out).strip() if code == 0 else None

    def _call(
        self, args: tuple[str, ...], stdin: bytes, timeout: float, changes: Mapping[str, str | None] | None = None
    ) -> tuple[int, bytes, bytes]:
        process = self._begin(args, subprocess.PIPE, changes)
        with process, _counted(process):
            try:
                out, err = process.communicate(stdin, timeout)
            except subprocess.TimeoutExpired as error:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
                raise GitError(escape_text("git " + shlex.join(args), 300), None, f"limit {timeout:.0f} s") from error
        return process.returncode, out, err

    def _begin(
        self, args: tuple[str, ...], errors: int, changes: Mapping[str, str | None] | None = None
    ) -> "subprocess.Popen[bytes]":
        """Start git in an environment of its own, as the leader of a session. Raises GitError."""
        environment = _environment({**FIXED, **(OVER_THE_NETWORK if self.network else {}), **self.overrides})
        if self.network:
            environment["GIT_ALLOW_PROTOCOL"] = "file:https:ssh"
        places = {"GIT_DIR": self.git_dir, "GIT_WORK_TREE": self.work_tree, "GIT_INDEX_FILE": self.index}
        environment |= {name: str(place) for name, place in places.items() if place is not None}
        if self.more_objects is not None:
            environment["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = quoted_path(str(self.more_objects))
        for name, change in (changes or {}).items():
            environment.pop(name, None)
            if change is not None:
                environment[name] = change
        try:
            return subprocess.Popen(
                ["git", "-C", str(self.folder.absolute()), *args],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment,
                start_new_session=True,
            )
        except FileNotFoundError as error:
            raise GitError("git", 127, "git is not installed, or not in PATH; install it (2.34 or newer)") from error
        except ValueError as error:
            raise GitError("git", 128, f"{escape_text(str(self.folder))} cannot be a path: {error}") from error


def config_keys(folder: Path) -> list[str]:
    """Return the name of every setting in the config of the repository around `folder`. Raises GitError."""
    return Git(folder=folder).run("config", "--list", "--name-only", "-z").split("\0")


def quoted_path(path: str) -> str:
    """Return the path of a folder of objects as git reads it, whatever characters it has."""
    quoted = path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{quoted}"'


_under_way: set["subprocess.Popen[bytes]"] = set()
_ending = threading.Event()


def end_all() -> None:
    """Kill every git of this program and start no more; repositories survive that as they survive a crash."""
    _ending.set()
    for process in tuple(_under_way):
        _end(process)


@contextmanager
def _counted(process: "subprocess.Popen[bytes]") -> Generator[None, None, None]:
    """Register a process with `end_all` as long as it runs."""
    _under_way.add(process)
    try:
        if _ending.is_set():
            _end(process)
        yield
    finally:
        _under_way.discard(process)


def _end(process: "subprocess.Popen[bytes]") -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _environment(config: Mapping[str, str]) -> dict[str, str]:
    environment = {
        "PATH": os.pathsep.join(os.get_exec_path()),
        "HOME": str(Path.home()),
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_ALLOW_PROTOCOL": "file",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_AUTHOR_NAME": "orchestrator",
        "GIT_AUTHOR_EMAIL": "orchestrator@localhost",
        "GIT_COMMITTER_NAME": "orchestrator",
        "GIT_COMMITTER_EMAIL": "orchestrator@localhost",
        "GIT_CONFIG_COUNT": str(len(config)),
    }
    for number, (key, value) in enumerate(config.items()):
        environment[f"GIT_CONFIG_KEY_{number}"], environment[f"GIT_CONFIG_VALUE_{number}"] = key, value
    return environment


def _free_space(folder: Path) -> int:
    """Return the free bytes on the disk of a folder; more than enough if that is unknown."""
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return LEAST_FREE


def _tail(stderr: bytes) -> str:
    lines = [line for line in stderr[-8192:].decode("utf-8", "replace").splitlines() if line.strip()]
    return " | ".join(escape_text(line, 300) for line in lines[-_STDERR_LINES:])
