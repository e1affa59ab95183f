"""Problems of this machine and of the settings that would stop an unattended night, one function for each check."""

import os
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from shlex import quote

from orchestrator.agents.drivers import inherited
from orchestrator.agents.installation import (
    OLDEST,
    ClaudeBroken,
    ClaudeMissing,
    claude_version,
    dotted,
    find_claude,
    login_state,
    version_note,
    version_problem,
)
from orchestrator.daemon.intake.folder import InboxRefused, require_safe
from orchestrator.daemon.isolation import usable_program
from orchestrator.formats.files import owned_by_another
from orchestrator.formats.units import size
from orchestrator.settings.environment import secret_file
from orchestrator.settings.settings import Settings
from orchestrator.workspaces.git import Git

OLDEST_GIT = (2, 34)
NIGHT = timedelta(hours=12)
DAYS = "two days (UTC)"
GIT_PATIENCE = 10.0
"""Seconds that git may take to say its version."""
LISTENING = "00010000"
"""The flags of a listening socket in /proc/net/unix."""

INSTALL_CLAUDE = "pip install 'claude-agent-sdk==0.2.186'"


class Level(StrEnum):
    """The severity: a warning is worth knowing, a bad finding would stop the night."""

    OK = "ok"
    WARN = "warn"
    BAD = "bad"


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorFinding:
    """The result of one check; `mend` is the command that fixes the problem."""

    name: str
    level: Level
    text: str
    mend: str = ""


Environment = Mapping[str, str]


def intake(settings: Settings, variables: Environment) -> Iterator[DoctorFinding]:
    """Check that work can come in by itself as the settings say."""
    if settings.inbox.folder is not None:
        yield _inbox(settings.inbox.folder)
    if settings.hooks and not settings.listen:
        text = "webhooks are declared, but the daemon does not listen on TCP"
        yield DoctorFinding(name="hooks", level=Level.BAD, text=text, mend='set listen = "127.0.0.1:8700"')
    for name, hook in settings.hooks.items():
        if not variables.get(hook.secret_env):
            text = f"the secret of the webhook {name} is missing: {hook.secret_env} is not set, so all are refused"
            mend = f"write it to {secret_file(hook.secret_env)}, readable by you alone"
            yield DoctorFinding(name="hooks", level=Level.BAD, text=text, mend=mend)


def _inbox(folder: Path) -> DoctorFinding:
    try:
        require_safe(folder)
    except InboxRefused as error:
        return DoctorFinding(name="inbox", level=Level.BAD, text=str(error), mend="orchestrator help inbox")
    return DoctorFinding(name="inbox", level=Level.OK, text=str(folder))


def agent(settings: Settings, variables: Environment) -> Iterator[DoctorFinding]:
    """Check that the agent program is installed, has a supported version, and is logged in."""
    path = variables.get("PATH")
    if settings.agent.driver == "command":
        program = settings.agent.command[0]
        found = shutil.which(program, path=path)
        yield _one(
            "agent", found is not None, found or f"{program} is not found", "set agent.command in orchestrator.toml"
        )
        return
    try:
        executable = find_claude(settings.agent.executable, path)
        env = inherited(variables, settings.agent.pass_env) | dict(settings.agent.env)
        version = claude_version(executable, env)
    except (ClaudeMissing, ClaudeBroken) as error:
        yield DoctorFinding(name="claude", level=Level.BAD, text=str(error), mend=INSTALL_CLAUDE)
        return
    objection, note = version_problem(version, allow_newer=settings.agent.allow_newer), version_note(version)
    text = f"{dotted(version)} ({executable}), {note or f'{dotted(OLDEST)} or later'}"
    if note and not objection:
        yield DoctorFinding(name="claude", level=Level.WARN, text=text, mend=INSTALL_CLAUDE)
    else:
        yield _one("claude", objection is None, objection or text, INSTALL_CLAUDE)
    yield login(executable, env)


def login(executable: Path, env: Environment) -> DoctorFinding:
    """Check that the login lasts the night."""
    state = login_state(executable, env)
    mend = f"{quote(str(executable))} auth login"
    if state is None:
        return DoctorFinding(
            name="login", level=Level.WARN, text="claude does not report whether it is logged in", mend=mend
        )
    if not state.logged_in:
        return DoctorFinding(name="login", level=Level.BAD, text="claude is not logged in", mend=mend)
    with suppress(ValueError):
        ends = datetime.fromisoformat(state.expires_at or "").astimezone(UTC)
        if ends < datetime.now(UTC) + NIGHT:
            return DoctorFinding(
                name="login", level=Level.WARN, text=f"the login ends at {state.expires_at}", mend=mend
            )
    until = f" until {state.expires_at}" if state.expires_at else ""
    return DoctorFinding(name="login", level=Level.OK, text=f"by {state.method or 'an unnamed method'}{until}")


def git(settings: Settings, variables: Environment) -> Iterator[DoctorFinding]:
    """Check that git is installed, is new enough, and knows the committer."""
    mend = "sudo apt install git"
    found = shutil.which("git", path=variables.get("PATH"))
    if found is None:
        yield DoctorFinding(name="git", level=Level.BAD, text="git is not found on PATH", mend=mend)
        return
    try:
        done = subprocess.run([found, "--version"], capture_output=True, text=True, timeout=GIT_PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        yield DoctorFinding(name="git", level=Level.BAD, text=f"{found} does not answer", mend=mend)
        return
    said = done.stdout.strip()
    numbers = tuple(int(word) for word in said.removeprefix("git version ").split(".")[:2] if word.isdigit())
    needed = ".".join(map(str, OLDEST_GIT))
    yield _one("git", numbers >= OLDEST_GIT, f"{said or 'no version'}; {needed} or later is needed", mend)
    home = Git(folder=settings.data_dir if os.access(settings.data_dir, os.X_OK) else Path.home())
    name, mail = home.setting("user.name"), home.setting("user.email")
    if name and mail:
        yield DoctorFinding(name="identity", level=Level.OK, text=f"{name} <{mail}>")
    else:
        text = "git does not know your name; commits of agents will not carry it"
        mend = "git config --global user.name 'Your Name' && git config --global user.email you@example.org"
        yield DoctorFinding(name="identity", level=Level.WARN, text=text, mend=mend)


def data_folder(settings: Settings) -> DoctorFinding:
    """Check that the data folder is writable, and readable by nobody else."""
    folder = settings.data_dir
    name, owner = quote(str(folder)), owned_by_another(folder)
    if owner is not None and os.geteuid() != 0:
        return of_another(
            "data folder", f"{folder} belongs to {owner}", owner, is_bad=not is_listening(settings.socket)
        )
    if not folder.exists():
        above = next(parent for parent in folder.parents if parent.exists())
        text = f"{folder} will be created by `serve`" if os.access(above, os.W_OK) else f"{above} cannot be written to"
        return _one("data folder", os.access(above, os.W_OK), text, f"sudo install -d -m 700 -o $USER {name}")
    if not folder.is_dir():
        return DoctorFinding(
            name="data folder", level=Level.BAD, text=f"{folder} is not a folder", mend=f"mv {name} {name}.old"
        )
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        mend = f"sudo chown -R $USER {name}"
        return DoctorFinding(name="data folder", level=Level.BAD, text=f"{folder} cannot be written to", mend=mend)
    for_group = stat.S_IXGRP if settings.socket_group and settings.socket.parent == folder else 0
    if stat.S_IMODE(folder.stat().st_mode) & 0o077 & ~for_group:
        return DoctorFinding(
            name="data folder", level=Level.WARN, text=f"{folder} can be read by others", mend=f"chmod 700 {name}"
        )
    return DoctorFinding(name="data folder", level=Level.OK, text=str(folder))


def free_space(settings: Settings) -> DoctorFinding:
    """Check that there is more free space than the floor below which every agent is frozen."""
    folder = next(place for place in (settings.data_dir, *settings.data_dir.parents) if place.exists())
    free, floor = shutil.disk_usage(folder).free, int(settings.free_space_floor)
    text = f"{size(free)} free, agents are frozen below {size(floor)}"
    mend = f"du -xh --max-depth=2 {quote(str(folder))} | sort -h | tail"
    if floor <= free < 2 * floor:
        return DoctorFinding(name="disk", level=Level.WARN, text=text, mend=mend)
    return _one("disk", free >= floor, text, mend)


def time_zone(variables: Environment) -> DoctorFinding:
    """Check that the time zone is known, in which people give times."""
    here = datetime.now().astimezone()
    if variables.get("TZ") or Path("/etc/localtime").exists():
        return DoctorFinding(name="time zone", level=Level.OK, text=f"{here.tzname()} (UTC{here:%z})")
    text = "this machine does not know its time zone: --at 22:30 means UTC"
    return DoctorFinding(
        name="time zone", level=Level.WARN, text=text, mend="sudo timedatectl set-timezone Europe/Berlin"
    )


def processes() -> DoctorFinding:
    """Check that /proc shows processes; freezing agents needs that."""
    seen = _reads(lambda: Path("/proc/self/stat").read_bytes()) and _reads(
        lambda: Path("/proc/self/environ").read_bytes()
    )
    text = "/proc shows this user's processes" if seen else "/proc cannot be read, so agents could not be frozen"
    return _one("processes", seen, text, "sudo mount -t proc proc /proc")


def isolation(settings: Settings, variables: Environment) -> DoctorFinding:
    """Check that agents and checks can be kept apart from the machine."""
    program, reason = usable_program(settings, variables)
    if program is not None:
        return DoctorFinding(name="isolation", level=Level.OK, text=f"agents and checks run in sandboxes ({program})")
    text = f"{reason}: agents and checks can reach whatever the daemon's user can"
    level = Level.BAD if settings.isolation == "bubblewrap" else Level.WARN
    mend = "" if settings.isolation == "none" else "sudo apt install bubblewrap"
    return DoctorFinding(name="isolation", level=level, text=text, mend=mend)


def money(settings: Settings) -> DoctorFinding:
    """Say what a night could cost at most; without a cap that is a warning."""
    day, task = settings.budget.day, settings.budget.task
    one_call = "and one more call to the model of each agent"
    if day.usd is not None:
        text = f"a night costs at most ${2 * day.usd:,.2f} ({DAYS} with a cap of ${day.usd:,.2f} each) {one_call}"
        return DoctorFinding(name="money", level=Level.OK, text=text)
    each = f"at most ${task.usd:,.2f} for each task, but there is" if task.usd is not None else "there is"
    text = f"{each} no cap on what all tasks of a night cost together"
    return DoctorFinding(name="money", level=Level.WARN, text=text, mend="set usd = 50.0 in [budget.day], for one")


def of_another(name: str, text: str, owner: str, *, is_bad: bool = False) -> DoctorFinding:
    """Return what can be said of a daemon of another user, who is the one to ask for the rest."""
    level = Level.BAD if is_bad else Level.WARN
    return DoctorFinding(name=name, level=level, text=text, mend=f"sudo -u {quote(owner)} orchestrator doctor")


def is_listening(socket: Path) -> bool:
    """Return whether some process listens on a socket; the kernel tells that to every user."""
    try:
        lines = Path("/proc/net/unix").read_text(errors="surrogateescape").splitlines()
    except OSError:
        return False
    return any(line.endswith(f" {socket}") and line.split()[3] == LISTENING for line in lines)


def _one(name: str, good: bool, text: str, mend: str) -> DoctorFinding:
    return DoctorFinding(name=name, level=Level.OK if good else Level.BAD, text=text, mend="" if good else mend)


def _reads(read: Callable[[], bytes]) -> bool:
    try:
        return bool(read())
    except OSError:
        return False
