"""What claude keeps on disk: a folder for each task, made from the user's own, and the login, which all of them share.

Whatever the CLI remembers (settings, hooks, memory, transcripts) lies in one folder. An agent that wrote into the
user's would reach every later agent, and the user. So each task has a folder of its own, in which the user's settings
are copied when its first agent starts; plugins are read where they are. It is deleted with the task.

The login must not be copied for each task: the CLI renews it, and then the old one is void. Its folder can be set apart
from the rest. Agents without a sandbox use the user's. In a sandbox that folder cannot be writable, or agents could
leave settings beside the login: they share a folder with a login alone, and `SharedLogin` keeps both logins the same.

Measured with 2.1.329: the CLI renews a login when it has five minutes left, under a lock in the login's folder, and
replaces the file by rename. It makes a second lock beside that folder, and does without one if it cannot.
"""

import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

import orjson
import structlog

from orchestrator.formats.codec import JsonObject
from orchestrator.formats.fields import object_of, text_of
from orchestrator.formats.files import make_private, read_file, write_atomically

log = structlog.get_logger()

FOLDER_VARIABLE, LOGIN_VARIABLE = "CLAUDE_CONFIG_DIR", "CLAUDE_SECURESTORAGE_CONFIG_DIR"
PLUGINS_VARIABLE = "CLAUDE_CODE_PLUGIN_SEED_DIR"
"""The variables that tell the CLI its folder, the login's, and where plugins are installed that it only reads."""

STATE, LOGIN, PLUGINS = ".claude.json", ".credentials.json", "plugins"
SKILLS = "skills"
OUR_PLUGIN = "orchestrator"
"""The folder of skills and of plugins that the CLI finds by itself, and our own plugin in it, for people's sessions: an
agent must not hand work to the daemon that runs it.
"""
COPIED = ("settings.json", "*.md", "agents", "commands", "output-styles", "rules", SKILLS)
"""The user's settings, below the CLI's folder."""
PRIVATE_FILES = (LOGIN, STATE, "history.jsonl")
PRIVATE_FOLDERS = (
    "backups", "debug", "file-history", "paste-cache", "plans", "projects", "sessions", "shell-snapshots", "tasks",
    "todos",
)  # fmt: skip
"""What else the user's folder holds and no other program needs: the login, transcripts, and notes about both."""
OF_PROJECTS = "projects"
"""The key of the state that says which commands were allowed where; also the folder of transcripts."""
ACCOUNT_KEYS = ("claudeAiOauth", "mcpOAuth")
"""What the CLI renews in the file of the login."""
MOST_FILES, MOST_BYTES = 5000, 64 * 1024 * 1024
"""More than that is not copied for each task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsersFolder:
    """Where the CLI keeps what is the user's: its folder, its state, and the folder of the login."""

    path: Path
    state: Path
    login: Path


def users_folder(env: Mapping[str, str]) -> UsersFolder:
    """Return where the CLI keeps what is the user's, if it is started in this environment."""
    home, given = Path(env.get("HOME") or "/"), env.get(FOLDER_VARIABLE)
    path = Path(given) if given else home / ".claude"
    return UsersFolder(path=path, state=(path if given else home) / STATE, login=Path(env.get(LOGIN_VARIABLE) or path))


def variables(env: Mapping[str, str], folder: Path, login: Path | None) -> dict[str, str]:
    """Return the variables that lead the CLI to a task's folder, to the login, and to the user's plugins.

    `env` is the environment without them; `login` is None for the user's.
    """
    users = users_folder(env)
    plugins = [*filter(None, [env.get(PLUGINS_VARIABLE)]), str(users.path / PLUGINS)]
    return {
        FOLDER_VARIABLE: str(folder),
        LOGIN_VARIABLE: str(login or users.login),
        PLUGINS_VARIABLE: os.pathsep.join(plugins),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaudeFolder:
    """The folder of a task's agents, and those of the user, from which it is made.

    `session_id` is the session to resume, if any: one that began in the user's folder is taken over.
    """

    path: Path
    users: UsersFolder
    session_id: str = ""

    def prepare(self) -> None:
        """Make the folder as the user's settings are now, unless it exists. Blocks; raises OSError."""
        if self.path.exists():
            return
        partial = self.path.with_name(f".{self.path.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        make_private(partial)
        self._copy_settings(partial)
        if state := _document(self.users.state):
            kept = {key: value for key, value in state.items() if key != OF_PROJECTS}
            write_atomically(partial / STATE, orjson.dumps(kept), durable=False)
        partial.replace(self.path)

    def _copy_settings(self, target: Path) -> None:
        files, size = 0, 0
        for path in self._settings():
            with suppress(FileNotFoundError, PermissionError):
                files, size = files + 1, size + path.stat().st_size
                if files > MOST_FILES or size > MOST_BYTES:
                    log.warning("settings_not_copied", after=str(path), reason="there is too much of them")
                    return
                copy = target / path.relative_to(self.users.path)
                make_private(copy.parent)
                shutil.copyfile(path, copy)
                copy.chmod(0o600 | path.stat().st_mode & stat.S_IXUSR)  # a skill may have scripts

    def _settings(self) -> Iterator[Path]:
        """Yield the files to copy; links are followed, because dotfiles are often kept elsewhere."""
        ours = os.path.realpath(self.users.path / SKILLS / OUR_PLUGIN)
        patterns = [*COPIED, *([f"{OF_PROJECTS}/*/{self.session_id}*"] if self.session_id else [])]
        for found in sorted(path for pattern in patterns for path in self.users.path.glob(pattern)):
            if found.is_file():
                yield found
            seen = {ours}
            for folder, folders, names in os.walk(found, followlinks=True):
                real = os.path.realpath(folder)
                if real in seen:
                    folders.clear()
                    continue
                seen.add(real)
                yield from (path for name in sorted(names) if (path := Path(folder, name)).is_file())


@dataclass(slots=True, kw_only=True)
class SharedLogin:
    """The user's login, and the copy in `folder` that sandboxed agents share; one that was renewed replaces the other.

    The user's alone decides whether there is a login. Nothing but what the CLI renews is taken over from the copy.
    """

    users: Path
    folder: Path
    _agreed: JsonObject = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)
    _has_complained: bool = False

    def exchange(self) -> None:
        """Make both the same; if one of them cannot be written, log that once. Blocks."""
        with self._lock:
            try:
                self._exchange(make_private(self.folder) / LOGIN, (self.users / LOGIN).resolve())
            except OSError as error:
                if not self._has_complained:
                    log.warning("login_not_shared", error=str(error), folder=str(self.users))
                self._has_complained = True

    def _exchange(self, ours: Path, theirs: Path) -> None:
        users, shared = _document(theirs), _document(ours)
        if not users:
            if not theirs.exists():
                ours.unlink(missing_ok=True)
            return
        if _account(users) != _account(shared):
            if _is_renewed(shared, users, self._agreed):
                users |= _account(shared)
                write_atomically(theirs, orjson.dumps(users))
            else:
                write_atomically(ours, orjson.dumps(users))
        self._agreed = _account(users)


def _is_renewed(shared: JsonObject, users: JsonObject, agreed: JsonObject) -> bool:
    """Return whether the copy is a whole login, and the newer one of both.

    `agreed` is what both were when they were the same last; if that is unknown, the one that lasts longer is newer.
    """
    login, other = (object_of(one.get(ACCOUNT_KEYS[0])) for one in (shared, users))
    is_whole = all(text_of(login.get(key)) for key in ("accessToken", "refreshToken")) and login.keys() >= other.keys()
    if not is_whole or not other:
        return False
    return _account(users) == agreed if agreed else _expiry(login) > _expiry(other)


def _expiry(login: JsonObject) -> float:
    found = login.get("expiresAt")
    return float(found) if isinstance(found, int | float) else 0.0


def _account(document: JsonObject) -> JsonObject:
    return {key: document[key] for key in ACCOUNT_KEYS if key in document}


def _document(path: Path) -> JsonObject:
    """Return a file's JSON object; empty if there is none."""
    with suppress(OSError, orjson.JSONDecodeError):
        return dict(object_of(orjson.loads(read_file(path.resolve()) or b"{}")))
    return {}
