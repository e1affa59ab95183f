"""The claude CLI on this machine: its path, its version, whether it is fit for use, and whether it is logged in."""

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import orjson
import structlog

from orchestrator.errors import OrchestratorError
from orchestrator.formats.fields import object_of, text_of

log = structlog.get_logger()

Version = tuple[int, int, int]

# The first version with every message that the stream parser needs, the newest that the tests were run with, and the
# next major version, which may be incompatible.
OLDEST: Version = (2, 1, 223)
TESTED: Version = (2, 1, 329)
TOO_NEW: Version = (3, 0, 0)
# These versions lose the last messages of a session.
LOSSY: tuple[Version, Version] = ((2, 1, 288), (2, 1, 290))

PATIENCE = 20.0  # seconds


class ClaudeMissing(OrchestratorError):
    """No claude CLI was found, or the configured path is not a program."""


class ClaudeBroken(OrchestratorError):
    """The claude CLI was found but does not answer."""


class ClaudeUnfit(OrchestratorError):
    """The claude CLI has a version that must not run unattended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginState:
    """Whether the CLI is logged in; `expires_at` as the CLI writes it, None when it does not say."""

    logged_in: bool
    method: str
    expires_at: str | None


def find_claude(configured: str, path: str | None) -> Path:
    """Return the configured executable, else the first on `path`, else the one in claude-agent-sdk.

    Raises ClaudeMissing.
    """
    if configured:
        if found := shutil.which(Path(configured).expanduser(), path=path):
            return Path(found).absolute()
        raise ClaudeMissing(f"agent.executable is {configured!r}, and there is no such program; correct or remove it")
    if found := shutil.which("claude", path=path):
        return Path(found).absolute()
    package = importlib.util.find_spec("claude_agent_sdk")
    for folder in (package.submodule_search_locations or ()) if package else ():
        bundled = Path(folder) / "_bundled" / "claude"
        if os.access(bundled, os.X_OK):
            return bundled
    raise ClaudeMissing(
        "the claude CLI was not found: not in agent.executable, not on PATH, not in the claude-agent-sdk package; "
        "install it with: pip install claude-agent-sdk"
    )


def claude_version(executable: Path, env: Mapping[str, str]) -> Version:
    """Return what `--version` says. Raises ClaudeBroken."""
    answer = _ask([str(executable), "--version"], env)
    match = re.match(rb"(\d{1,9})\.(\d{1,9})\.(\d{1,9})\b", answer.stdout)
    if match is None:
        raise ClaudeBroken(f"{executable} --version says no version; is it the claude CLI? {_complaint(answer)}")
    major, minor, patch = (int(number) for number in match.groups())
    return major, minor, patch


class Installation:
    """The claude that agents are started with. It is asked for its version again whenever its file has changed."""

    def __init__(self, configured: str, path: str | None, env: Mapping[str, str], *, allow_newer: bool) -> None:
        """`path` is searched, `env` is the environment of agents."""
        self._configured, self._path, self._env, self._allow_newer = configured, path, env, allow_newer
        self.checked: tuple[Path, tuple[int, ...]] | None = None
        """The executable that was last found usable, and what identifies its file."""

    def usable(self) -> Path:
        """Return the executable. Raises ClaudeMissing, ClaudeBroken and ClaudeUnfit. Blocks."""
        executable = find_claude(self._configured, self._path)
        found = executable, _identity(executable)
        if found != self.checked:
            version = claude_version(executable, self._env)
            if problem := version_problem(version, allow_newer=self._allow_newer):
                raise ClaudeUnfit(problem)
            log.info("claude_found", executable=str(executable), version=dotted(version), note=version_note(version))
            self.checked = found
        return executable

    def login(self) -> LoginState | None:
        """Return what the CLI says of its login. Raises what `usable` does. Blocks."""
        return login_state(self.usable(), self._env)


def _identity(executable: Path) -> tuple[int, ...]:
    """Return what changes when another file takes the place of the executable, also behind a link."""
    try:
        found = executable.stat()
    except OSError as error:
        raise ClaudeBroken(f"{executable} cannot be read: {error.strerror}") from error
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size


def dotted(version: Version) -> str:
    """Return a version as people write it."""
    return ".".join(map(str, version))


def version_note(version: Version) -> str:
    """Return what to know of a version that may be used; empty if there is nothing."""
    return f"newer than {dotted(TESTED)}, the newest that was tested" if version > TESTED else ""


def version_problem(version: Version, *, allow_newer: bool = False) -> str | None:
    """Return why this version must not run unattended, or None."""
    words = dotted(version)
    if version < OLDEST:
        return f"claude {words} is too old; {dotted(OLDEST)} is the oldest that is understood"
    if version >= TOO_NEW and not allow_newer:
        return f"claude {words} is newer than this program knows; to use it all the same, set agent.allow_newer"
    if LOSSY[0] <= version <= LOSSY[1]:
        return f"claude {words} loses the last messages of a session; take a later one"
    return None


def login_state(executable: Path, env: Mapping[str, str]) -> LoginState | None:
    """Return what `auth status` says in the environment of agents, None if it does not answer."""
    try:
        status = object_of(orjson.loads(_ask([str(executable), "auth", "status"], env).stdout))
    except (ClaudeBroken, orjson.JSONDecodeError):
        return None
    return LoginState(
        logged_in=status.get("loggedIn") is True,
        method=text_of(status.get("authMethod")),
        expires_at=text_of(status.get("loginExpiresAt")) or None,
    )


def _ask(argv: list[str], env: Mapping[str, str]) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            argv, env=dict(env), stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE, check=False
        )
    except subprocess.TimeoutExpired:
        raise ClaudeBroken(f"{' '.join(argv)} gave no answer within {PATIENCE:.0f} seconds") from None
    except OSError as error:
        raise ClaudeBroken(f"{argv[0]} cannot be started: {error.strerror}") from error


def _complaint(answer: subprocess.CompletedProcess[bytes]) -> str:
    said = (answer.stderr or answer.stdout)[:200].decode("utf-8", "replace").strip()
    return f"It ended with {answer.returncode} and said: {said or 'nothing'}"
