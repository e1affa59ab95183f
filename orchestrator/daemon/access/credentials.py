"""What callers over TCP show: the tokens of programs, the sessions of browsers, and links that begin a session.

Tokens, sessions and links are 256 random bits. Only their hashes are kept, in access.json of the data folder, which the
daemon reads when it starts and alone writes. Links are kept in memory: one works once, for five minutes.
"""

import asyncio
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path

import msgspec
import structlog

from orchestrator.daemon.access.scopes import Scope
from orchestrator.daemon.callers import Caller
from orchestrator.errors import OrchestratorError
from orchestrator.formats.files import read_file, sealed, unsealed, write_atomically
from orchestrator.formats.signing import signing_key

log = structlog.get_logger()

FILE = "access.json"
PREFIX = "orch_"
"""What each token begins with, so that it is recognised where it must not be shown."""
TOKEN, BROWSER = "token", "browser"
MOST_TOKENS, MOST_SESSIONS, MOST_LINKS = 100, 200, 20
"""Links and sessions beyond that replace the oldest ones."""
LINK_LASTS = timedelta(minutes=5)
SESSION_IDLE, SESSION_LASTS = timedelta(days=7), timedelta(days=30)
USE_WRITTEN_EVERY = timedelta(minutes=1)


class NameTaken(OrchestratorError):
    """There is a token of that name."""


class TooManyTokens(OrchestratorError):
    """There are as many tokens as may be."""


class NoSuchToken(OrchestratorError):
    """There is no token or session of that name."""


class NotListening(OrchestratorError):
    """The daemon can be reached by no browser."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """A token or a session: who has it may ask what its scope allows."""

    kind: str
    name: str
    scope: Scope
    digest: str
    created_at: datetime
    used_at: datetime | None = None
    expires_at: datetime | None = None

    @property
    def caller(self) -> Caller:
        """Who shows it."""
        return Caller(scope=self.scope, name=f"{self.kind}:{self.name}", digest=self.digest)

    def is_valid(self, now: datetime) -> bool:
        """Return whether it still admits its owner."""
        idle_since = self.used_at or self.created_at
        is_idle = self.kind == BROWSER and now - idle_since > SESSION_IDLE
        return not is_idle and (self.expires_at is None or now < self.expires_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Link:
    digest: str
    name: str
    scope: Scope
    expires_at: datetime


class Credentials:
    """The tokens and sessions of one data folder; used from one event loop."""

    def __init__(self, data_dir: Path, clock: Callable[[], datetime]) -> None:
        self._path, self._clock = data_dir / FILE, clock
        self._key = signing_key(data_dir, "access")
        self._writing = asyncio.Lock()
        self._links: tuple[_Link, ...] = ()
        self._known = self._read()
        self._is_unwritable = False
        self._written_at: dict[str, datetime] = {}

    def listed(self) -> list[Credential]:
        """Return tokens and sessions, newest first; also tokens that have expired, but no session that has ended."""
        now = self._clock()
        found = (one for one in self._known if one.kind == TOKEN or one.is_valid(now))
        return sorted(found, key=lambda one: one.created_at, reverse=True)

    async def create_token(self, name: str, scope: Scope, lasts: timedelta | None) -> tuple[Credential, str]:
        """Return a new token and its secret, which nothing shows again. Raises NameTaken, TooManyTokens, OSError."""
        tokens = [one for one in self._known if one.kind == TOKEN]
        if any(one.name == name for one in tokens):
            raise NameTaken(f"there is a token {name!r}; choose another name, or revoke it first")
        if len(tokens) >= MOST_TOKENS:
            raise TooManyTokens(f"there are {len(tokens)} tokens; revoke one that nobody uses")
        secret = PREFIX + secrets.token_urlsafe(32)
        return await self._add(self._made(TOKEN, name, scope, secret, lasts)), secret

    async def revoke(self, name: str) -> int:
        """End a token, or every session of `browser:…`, and return how many. Raises NoSuchToken, OSError."""
        kind, _, owner = name.rpartition(":")
        gone = [one for one in self._known if (one.kind, one.name) == (kind or TOKEN, owner)]
        if not gone:
            raise NoSuchToken(f"there is no token {name!r}; `orchestrator token list` shows all")
        await self._remove(gone)
        return len(gone)

    def create_link(self, name: str, scope: Scope) -> tuple[str, datetime]:
        """Return the code of a link that begins one session in somebody's name, and until when it does."""
        code, until = secrets.token_urlsafe(32), self._clock() + LINK_LASTS
        link = _Link(digest=_digest(code), name=name, scope=scope, expires_at=until)
        self._links = (*self._links, link)[-MOST_LINKS:]
        return code, until

    async def begin_session(self, code: str) -> str | None:
        """Return the secret of a new session, which uses the link up; None if the link is not valid. Raises OSError."""
        digest, now = _digest(code), self._clock()
        found = [link for link in self._links if compare_digest(link.digest, digest) and now < link.expires_at]
        self._links = tuple(link for link in self._links if link not in found and now < link.expires_at)
        if not found:
            return None
        secret = secrets.token_urlsafe(32)
        new = await self._add(self._made(BROWSER, found[0].name, found[0].scope, secret, SESSION_LASTS))
        log.info("session_begun", scope=new.scope, by=str(new.caller))
        return secret

    async def end_session(self, secret: str) -> None:
        """End a session, if there is one with this secret. Raises OSError."""
        gone = self._with_secret(BROWSER, secret)
        await self._remove(gone)
        for one in gone:
            log.info("session_ended", scope=one.scope, by=str(one.caller))

    async def caller_with(self, kind: str, secret: str) -> Caller | None:
        """Return who shows the secret of a token or session; None if it admits nobody.

        Its last use is written once a minute, if that can be done.
        """
        now = self._clock()
        for found in self._with_secret(kind, secret):
            if not found.is_valid(now):
                return None
            self._replace([found], [replace(found, used_at=now)])
            if now - self._written_at.get(found.digest, found.created_at) >= USE_WRITTEN_EVERY:
                self._written_at[found.digest] = now
                await self._write_uses()
            return found.caller
        return None

    def still_admits(self, caller: Caller) -> bool:
        """Return whether what a caller showed is still valid; a process on the Unix socket showed nothing."""
        now = self._clock()
        return not caller.digest or any(one.digest == caller.digest and one.is_valid(now) for one in self._known)

    async def _write_uses(self) -> None:
        try:
            await self._write(durable=False)
        except OSError as error:
            if not self._is_unwritable:
                log.warning("access_unwritable", reason=str(error), effect="the last use of tokens is not kept")
            self._is_unwritable = True
        else:
            self._is_unwritable = False

    def _made(self, kind: str, name: str, scope: Scope, secret: str, lasts: timedelta | None) -> Credential:
        now = self._clock()
        until = now + lasts if lasts else None
        return Credential(kind=kind, name=name, scope=scope, digest=_digest(secret), created_at=now, expires_at=until)

    def _with_secret(self, kind: str, secret: str) -> list[Credential]:
        """Return the credential with this secret, if any, after comparing all of them in constant time."""
        digest = _digest(secret)
        return [one for one in self._known if compare_digest(one.digest, digest) and one.kind == kind]

    async def _add(self, new: Credential) -> Credential:
        now = self._clock()
        ended = [one for one in self._known if one.kind == BROWSER and not one.is_valid(now)]
        going_on = [one for one in self._known if one.kind == BROWSER and one not in ended]
        self._replace([*ended, *going_on[: max(0, len(going_on) - MOST_SESSIONS + 1)]], [new])
        try:
            await self._write()
        except OSError:
            self._replace([new], [])
            raise
        return new

    async def _remove(self, gone: Sequence[Credential]) -> None:
        """Refuse these from now on, even if that cannot be written."""
        if gone:
            digests = {one.digest for one in gone}
            self._known = tuple(one for one in self._known if one.digest not in digests)
            await self._write()

    def _replace(self, old: Sequence[Credential], new: Sequence[Credential]) -> None:
        self._known = (*(one for one in self._known if one not in old), *new)

    async def _write(self, *, durable: bool = True) -> None:
        async with self._writing:
            document = {"credentials": msgspec.to_builtins(self._known)}
            await asyncio.to_thread(write_atomically, self._path, sealed(document, key=self._key), durable=durable)

    def _read(self) -> tuple[Credential, ...]:
        """Return what was written before; nobody is admitted by a file that somebody else changed."""
        content = read_file(self._path)
        if content == b"":
            return ()
        try:
            return msgspec.convert(
                (unsealed(content or b"", key=self._key) or {})["credentials"], tuple[Credential, ...]
            )
        except (KeyError, msgspec.ValidationError):
            aside = self._path.with_suffix(".unreadable")
            self._path.replace(aside)
            log.warning("access_unreadable", kept_as=str(aside), effect="no token and no session is valid any more")
            return ()


def _digest(secret: str) -> str:
    return sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()
