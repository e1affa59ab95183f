"""Fetch what a person submits, a ticket's text or its name on a tracker, as a requirement; and comment on tickets."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import assert_never

from orchestrator.integrations.errors import NoTicket, Unreachable
from orchestrator.integrations.http import HttpClient, Patience
from orchestrator.integrations.tickets.account import TrackerAccount, with_public
from orchestrator.integrations.tickets.comments import fit_text, post_comment
from orchestrator.integrations.tickets.gateway import Gateway
from orchestrator.integrations.tickets.github import fetch_github, list_github
from orchestrator.integrations.tickets.gitlab import fetch_gitlab
from orchestrator.integrations.tickets.jira import fetch_jira
from orchestrator.integrations.tickets.jira_gateway import comment_by_gateway, fetch_by_gateway
from orchestrator.integrations.tickets.polling import Poll, Standing, TicketSearch, poll_tickets, standing_of
from orchestrator.integrations.tickets.text.plain_text import from_text
from orchestrator.integrations.tickets.text.reference import Reference, TicketQuery, parse_reference
from orchestrator.integrations.tickets.text.template import parse_template
from orchestrator.integrations.tickets.text.ticket import Requirement, Tracker
from orchestrator.settings.environment import environment_with_secrets
from orchestrator.settings.settings import Settings


class Trackers:
    """Tickets on the configured trackers and on the public ones."""

    def __init__(self, accounts: Sequence[TrackerAccount] = (), patience: Patience | None = None) -> None:
        self._accounts = with_public(accounts)
        self._patience = patience or Patience()

    def named(self, text: str) -> Reference | None:
        """Return the ticket that the text names, None for a text that is a ticket itself. Raises NoTicket."""
        return parse_reference(text, [account.site for account in self._accounts])

    async def requirement(self, text: str) -> Requirement:
        """Return what a text asks for, or the ticket that it names. Raises NoTicket, DefinitionError, RemoteError."""
        reference = self.named(text)
        return from_text(text) if reference is None else await self.fetch(reference)

    async def fetch(self, reference: Reference) -> Requirement:
        """Return the ticket as its tracker has it now. Raises RemoteError and NoTicket.

        A line in the ticket that names its type takes precedence over the type that the tracker gives.
        """
        account = next((account for account in self._accounts if account.site == reference.site), None)
        if account is None:
            raise NoTicket(f"{reference} is on no configured tracker; add it to [trackers] in orchestrator.toml")
        try:
            async with asyncio.timeout(self._patience.ticket):
                requirement = await _fetch(account, reference, self._patience)
        except TimeoutError as error:
            raise Unreachable(
                f"{reference} could not be fetched within {self._patience.ticket:g} s; check whether the tracker is "
                "slow, then submit again"
            ) from error
        return replace(requirement, type=parse_template(requirement.text).type or requirement.type)

    async def listed(self, query: TicketQuery) -> tuple[Requirement, ...]:
        """Return the open tickets that a query finds on the first configured GitHub. Raises RemoteError and NoTicket.

        They come without comments, which would take a request for each.
        """
        account = next(account for account in self._accounts if account.kind is Tracker.GITHUB)
        try:
            async with asyncio.timeout(self._patience.ticket), await account.client(query, self._patience) as http:
                found = await list_github(http, account.site, query)
        except TimeoutError as error:
            raise Unreachable(
                f"the issues of {query} could not be fetched within {self._patience.ticket:g} s; try again, or choose "
                "fewer by a label"
            ) from error
        if not found:
            raise NoTicket(f"there are no open issues in {query} on {account.site.url}")
        return found

    async def poll(self, search: TicketSearch, etag: str = "") -> Poll:
        """Return what a query finds on the first tracker of its kind, asked once. Raises RemoteError and NoTicket."""
        account = next((one for one in self._accounts if one.kind is search.tracker), None)
        if account is None:
            raise NoTicket(f"no {search.tracker.value} is set up; add it to [trackers] in orchestrator.toml")
        async with self._asking(account, str(search)) as http:
            return await poll_tickets(http, account.site, search, etag, cloud=bool(account.user))

    async def standing(self, url: str) -> Standing:
        """Return how the ticket at an address is on its tracker. Raises RemoteError and NoTicket."""
        reference = self.named(url)
        account = next((one for one in self._accounts if reference and one.site == reference.site), None)
        if reference is None or account is None:
            raise NoTicket(f"{url} is on no configured tracker; add it to [trackers] in orchestrator.toml")
        async with self._asking(account, str(reference)) as http:
            return await standing_of(http, reference, cloud=bool(account.user))

    @asynccontextmanager
    async def _asking(self, account: TrackerAccount, subject: str) -> AsyncGenerator[HttpClient]:
        """Give a client that asks each thing once: what asks by the clock asks again by itself."""
        if account.gateway is not None:
            raise NoTicket(f"{subject} cannot be looked for by a gateway; take [trackers.jira] gateway out")
        patience = replace(self._patience, tries=1)
        try:
            async with asyncio.timeout(patience.ticket), await account.client(subject, patience) as http:
                yield http
        except TimeoutError as error:
            raise Unreachable(f"{subject} could not be fetched within {patience.ticket:g} s") from error

    async def tell(self, url: str, text: str, status: str | None) -> str:
        """Comment on the ticket at an address and set its status; return why that failed, or ""."""
        try:
            reference = self.named(url)
        except NoTicket as error:
            return str(error)
        account = next((one for one in self._accounts if reference and one.site == reference.site), None)
        if reference is None or account is None:
            return f"{url} is on no configured tracker; add it to [trackers] in orchestrator.toml"
        if account.gateway is not None:
            return await comment_by_gateway(account.gateway, reference, fit_text(text), status, self._patience)
        return await post_comment(account, reference, text, status, self._patience)


async def _fetch(account: TrackerAccount, reference: Reference, patience: Patience) -> Requirement:
    if account.gateway is not None:
        return await fetch_by_gateway(account.gateway, reference, patience)
    async with await account.client(reference, patience) as http:
        match account.kind:
            case Tracker.JIRA:
                return await fetch_jira(http, reference, version=3 if account.user else 2)
            case Tracker.GITHUB:
                return await fetch_github(http, reference)
            case Tracker.GITLAB:
                return await fetch_gitlab(http, reference)
            case _:
                assert_never(account.kind)


def trackers_of(settings: Settings) -> Trackers:
    """Return the configured trackers, with the tokens in the daemon's environment or secret files."""
    env, there, agent = environment_with_secrets(), settings.trackers, settings.agent
    name, known = there.jira.gateway, {**env, **agent.env}
    gateway = Gateway(name=name, config=agent.mcp_config, env=known) if name else None
    jira = [(Tracker.JIRA, there.jira.url, "JIRA_API_TOKEN")] if there.jira.url else []
    others = [(Tracker.GITHUB, there.github.url, "GITHUB_TOKEN"), (Tracker.GITLAB, there.gitlab.url, "GITLAB_TOKEN")]
    return Trackers(
        [
            TrackerAccount(
                kind=kind,
                url=url,
                user=there.jira.user if kind is Tracker.JIRA else "",
                token=env.get(variable, ""),
                setting=variable,
                gateway=gateway if kind is Tracker.JIRA else None,
            )
            for kind, url, variable in (*jira, *others)
        ]
    )
