"""A configured tracker: its address and its login."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from orchestrator.integrations.credentials import Credentials, from_github_tool
from orchestrator.integrations.errors import AuthenticationFailed
from orchestrator.integrations.http import HttpClient, Patience
from orchestrator.integrations.tickets.gateway import Gateway
from orchestrator.integrations.tickets.text.reference import Reference, Site, TicketQuery
from orchestrator.integrations.tickets.text.ticket import Tracker


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackerAccount:
    """One tracker; without a `token`, only public tickets can be read.

    `url` is where people open it. With a `user` (an e-mail address) Jira is Jira Cloud, without one a self-hosted
    server, whose tokens need no user. `setting` names where the token is configured, for messages. If there is a
    `gateway`, it is asked instead, and nothing is sent to `url`.
    """

    kind: Tracker
    url: str
    user: str = ""
    token: str = field(default="", repr=False)
    setting: str = ""
    gateway: Gateway | None = None

    @property
    def site(self) -> Site:
        """The tracker as references name it."""
        scheme, _, rest = self.url.rstrip("/").partition("://")
        host, slash, path = rest.partition("/")
        return Site(kind=self.kind, url=f"{scheme.lower()}://{host.lower()}{slash}{path}")

    async def client(self, reference: Reference | TicketQuery | str, patience: Patience) -> HttpClient:
        """Return a client of its API, for questions about one ticket or a list of them."""
        api = api_of(self.site.url) if self.kind is Tracker.GITHUB else self.site.url
        return HttpClient(api, await self.login(patience), patience, subject=str(reference))

    async def login(self, patience: Patience) -> Credentials:
        """Return what requests are authenticated with; only `gh` may have to be waited for."""
        host = self.site.url.partition("://")[2].partition("/")[0]
        mend = f"Put a token of {self.site.url} that may read it into {self.setting or '[trackers]'}"
        token = self.token.strip()
        if self.user:
            return Credentials(host=host, token=token, user=self.user, mend=f"{mend}, for {self.user}")
        if self.kind is Tracker.GITHUB:
            token = token or await _token_of_gh(host, patience.login)
            mend = f"{mend}, or log in with `gh auth login --hostname {host}`"
        return Credentials(host=host, token=token, mend=mend)


PUBLIC = (
    TrackerAccount(kind=Tracker.GITHUB, url="https://github.com", setting="GITHUB_TOKEN"),
    TrackerAccount(kind=Tracker.GITLAB, url="https://gitlab.com", setting="GITLAB_TOKEN"),
)
"""The public trackers; a configured account for the same address takes precedence."""


def api_of(url: str) -> str:
    """Return the API of a GitHub that people open at `url`."""
    scheme, _, host = url.partition("://")
    if host == "github.com" or host.endswith(".ghe.com"):
        return f"{scheme}://api.{host}"
    return f"{url}/api/v3"


def with_public(accounts: Sequence[TrackerAccount]) -> tuple[TrackerAccount, ...]:
    """Return the accounts, and those public trackers for which there is none."""
    there = {account.site for account in accounts}
    return (*accounts, *(account for account in PUBLIC if account.site not in there))


async def _token_of_gh(host: str, limit: float) -> str:
    """Return the token that `gh` keeps for the host, "" where it gives none within `limit` seconds."""
    try:
        return (await asyncio.to_thread(from_github_tool, host, limit)).token
    except AuthenticationFailed:
        return ""
