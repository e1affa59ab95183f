"""Who is calling: the kernel says so, and agents may not command the daemon that runs them.

A caller whose uid is neither the daemon's nor root's is refused, unless it is in the group that the setting
`socket_group` names. So is one that descends from a holder of this data
folder: an agent's process carries the marker of its run in its environment, and a holder names the run's folder on its
command line. Every ancestor is checked for both, because a process can clear its own environment but not its parents'.
A caller that exits before it can be checked is refused too.

A process that cleared its environment, killed its holder and left its session still has the limit that the holder set
for the run: it is inherited, and only root can raise it. What a process asks another service of the machine to start
for it, such as cron or the user's systemd, has nothing of that.

A caller in another PID namespace than the daemon's is an agent in a sandbox, whatever it says of itself, and its
ancestors lead to the holder of its run: nobody leaves such a namespace, and nobody in it outlives the holder.

One thing is open to an agent: it may read the state of its own task and report its steps and failures, if it shows the
token that its attempt was given. The token is in the agent's environment, which every process of the same user can
read, so it opens nothing by itself: whoever shows it must also descend from the run that it was given to.
"""

import grp
import os
import pwd
import re
import resource
import secrets
from dataclasses import dataclass, field, replace
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path

from orchestrator.daemon.access.scopes import Scope
from orchestrator.formats.files import read_file, write_atomically
from orchestrator.processes import files
from orchestrator.processes.cgroup import PREFIX
from orchestrator.processes.spec import BOOT, MARKER
from orchestrator.storage.task_files import AGENTS, TaskFiles

HASH_FILE = "token"
"""The file of a run that holds the hash of its token."""

_AGENT_GROUP = re.compile(rf"/{re.escape(PREFIX)}[0-9]+-[0-9]+(?=/| |$)", re.MULTILINE)
"""The name that a holder gives the control group of its agent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who asks something of the daemon: a process on a Unix socket, or the owner of a token or a browser session.

    `name` is set for the latter, which no process is known of, and `digest` to the hash of what they showed; `attempt`
    for an agent, which may do little. `scope` is None as long as nothing but what is open to everybody was granted.
    """

    pid: int = 0
    uid: int = -1
    attempt: int | None = None
    name: str = ""
    groups: frozenset[int] = frozenset()
    scope: Scope | None = None
    digest: str = field(default="", repr=False)

    def may(self, scope: Scope) -> bool:
        """Return whether the caller may ask what needs a scope."""
        return self.scope is not None and self.scope.includes(scope)

    def __str__(self) -> str:
        if self.name:
            return self.name
        return f"{self.user} uid:{self.uid} pid:{self.pid}" + (f" agent:{self.attempt}" if self.attempt else "")

    @property
    def user(self) -> str:
        """The name of the user whose process it is."""
        try:
            return pwd.getpwuid(self.uid).pw_name
        except KeyError:
            return "unknown"


class AccessControl:
    """Tells which callers may command the daemon whose tasks these files belong to.

    `group` names a group whose members may operate it beside its own user; empty: there is none.
    """

    def __init__(self, files: TaskFiles, group: str = "") -> None:
        self._files, self._group = files, group

    def agent_with_token(self, caller: Caller, task_id: str, token: str) -> Caller | None:
        """Return the caller as an agent of that task, if it is one and its token is right; else None."""
        root = self._files.root
        run = run_above(caller.pid, root)
        if run is None or not run.startswith(f"{root}/"):
            return None
        task, kind, attempt, *_ = (*Path(run).relative_to(root).parts, "", "", "")
        if task != task_id or kind != AGENTS or not attempt.isdecimal():
            return None
        is_known = is_token_of(self._files.run_folder(task, f"{kind}/{attempt}"), token)
        return replace(caller, attempt=int(attempt)) if is_known else None

    def scope_of(self, caller: Caller) -> Scope | None:
        """Return what a process on the socket may ask by its user and groups; None if it may ask nothing."""
        if caller.uid in {0, os.getuid()}:
            return Scope.ADMIN
        return Scope.OPERATE if self._group and group_id(self._group) in caller.groups else None

    def objection_to(self, caller: Caller) -> str | None:
        """Return why a caller may not command the daemon; None if it may."""
        if self.scope_of(caller) is None:
            also = f", nor in the group {self._group}" if self._group else ""
            return f"uid {caller.uid} is neither root nor the daemon's own{also}; run the command as that user"
        if (run := run_above(caller.pid, self._files.root)) is not None:
            return f"the caller belongs to {run}: agents may not command the daemon that runs them"
        if is_marked(caller.pid):
            return "the caller has an agent's limit of file locks: agents may not command the daemon that runs them"
        if is_in_sandbox(caller.pid):
            return "the caller is in a sandbox: agents may not command the daemon that runs them"
        if not _is_alive(caller.pid) and not (caller.uid != os.getuid() and agents_gain_no_rights()):
            return f"process {caller.pid} exited before it could be identified; let the caller wait for its answer"
        return None


def agents_gain_no_rights() -> bool:
    """Return whether no agent can ever become another user: then a process of one need not be looked at.

    That holds for everything that a daemon starts which is not root's and has no_new_privs set: prctl(2). The service
    manager can hide processes of other users, which then cannot be looked at.
    """
    lines = _read(os.getpid(), "status").splitlines()
    return os.getuid() != 0 and any(line.split() == [b"NoNewPrivs:", b"1"] for line in lines)


def group_id(name: str) -> int | None:
    """Return the number of a group; None if there is no such group."""
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        return None


def is_in_sandbox(pid: int) -> bool:
    """Return whether a process has a PID namespace below this one: the kernel then lists its pid in each of them."""
    for line in _read(pid, "status").splitlines():
        if line.startswith(b"NSpid:"):
            return len(line.split()) > 2
    return False


def is_marked(pid: int) -> bool:
    """Return whether a process has a lower limit of file locks than the daemon, which only runs have.

    It was inherited from a holder, and cannot be raised again, whatever else the process cleared, left or killed.
    """
    own = resource.getrlimit(files.RLIMIT_LOCKS)[1]
    for line in _read(pid, "limits").splitlines():
        if line.startswith(b"Max file locks"):
            hard = line.split()[4]
            return hard != b"unlimited" and (own == resource.RLIM_INFINITY or int(hard) < own)
    return False


def run_above(pid: int, tasks_dir: Path) -> str | None:
    """Return the folder of the run that a process belongs to, if any; only runs of tasks in `tasks_dir` count.

    A process that cleared its environment and killed its own holder has no such ancestors any more. Where agents have
    control groups, it is recognised by its group, which it cannot leave as the same user.
    """
    inside = f"{tasks_dir}/"
    group = _AGENT_GROUP.search(_read(pid, "cgroup").decode("utf-8", "replace"))
    while pid > 0:
        words = _read(pid, "cmdline").decode("utf-8", "replace").split("\0")
        if BOOT in words and (run := next((word for word in words if word.startswith(inside)), None)):
            return run
        for variable in _read(pid, "environ").decode("utf-8", "replace").split("\0"):
            name, _, value = variable.partition("=")
            if name == MARKER and value.startswith(inside):
                return value
        pid = _parent(pid)
    return f"the control group {group[0].strip('/')}" if group else None


def issue_token(run: Path) -> str:
    """Return a new token for a run that has not begun; an earlier one becomes invalid. Raises OSError."""
    token = secrets.token_urlsafe(32)
    write_atomically(run / HASH_FILE, _hashed(token))
    return token


def is_token_of(run: Path, token: str) -> bool:
    """Return whether the token is that of the run."""
    kept = read_file(run / HASH_FILE)
    return bool(kept) and compare_digest(kept or b"", _hashed(token))


def _hashed(token: str) -> bytes:
    return sha256(token.encode("utf-8", "replace")).hexdigest().encode()


def _is_alive(pid: int) -> bool:
    """Return whether a process runs; a zombie does not, and its /proc entry no longer says where it came from."""
    row = _read(pid, "stat")
    return bool(row) and row[row.rindex(b")") + 2 : row.rindex(b")") + 3] not in {b"Z", b"X"}


def _parent(pid: int) -> int:
    row = _read(pid, "stat")
    return int(row[row.rindex(b")") + 2 :].split()[1]) if row else 0


def _read(pid: int, name: str) -> bytes:
    """Return a file of a process; empty if it is gone, or belongs to another user and so is no agent of ours."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""
