"""Tokens, links and sessions on a clock of their own: how long each lasts, and what is left of it on disk."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from orchestrator.daemon.access.credentials import (
    BROWSER,
    FILE,
    LINK_LASTS,
    MOST_SESSIONS,
    MOST_TOKENS,
    SESSION_IDLE,
    SESSION_LASTS,
    TOKEN,
    Credentials,
    NameTaken,
    NoSuchToken,
    TooManyTokens,
)
from orchestrator.daemon.access.scopes import Scope
from orchestrator.daemon.callers import Caller


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = datetime(2026, 11, 22, 8, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def pass_by(self, span: timedelta) -> None:
        """Let time pass."""
        self.now += span


@pytest.fixture
def clock() -> Clock:
    """Noon of some day."""
    return Clock()


def opened(folder: Path, clock: Clock) -> Credentials:
    """Return what a daemon knows that starts on this folder."""
    return Credentials(folder, clock)


async def session(known: Credentials, name: str = "ada") -> str:
    """Log somebody in."""
    secret = await known.begin_session(known.create_link(name, Scope.ADMIN)[0])
    assert secret is not None
    return secret


def test_a_scope_includes_itself_and_those_before_it() -> None:
    assert [[one.includes(other) for other in Scope] for one in Scope] == [
        [True, False, False],
        [True, True, False],
        [True, True, True],
    ]


async def test_tokens_and_sessions_outlive_the_daemon_and_links_do_not(tmp_path: Path, clock: Clock) -> None:
    known = opened(tmp_path, clock)
    _, token = await known.create_token("phone", Scope.VIEW, None)
    secret, code = await session(known), known.create_link("ada", Scope.ADMIN)[0]
    again = opened(tmp_path, clock)
    caller = await again.caller_with(TOKEN, token)
    assert (str(caller), caller and caller.scope) == ("token:phone", Scope.VIEW)
    assert str(await again.caller_with(BROWSER, secret)) == "browser:ada"
    assert await again.begin_session(code) is None


async def test_no_secret_is_on_disk_and_nobody_else_reads_the_file(tmp_path: Path, clock: Clock) -> None:
    known = opened(tmp_path, clock)
    _, token = await known.create_token("phone", Scope.VIEW, None)
    secret = await session(known)
    content = (tmp_path / FILE).read_text()
    assert token not in content
    assert secret not in content
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600


async def test_a_file_that_somebody_else_changed_admits_nobody(tmp_path: Path, clock: Clock) -> None:
    known = opened(tmp_path, clock)
    _, token = await known.create_token("phone", Scope.VIEW, None)
    file = tmp_path / FILE
    file.write_text(file.read_text().replace('"view"', '"admin"'))
    again = opened(tmp_path, clock)
    assert await again.caller_with(TOKEN, token) is None
    assert (again.listed(), (tmp_path / "access.unreadable").exists(), file.exists()) == ([], True, False)


async def test_a_token_ends_when_it_expires_and_stays_in_the_list(tmp_path: Path, clock: Clock) -> None:
    known = opened(tmp_path, clock)
    _, token = await known.create_token("phone", Scope.VIEW, timedelta(days=30))
    clock.pass_by(timedelta(days=30) - timedelta(seconds=1))
    assert await known.caller_with(TOKEN, token) is not None
    clock.pass_by(timedelta(seconds=1))
    assert await known.caller_with(TOKEN, token) is None
    assert [one.name for one in known.listed()] == ["phone"]


async def test_a_link_works_once_and_for_five_minutes(tmp_path: Path, clock: Clock) -> None:
    known = opened(tmp_path, clock)
    code, _ = known.create_link("ada", Scope.OPERATE)
    late, until = known.create_link("ada", Scope.OPERATE)
    assert until == clock.now + LINK_LASTS
    assert await known.begin_session(code) is not None
    assert await known.begin_session(code) is None
    clock.pass_by(LINK_LASTS)
    assert await known.begin_session(late) is None


async def test_a_session_ends_after_a_week_without_use_and_after_a_month_with_it(tmp_path: Path, clock: Clock) -> None:
    known = opened(tmp_path, clock)
    idle, used = await session(known), await session(known)
    end = clock.now + SESSION_LASTS
    while clock.now + timedelta(days=3) < end:
        clock.pass_by(timedelta(days=3))
        assert await known.caller_with(BROWSER, used) is not None
        if clock.now > end - SESSION_LASTS + SESSION_IDLE:
            assert await known.caller_with(BROWSER, idle) is None
    clock.now = end
    assert await known.caller_with(BROWSER, used) is None
    assert known.listed() == []


async def test_the_last_use_is_written_once_a_minute(tmp_path: Path, clock: Clock) -> None:
    known = opened(tmp_path, clock)
    _, token = await known.create_token("phone", Scope.VIEW, None)
    written: list[datetime | None] = []
    for _ in range(4):
        clock.pass_by(timedelta(seconds=30))
        await known.caller_with(TOKEN, token)
        written.append(opened(tmp_path, clock).listed()[0].used_at)
    begun = clock.now - timedelta(seconds=120)
    assert written == [None, begun + timedelta(seconds=60), begun + timedelta(seconds=60), clock.now]


async def test_a_use_that_cannot_be_written_refuses_nobody(tmp_path: Path, clock: Clock) -> None:
    known = opened(tmp_path, clock)
    _, token = await known.create_token("phone", Scope.VIEW, None)
    (tmp_path / f".{FILE}.partial").mkdir()  # in the way of the next file
    clock.pass_by(timedelta(minutes=5))
    assert await known.caller_with(TOKEN, token) is not None


async def test_a_token_that_cannot_be_written_is_not_made(tmp_path: Path, clock: Clock) -> None:
    known = opened(tmp_path, clock)
    (tmp_path / f".{FILE}.partial").mkdir()
    with pytest.raises(OSError, match="partial"):
        await known.create_token("phone", Scope.VIEW, None)
    assert known.listed() == []


async def test_names_are_taken_once_and_revoked_names_are_free(tmp_path: Path, clock: Clock) -> None:
    known = opened(tmp_path, clock)
    _, token = await known.create_token("phone", Scope.VIEW, None)
    with pytest.raises(NameTaken):
        await known.create_token("phone", Scope.ADMIN, None)
    assert await known.revoke("phone") == 1
    assert await known.caller_with(TOKEN, token) is None
    with pytest.raises(NoSuchToken):
        await known.revoke("phone")
    await known.create_token("phone", Scope.VIEW, None)


async def test_all_sessions_of_a_user_end_together(tmp_path: Path, clock: Clock) -> None:
    known = opened(tmp_path, clock)
    of_ada = [await session(known) for _ in range(2)]
    of_bob = await session(known, "bob")
    assert await known.revoke("browser:ada") == 2
    assert [await known.caller_with(BROWSER, one) for one in of_ada] == [None, None]
    assert await known.caller_with(BROWSER, of_bob) is not None


async def test_tokens_and_sessions_are_bounded(tmp_path: Path, clock: Clock) -> None:
    known = opened(tmp_path, clock)
    for number in range(MOST_TOKENS):
        await known.create_token(f"t{number}", Scope.VIEW, None)
    with pytest.raises(TooManyTokens):
        await known.create_token("more", Scope.VIEW, None)
    first, *others = [await session(known) for _ in range(MOST_SESSIONS + 1)]
    assert await known.caller_with(BROWSER, first) is None
    assert await known.caller_with(BROWSER, others[0]) is not None


async def test_a_caller_is_admitted_as_long_as_what_it_showed_is_valid(tmp_path: Path, clock: Clock) -> None:
    known = opened(tmp_path, clock)
    _, secret = await known.create_token("phone", Scope.VIEW, timedelta(days=1))
    phone = await known.caller_with(TOKEN, secret)
    browser = await known.caller_with(BROWSER, await session(known))
    assert phone is not None
    assert browser is not None
    assert [known.still_admits(one) for one in (phone, browser, Caller(uid=0))] == [True, True, True]
    clock.pass_by(timedelta(days=1))
    assert [known.still_admits(one) for one in (phone, browser)] == [False, True]
    clock.pass_by(SESSION_IDLE)
    assert [known.still_admits(one) for one in (browser, Caller(uid=0))] == [False, True]
