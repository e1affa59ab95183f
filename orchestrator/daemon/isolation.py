"""Which sandbox each run gets: what an agent or a check needs of the machine and of the data folder, and nothing else.

Of the data folder a run sees only what belongs to its own work: an agent its worktree and its outbox, writable, and for
reading its task's files, earlier outboxes and the output of checks; a check its checkout and the place of its report.
Both read the objects that their repository borrows. The folders of runs themselves stay out of sight: who can reach a
holder's files could stop it or pretend its end.
"""

import os
import pwd
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import structlog

import orchestrator
from orchestrator.agents.claude_folder import LOGIN, PRIVATE_FILES, PRIVATE_FOLDERS, users_folder
from orchestrator.agents.drivers import SHELL_VARIABLE, AgentCommand, Launch, inherited
from orchestrator.core.task.checks import Check
from orchestrator.core.task.task import Task
from orchestrator.errors import OrchestratorError
from orchestrator.formats.files import make_private, read_file, write_atomically
from orchestrator.pipelines.role import Role
from orchestrator.processes.sandbox.bubblewrap import (
    command_without_network,
    find_program,
    probe,
    probe_offline,
    without_network,
    wrap,
)
from orchestrator.processes.sandbox.mounts import Access, Rules, mounts_of, rules
from orchestrator.settings.environment import config_folders
from orchestrator.settings.settings import Settings
from orchestrator.storage.task_files import AGENTS, CLI_STATE, TaskFiles
from orchestrator.storage.vault import FILE as VAULT_FILE

log = structlog.get_logger()

TEMPORARY = (Path("/tmp"), Path("/var/tmp"), Path("/run"))  # noqa: S108  (mounted over, not used)
"""Folders through which programs reach each other: temporary files, and the sockets of the machine's services."""
NEEDED_OF_RUN = tuple(map(Path, (
    "/run/systemd/resolve", "/run/NetworkManager", "/run/resolvconf", "/run/nscd",
    "/run/current-system", "/run/booted-system", "/run/opengl-driver", "/run/wrappers",
)))  # fmt: skip
"""What programs need of /run: the addresses of name servers, and the programs themselves on NixOS."""
INSTALLED = (Path(sys.prefix), Path(sys.base_prefix), Path(orchestrator.__file__).parent)
"""Where this program and its interpreter are installed: that may be in a private folder, such as a clone in /tmp."""
CREDENTIALS = (
    ".ssh", ".gnupg", ".netrc", ".git-credentials", ".config/git/credentials", ".config/gh", ".config/glab-cli",
    ".config/hub", ".aws", ".azure", ".config/gcloud", ".kube", ".docker", ".pypirc", ".vault-token",
    ".password-store", ".local/share/keyrings",
)  # fmt: skip
"""Where programs keep what gives access to other machines, below the home folder."""
LOGS = "logs"
OFFLINE_SHELL = "offline-shell"


class NotIsolated(OrchestratorError):
    """Runs must be isolated, and cannot be."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f'{reason}; install bubblewrap and let users create namespaces, or set isolation = "auto" to run without'
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Isolation:
    """Makes the sandboxes of all runs; without a `program`, there are none, and `reason` says why.

    `users` are the rules for the CLI's own folder of the user. `borrowed` returns the folder whose objects the
    repositories of a task borrow; None before there is one.
    """

    program: str | None
    reason: str
    is_required: bool
    general: Rules
    users: Rules
    data_dir: Path
    socket_folder: Path
    files: TaskFiles
    borrowed: Callable[[str], Path | None]

    @property
    def summary(self) -> str:
        """Say in one line whether runs are isolated, and what is not held if they are not."""
        if self.program:
            return "bubblewrap"
        return f"none ({self.reason}): agents and checks can reach whatever the daemon's user can"

    def objection(self, roles: Iterable[Role], checks: Iterable[Check]) -> str:
        """Return why these cannot run as they are declared; empty if they can. Blocks."""
        offline_roles = [f"the role {role.name}" for role in roles if not role.network]
        offline = [*offline_roles, *(f"the check {check.name}" for check in checks if not check.network)]
        if offline and self.program is None:
            return f"{offline[0]} must have no network, which needs a sandbox, and there is none: {self.reason}"
        if offline_roles and self.program and (reason := probe_offline(self.program)):
            return f"{offline_roles[0]} must have no network, which needs a sandbox within a sandbox: {reason}"
        return ""

    def require(self) -> None:
        """Raise NotIsolated if runs must be isolated, and cannot be."""
        if self.is_required and self.program is None:
            raise NotIsolated(self.reason)

    def offline_shell(self) -> Path:
        """Return a program that runs a shell command without a network in the sandbox of an agent. Blocks.

        Raises NotIsolated.
        """
        if self.program is None:
            raise NotIsolated(f"a role must have no network, and there is no sandbox: {self.reason}")
        path, script = self.data_dir / OFFLINE_SHELL, command_without_network(self.program).encode()
        if read_file(path) != script:
            write_atomically(path, script)
            path.chmod(0o500)
        return path

    def of_agent(self, task: Task, attempt: int, order: Launch, process: AgentCommand) -> tuple[str, ...]:
        """Return the sandbox of an agent, empty if there is none. Blocks.

        One whose role is read-only cannot write to its worktree.

        Raises NotIsolated.
        """
        writable = process.writable
        for folder in writable if self.program else ():
            make_private(folder)
        outbox = self.files.run_folder(task.id, f"{AGENTS}/{attempt}") / "out"
        own = [*self._of_task(task.id), *(self.users if writable else ()), *rules(Access.WRITABLE, writable)]
        own += [(outbox, Access.WRITABLE), (self.socket_folder, Access.READABLE)]
        own += rules(Access.READABLE, map(Path, filter(None, [process.env.get(SHELL_VARIABLE)])))
        if task.source.worktree:
            own.append((Path(task.source.worktree), Access.READABLE if order.read_only else Access.WRITABLE))
        words = self._wrap(task, own, order.cwd)
        return words if process.network else without_network(words)

    def of_check(self, task: Task, check: Check, report: Path, checkout: Path) -> tuple[str, ...]:
        """Return the sandbox of a check, empty if there is none; it may write its report and its checkout. Blocks.

        Raises NotIsolated.
        """
        if objection := self.objection((), (check,)):
            raise NotIsolated(objection)
        own = [*self.users, (report.parent, Access.WRITABLE), (checkout, Access.WRITABLE)]
        words = self._wrap(task, own, checkout)
        return words if check.network else without_network(words)

    def _wrap(self, task: Task, own: Rules, cwd: Path) -> tuple[str, ...]:
        self.require()
        if self.program is None:
            return ()
        borrowed = self.borrowed(task.id)
        shared = [(borrowed, Access.READABLE)] if borrowed else []
        empty = self.data_dir / "empty"
        empty.touch(mode=0o400)
        mounts = mounts_of([*self.general, (self.data_dir, Access.HIDDEN), *shared, *own])
        return wrap(self.program, mounts, empty, cwd.resolve(), is_root=os.geteuid() == 0)

    def _of_task(self, task_id: str) -> Iterator[tuple[Path, Access]]:
        """Yield the rules for a task's own folder, in which runs show their outboxes and their output alone."""
        folder = self.files.path_of(task_id)
        yield folder, Access.READABLE
        for hidden in (AGENTS, CLI_STATE, LOGS, VAULT_FILE):
            yield folder / hidden, Access.HIDDEN
        for shown in (f"{AGENTS}/*/out", *(f"{LOGS}/*/{name}" for name in ("stdout*", "stderr*", "out"))):
            yield from rules(Access.READABLE, folder.glob(shown))


def isolation_of(
    settings: Settings,
    env: Mapping[str, str],
    config: Path | None,
    files: TaskFiles,
    borrowed: Callable[[str], Path | None],
) -> Isolation:
    """Return the isolation that the settings ask for and this machine can have; log why there is none. Blocks.

    `env` is the daemon's environment, `config` the file given with --config.
    """
    program, reason = usable_program(settings, env)
    isolation = Isolation(
        program=program,
        reason=reason,
        is_required=settings.isolation == "bubblewrap",
        general=tuple(_general(settings, env, config)),
        users=tuple(_users(settings, env)),
        data_dir=settings.data_dir,
        socket_folder=settings.agents_socket.parent,
        files=files,
        borrowed=borrowed,
    )
    if program is None:
        log.warning("runs_not_isolated", isolation=isolation.summary)
    return isolation


def usable_program(settings: Settings, env: Mapping[str, str]) -> tuple[str | None, str]:
    """Return the program that isolates runs, or None and the reason. Blocks."""
    if settings.isolation == "none":
        return None, 'isolation = "none" is set'
    program = find_program(env.get("PATH"))
    if program is None:
        return None, "bwrap is neither on PATH nor installed with the extra [sandbox]"
    objection = probe(program)
    return (None, objection) if objection else (program, "")


def _general(settings: Settings, env: Mapping[str, str], config: Path | None) -> Iterator[tuple[Path, Access]]:
    """Yield the rules for every run; what the settings hide wins over what they make writable."""
    agent = settings.agent
    homes = {Path(env.get("HOME") or "/"), Path(pwd.getpwuid(os.getuid()).pw_dir)}
    yield from rules(Access.PRIVATE, TEMPORARY)
    yield from rules(Access.READABLE, NEEDED_OF_RUN)
    yield from rules(Access.READABLE, INSTALLED)
    yield from rules(Access.HIDDEN, [home / name for home in homes for name in CREDENTIALS])
    yield from rules(Access.WRITABLE, agent.writable)
    yield from rules(Access.HIDDEN, [*agent.hidden, *config_folders(), *([config] if config else [])])
    if agent.mcp_config is not None:
        yield agent.mcp_config, Access.READABLE


def _users(settings: Settings, env: Mapping[str, str]) -> Iterator[tuple[Path, Access]]:
    """Yield the rules that hide the user's login and transcripts, which the settings may make writable."""
    agent = settings.agent
    users = users_folder({**inherited(env, agent.pass_env), **agent.env})
    private = dict(rules(Access.HIDDEN, [users.state, users.login / LOGIN, *map(users.path.joinpath, PRIVATE_FILES)]))
    private |= dict(rules(Access.PRIVATE, map(users.path.joinpath, PRIVATE_FOLDERS)))  # made faster than a hidden one
    for path, access in private.items():
        if not any(path.is_relative_to(shown) for shown in agent.writable):
            yield path, access
