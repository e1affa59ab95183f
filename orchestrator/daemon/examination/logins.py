"""Whether the logins for forges and trackers hold for the night: asked of each server with its own token."""

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from urllib.parse import urlsplit

import httpx
from pydantic import TypeAdapter, ValidationError

from orchestrator.daemon.inspection.doctor_checks import NIGHT, DoctorFinding, Environment, Level
from orchestrator.integrations.credentials import Credentials, from_github_tool
from orchestrator.integrations.errors import AuthenticationFailed, RemoteError
from orchestrator.integrations.http import HttpClient, Patience
from orchestrator.integrations.tickets.account import api_of
from orchestrator.settings.settings import Settings

NAME = "logins"
QUICK = Patience(request=8.0, login=8.0, tries=1)
_MAY_PUSH = frozenset({"repo", "public_repo"})
_MAY_MERGE = "api"
_EXPIRY = "github-authentication-token-expiration"
_SCOPES = "x-oauth-scopes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """A login to ask about: at which API, by which path, and how a person renews it."""

    kind: str
    api: str
    path: str
    credentials: Credentials
    mend: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _GitLabToken:
    """What GitLab says of the token that asks."""

    scopes: tuple[str, ...] = ()
    expires_at: date | None = None


def check_logins(settings: Settings, variables: Environment) -> Iterator[DoctorFinding]:
    """Ask each server that there is a token for; and name tokens that the settings want and that are missing."""
    yield from _missing(settings, variables)
    yield from asyncio.run(_asked(list(_logins(settings, variables))))


def _missing(settings: Settings, variables: Environment) -> Iterator[DoctorFinding]:
    wanted = [(host, one.token_env) for host, one in settings.forge.hosts.items() if one.token_env]
    if settings.trackers.jira.url and not settings.trackers.jira.gateway:
        wanted.append((urlsplit(settings.trackers.jira.url).hostname or "", "JIRA_API_TOKEN"))
    for host, variable in wanted:
        if not variables.get(variable, "").strip():
            text = f"there is no token for {host}: {variable} is not set where this runs"
            mend = f"put the token into the file credentials/{variable} beside orchestrator.toml, with mode 600"
            yield DoctorFinding(name=NAME, level=Level.WARN, text=text, mend=mend)


def _logins(settings: Settings, variables: Environment) -> Iterator[Login]:
    trackers = settings.trackers
    yield from _of_github(trackers.github.url, variables.get("GITHUB_TOKEN", ""), "GITHUB_TOKEN", variables)
    yield from _of_gitlab(trackers.gitlab.url, variables.get("GITLAB_TOKEN", ""), "GITLAB_TOKEN")
    for host, one in settings.forge.hosts.items():
        token = variables.get(one.token_env, "") if one.token_env else ""
        url = one.api or f"https://{host}"
        if one.kind == "gitlab":
            yield from _of_gitlab(url, token, one.token_env)
        elif token:
            yield _login("github", one.api or api_of(url), "/user", token, one.token_env)
    jira, token = trackers.jira, variables.get("JIRA_API_TOKEN", "").strip()
    if jira.url and token and not jira.gateway:
        yield _login("jira", jira.url, "/rest/api/2/myself", token, "JIRA_API_TOKEN", jira.user)


def _of_github(url: str, token: str, variable: str, variables: Environment) -> Iterator[Login]:
    host, mend = urlsplit(url).hostname or "", variable
    if not token.strip() and shutil.which("gh", path=variables.get("PATH")):
        with suppress(AuthenticationFailed):
            token = from_github_tool(host, QUICK.login).token
            mend = f"gh auth login --hostname {host}"
    if token.strip():
        yield _login("github", api_of(url), "/user", token, mend)


def _of_gitlab(url: str, token: str, variable: str) -> Iterator[Login]:
    if token.strip():
        api = url.rstrip("/").removesuffix("/api/v4")
        yield _login("gitlab", api, "/api/v4/personal_access_tokens/self", token, variable)


def _login(kind: str, api: str, path: str, token: str, source: str, user: str = "") -> Login:  # noqa: PLR0913,PLR0917
    mend = source if " " in source else f"renew the token in {source}"
    host = urlsplit(api).netloc
    credentials = Credentials(host=host, token=token.strip(), user=user, mend=mend)
    return Login(kind=kind, api=api, path=path, credentials=credentials, mend=mend)


async def _asked(logins: list[Login]) -> list[DoctorFinding]:
    return await asyncio.gather(*(_ask(login) for login in logins))


async def _ask(login: Login) -> DoctorFinding:
    host = login.credentials.host
    try:
        async with HttpClient(login.api, login.credentials, QUICK, subject="the login") as http:
            response = await http.send("GET", login.path)
    except AuthenticationFailed as error:
        return DoctorFinding(name=NAME, level=Level.BAD, text=f"{host} refuses the login: {error}", mend=login.mend)
    except RemoteError as error:
        mend = "look whether the network and the server are there, then: orchestrator doctor"
        return DoctorFinding(name=NAME, level=Level.WARN, text=f"{host} was not reached: {error}", mend=mend)
    expires_at, problem = _judged(login.kind, response)
    if problem:
        return DoctorFinding(name=NAME, level=Level.WARN, text=f"{host}: {problem}", mend=login.mend)
    if expires_at and expires_at < datetime.now(UTC) + NIGHT:
        text = f"the login for {host} ends at {expires_at:%Y-%m-%d %H:%M} UTC"
        return DoctorFinding(name=NAME, level=Level.WARN, text=text, mend=login.mend)
    until = f" until {expires_at:%Y-%m-%d}" if expires_at else ""
    return DoctorFinding(name=NAME, level=Level.OK, text=f"{host} accepts the login{until}")


def _judged(kind: str, response: httpx.Response) -> tuple[datetime | None, str]:
    """Return when a login ends, if the server says so, and what it may not do."""
    if kind == "github":
        scopes = frozenset(filter(None, (one.strip() for one in response.headers.get(_SCOPES, "").split(","))))
        lacks = "its token may not push: it lacks the scope repo" if scopes and not scopes & _MAY_PUSH else ""
        with suppress(ValueError):
            stamp = response.headers.get(_EXPIRY, "").removesuffix(" UTC")
            return datetime.fromisoformat(stamp).replace(tzinfo=UTC), lacks
        return None, lacks
    if kind == "gitlab":
        with suppress(ValidationError):
            found = TypeAdapter(_GitLabToken).validate_json(response.content)
            ends = datetime.combine(found.expires_at, time(), UTC) if found.expires_at else None
            lacks = (
                "" if _MAY_MERGE in found.scopes else "its token may not open merge requests, for lack of the scope api"
            )
            return ends, lacks
    return None, ""
