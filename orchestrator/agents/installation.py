"""The claude CLI on this machine: its path, its version, and whether it is logged in."""

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import orjson

from orchestrator.errors import OrchestratorError
from orchestrator.formats.fields import object_of, text_of

Version = tuple[int, int, int]

# The first version with every message that the stream parser needs; a later major version may be incompatible.
OLDEST: Version = (2, 1, 223)
TOO_NEW: Version = (3, 0, 0)
# These versions lose the last messages of a session.
LOSSY: tuple[Version, Version] = ((2, 1, 288), (2, 1, 290))

PATIENCE = 20.0  # seconds


class ClaudeMissing(OrchestratorError):
    """No claude CLI was found, or the configured path is not a program."""


class ClaudeBroken(OrchestratorError):
    """The claude CLI was found but does not answer."""


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


def version_problem(version: Version) -> str | None:
    """Return why this version must not run unattended, or None."""
    words = ".".join(map(str, version))
    if version < OLDEST:
        return f"claude {words} is too old; {'.'.join(map(str, OLDEST))} is the oldest that is understood"
    if version >= TOO_NEW:
        return f"claude {words} is newer than anything this program knows"
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
