"""A tracker that is set up: where it is, and whom it takes us for."""

import asyncio
import re
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import assert_never

from orchestrator.integrations.tickets.gateway import Gateway
from orchestrator.integrations.tickets.http import Credentials, Patience
from orchestrator.integrations.tickets.text.reference import Site
from orchestrator.integrations.tickets.text.ticket import Tracker

_PRINTABLE = re.compile(r"[!-~]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """One tracker; without a `token` only what everybody may see is seen.

    `url` is where people open it. With a `user` (an e-mail address) Jira is Jira Cloud, without one a server of one's
    own, whose tokens need no user. `setting` names where the token is read from, for messages. With a `gateway`
    that one is asked, and nothing is sent to `url`.
    """

    kind: Tracker
    url: str
    user: str = ""
    token: str = field(default="", repr=False)
    setting: str = ""
    gateway: Gateway | None = None

    @property
    def site(self) -> Site:
        """Where its tickets are, as references name it."""
        scheme, _, rest = self.url.rstrip("/").partition("://")
        host, slash, path = rest.partition("/")
        return Site(kind=self.kind, url=f"{scheme.lower()}://{host.lower()}{slash}{path}")

    async def login(self, patience: Patience) -> Credentials:
        """What is sent along with each request; only `gh` may have to be waited for."""
        where = f"Put a token of {self.site.url} that may read it into {self.setting or '[trackers]'}"
        token = self.token.strip()
        match self.kind:
            case Tracker.JIRA if self.user:
                pair = b64encode(f"{self.user}:{token}".encode()).decode()
                return Credentials(
                    headers=_authorization("Basic", pair if token else ""), mend=f"{where}, for {self.user}"
                )
            case Tracker.JIRA:
                return Credentials(headers=_authorization("Bearer", token), mend=where)
            case Tracker.GITHUB:
                host = self.site.url.partition("://")[2]
                token = token or await _token_of_gh(host, patience.login)
                mend = f"{where}, or log in with `gh auth login --hostname {host}`"
                return Credentials(headers=_authorization("Bearer", token), mend=mend)
            case Tracker.GITLAB:
                return Credentials(headers=_authorization("Bearer", token), mend=where)
            case _:
                assert_never(self.kind)


PUBLIC = (
    Account(kind=Tracker.GITHUB, url="https://github.com", setting="GITHUB_TOKEN"),
    Account(kind=Tracker.GITLAB, url="https://gitlab.com", setting="GITLAB_TOKEN"),
)
"""What anybody can ask; an account that is set up for the same place goes first."""


def with_public(accounts: Sequence[Account]) -> tuple[Account, ...]:
    """The accounts, and the public trackers that none of them is on."""
    there = {account.site for account in accounts}
    return (*accounts, *(account for account in PUBLIC if account.site not in there))


def _authorization(scheme: str, secret: str) -> dict[str, str]:
    """No header for no secret, nor for one that no header can hold: the tracker then says that nobody logged in."""
    return {"Authorization": f"{scheme} {secret}"} if _PRINTABLE.fullmatch(secret) else {}


async def _token_of_gh(host: str, patience: float) -> str:
    """The token of GitHub's own client if it is logged in to the host and tells it within `patience` seconds."""
    try:
        process = await asyncio.create_subprocess_exec(
            *("gh", "auth", "token", "--hostname", host),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError:
        return ""
    try:
        async with asyncio.timeout(patience):
            said, _ = await process.communicate()
    except TimeoutError:
        return ""
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return said.decode("ascii", "replace").strip() if process.returncode == 0 else ""
