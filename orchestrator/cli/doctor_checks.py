"""What would stop an unattended night, one small function for each thing that is looked at."""

import os
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from shlex import quote

from pydantic import BaseModel, ConfigDict

from orchestrator.agents.drivers import inherited
from orchestrator.agents.installation import (
    OLDEST,
    ClaudeBroken,
    ClaudeMissing,
    claude_version,
    find_claude,
    login_state,
    version_problem,
)
from orchestrator.cli.output import size
from orchestrator.errors import OrchestratorError
from orchestrator.server.client import Client, DaemonUnreachable, RequestRefused
from orchestrator.settings import Settings
from orchestrator.workspaces.git import Git

OLDEST_GIT = (2, 34)
NIGHT = timedelta(hours=12)

INSTALL_CLAUDE = "pip install 'claude-agent-sdk==0.2.186'"


class Level(StrEnum):
    """How bad it is: a warning is worth knowing, what is bad would stop the night."""

    OK = "ok"
    WARN = "warn"
    BAD = "bad"


class Finding(BaseModel):
    """One thing that was looked at; `mend` is the command that puts it right."""

    model_config = ConfigDict(frozen=True)

    name: str
    level: Level
    text: str
    mend: str = ""


Environment = Mapping[str, str]


def findings(settings: Settings, environment: Environment) -> Iterator[Finding]:
    """Everything that is looked at, in the order in which one would mend it."""
    yield from agent(settings, environment)
    yield from git(settings, environment)
    yield data_folder(settings)
    yield free_space(settings)
    yield time_zone(environment)
    yield processes()
    yield daemon(settings)


def agent(settings: Settings, environment: Environment) -> Iterator[Finding]:
    """Whether there is a program to play the roles, of a version that is understood, and logged in."""
    path = environment.get("PATH")
    if settings.agent.driver == "command":
        program = settings.agent.command[0]
        found = shutil.which(program, path=path)
        yield _one(
            "agent", found is not None, found or f"{program} is not found", "set agent.command in orchestrator.toml"
        )
        return
    try:
        executable = find_claude(settings.agent.executable, path)
        env = inherited(environment, settings.agent.pass_env) | dict(settings.agent.env)
        version = claude_version(executable, env)
    except (ClaudeMissing, ClaudeBroken) as error:
        yield Finding(name="claude", level=Level.BAD, text=str(error), mend=INSTALL_CLAUDE)
        return
    objection = version_problem(version)
    words = ".".join(map(str, version))
    oldest = ".".join(map(str, OLDEST))
    yield _one("claude", objection is None, objection or f"{words} ({executable}), {oldest} or later", INSTALL_CLAUDE)
    yield login(executable, env)


def login(executable: Path, env: Environment) -> Finding:
    """Whether agents can reach a model all night."""
    state = login_state(executable, env)
    mend = f"{quote(str(executable))} auth login"
    if state is None:
        return Finding(name="login", level=Level.WARN, text="claude does not say whether it is logged in", mend=mend)
    if not state.logged_in:
        return Finding(name="login", level=Level.BAD, text="claude is not logged in", mend=mend)
    with suppress(ValueError):
        ends = datetime.fromisoformat(state.expires_at or "").astimezone(UTC)
        if ends < datetime.now(UTC) + NIGHT:
            return Finding(name="login", level=Level.WARN, text=f"the login ends at {state.expires_at}", mend=mend)
    until = f" until {state.expires_at}" if state.expires_at else ""
    return Finding(name="login", level=Level.OK, text=f"by {state.method or 'an unnamed method'}{until}")


def git(settings: Settings, environment: Environment) -> Iterator[Finding]:
    """Whether git is there, new enough, and knows who commits."""
    mend = "sudo apt install git"
    found = shutil.which("git", path=environment.get("PATH"))
    if found is None:
        yield Finding(name="git", level=Level.BAD, text="git is not found on PATH", mend=mend)
        return
    said = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout.strip()
    numbers = tuple(int(word) for word in said.removeprefix("git version ").split(".")[:2] if word.isdigit())
    needed = ".".join(map(str, OLDEST_GIT))
    yield _one("git", numbers >= OLDEST_GIT, f"{said or 'no version'}; {needed} or later is needed", mend)
    home = Git(folder=settings.data_dir if settings.data_dir.is_dir() else Path.home())
    name, mail = home.setting("user.name"), home.setting("user.email")
    if name and mail:
        yield Finding(name="identity", level=Level.OK, text=f"{name} <{mail}>")
    else:
        text = "git does not know who you are; agents' commits then carry no name of yours"
        mend = "git config --global user.name 'Your Name' && git config --global user.email you@example.org"
        yield Finding(name="identity", level=Level.WARN, text=text, mend=mend)


def data_folder(settings: Settings) -> Finding:
    """Whether tasks can be kept, and by nobody else be read."""
    folder = settings.data_dir
    name = quote(str(folder))
    if not folder.exists():
        above = next(parent for parent in folder.parents if parent.exists())
        text = f"{folder} will be made by `serve`" if os.access(above, os.W_OK) else f"{above} cannot be written to"
        return _one("data folder", os.access(above, os.W_OK), text, f"sudo install -d -m 700 -o $USER {name}")
    if not folder.is_dir():
        return Finding(name="data folder", level=Level.BAD, text=f"{folder} is no folder", mend=f"mv {name} {name}.old")
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        mend = f"sudo chown -R $USER {name}"
        return Finding(name="data folder", level=Level.BAD, text=f"{folder} cannot be written to", mend=mend)
    if stat.S_IMODE(folder.stat().st_mode) & 0o077:
        return Finding(
            name="data folder", level=Level.WARN, text=f"{folder} can be read by others", mend=f"chmod 700 {name}"
        )
    return Finding(name="data folder", level=Level.OK, text=str(folder))


def free_space(settings: Settings) -> Finding:
    """Whether there is more room than the floor below which every agent is frozen."""
    folder = next(place for place in (settings.data_dir, *settings.data_dir.parents) if place.exists())
    free, floor = shutil.disk_usage(folder).free, int(settings.free_space_floor)
    text = f"{size(free)} free, agents are frozen below {size(floor)}"
    mend = f"du -xh --max-depth=2 {quote(str(folder))} | sort -h | tail"
    if floor <= free < 2 * floor:
        return Finding(name="disk", level=Level.WARN, text=text, mend=mend)
    return _one("disk", free >= floor, text, mend)


def time_zone(environment: Environment) -> Finding:
    """Whether times that people give mean what they mean."""
    here = datetime.now().astimezone()
    if environment.get("TZ") or Path("/etc/localtime").exists():
        return Finding(name="time zone", level=Level.OK, text=f"{here.tzname()} (UTC{here:%z})")
    text = "this machine does not know its time zone: --at 22:30 means UTC"
    return Finding(name="time zone", level=Level.WARN, text=text, mend="sudo timedatectl set-timezone Europe/Berlin")


def processes() -> Finding:
    """Whether the processes of agents can be seen, which freezing them needs."""
    seen = _reads(lambda: Path("/proc/self/stat").read_bytes()) and _reads(
        lambda: Path("/proc/self/environ").read_bytes()
    )
    text = "/proc shows this user's processes" if seen else "/proc cannot be read, so agents could not be frozen"
    return _one("processes", seen, text, "sudo mount -t proc proc /proc")


def daemon(settings: Settings) -> Finding:
    """Whether somebody is there to do the work."""
    try:
        with Client(settings.socket) as client:
            found = client.status()
    except (DaemonUnreachable, RequestRefused, OrchestratorError) as error:
        text = str(error).partition(";")[0]
        return Finding(name="daemon", level=Level.BAD, text=text, mend=starts_daemon(settings.socket))
    return Finding(name="daemon", level=Level.OK, text=f"pid {found.pid}, version {found.version}, {found.health}")


def starts_daemon(socket: Path) -> str:
    """The command that starts the daemon of this socket; one below /run has its folder from the service manager."""
    if socket.is_relative_to("/run/user"):
        return "systemctl --user restart orchestrator"
    return "sudo systemctl restart orchestrator" if socket.is_relative_to("/run") else "orchestrator serve"


def _one(name: str, good: bool, text: str, mend: str) -> Finding:
    return Finding(name=name, level=Level.OK if good else Level.BAD, text=text, mend="" if good else mend)


def _reads(read: Callable[[], bytes]) -> bool:
    try:
        return bool(read())
    except OSError:
        return False
