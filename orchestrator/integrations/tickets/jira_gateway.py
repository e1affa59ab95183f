"""Jira tickets by way of a gateway, whose answers have the fields of ticket.json."""

import asyncio
from collections.abc import Sequence

from pydantic import ConfigDict, Field

from orchestrator.formats.markdown import visible
from orchestrator.integrations.errors import RemoteError
from orchestrator.integrations.http import Patience
from orchestrator.integrations.tickets.gateway import Conversation, Gateway, ToolRefused, conversation, secret_withheld
from orchestrator.integrations.tickets.text.classifier import type_of
from orchestrator.integrations.tickets.text.reference import Reference
from orchestrator.integrations.tickets.text.ticket import (
    Moment,
    Requirement,
    TicketComment,
    Tracker,
    TrackerRecord,
    composed,
    names,
    one_name,
    squeezed,
)

_READ, _COMMENTS = "jira_read_ticket", "jira_read_comments"
_COMMENT, _STATUS = "jira_add_comment", "jira_update_status"


class _Answer(TrackerRecord):
    model_config = ConfigDict(defer_build=True)  # most machines use no gateway


class _Filtered(_Answer):
    scan_result: str = ""
    blocked_patterns: tuple[str, ...] | None = ()


class _Ticket(_Answer):
    key: str = Field(alias="ticket_id", pattern=r"^[A-Z][A-Z0-9_]{0,30}-[0-9]{1,12}$")
    type: str = ""
    summary: str = ""
    description: str | None = ""
    assignee: str | None = ""
    status: str = ""
    labels: tuple[str, ...] | None = ()
    created: Moment = None
    updated: Moment = None
    filtered: _Filtered = Field(alias="_filter_metadata", default_factory=_Filtered)


class _Comment(_Answer):
    author: str = ""
    body: str = ""
    created: Moment = None


class _CommentList(_Answer):
    comments: tuple[_Comment, ...] | None = ()


async def fetch_by_gateway(gateway: Gateway, reference: Reference, patience: Patience) -> Requirement:
    """Return the issue with its newest comments. Raises RemoteError and NoTicket."""
    async with conversation(gateway, str(reference), patience) as gate:
        ticket = await gate.call_as(_Ticket, _READ, ticket_id=reference.key)
        if ticket.filtered.scan_result == "BLOCKED":
            found = ", ".join(names(ticket.filtered.blocked_patterns or ()))
            raise secret_withheld(f"the gateway {gateway.name!r}", str(reference), found)
        comments = await _comments(gate, reference.key)
    labels = ticket.labels or ()
    title = one_name(ticket.summary) or ticket.key
    return Requirement(
        key=ticket.key,
        title=title,
        text=composed(visible(ticket.description or "") or title, comments, source=str(reference)),
        type=type_of([ticket.type], labels, title),
        tracker=Tracker.JIRA,
        url=f"{reference.site.url}/browse/{ticket.key}",
        labels=names(labels),
        status=one_name(ticket.status),
        assignee=one_name(ticket.assignee),
        created=ticket.created,
        updated=ticket.updated,
    )


async def comment_by_gateway(
    gateway: Gateway, reference: Reference, text: str, status: str | None, patience: Patience
) -> str:
    """Post a comment unless the ticket has it already, set the status, and return why that failed, or ""."""
    try:
        async with asyncio.timeout(patience.ticket), conversation(gateway, str(reference), patience) as gate:
            if squeezed(text) not in {squeezed(said.text) for said in await _comments(gate, reference.key)}:
                await gate.call(_COMMENT, ticket_id=reference.key, body=text)
            if status is not None:
                await gate.call(_STATUS, ticket_id=reference.key, target=status)
    except RemoteError as error:
        return str(error)
    except (OSError, TimeoutError) as error:
        return f"{reference} took no comment by the gateway {gateway.name!r}: {type(error).__name__}"
    return ""


async def _comments(gate: Conversation, key: str) -> Sequence[TicketComment]:
    """Return the comments of the ticket; none if the gateway does not offer them."""
    try:
        listed = await gate.call_as(_CommentList, _COMMENTS, ticket_id=key)
    except ToolRefused:
        return ()
    return [TicketComment(author=one.author, text=one.body, at=one.created) for one in listed.comments or ()]
