"""What the command line asks about tokens and links."""

from urllib.parse import quote

from orchestrator.server.client import Client
from orchestrator.server.schemas.base import to_view
from orchestrator.server.schemas.tokens import LinkBody, LinkView, NewTokenView, RevokedView, TokenBody, TokenList


class AccessClient:
    """Tokens and links of one daemon; every method raises what the client raises."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def tokens(self) -> TokenList:
        """Return every token and every session of a browser."""
        return to_view(TokenList, self._client.exchange("GET", "/api/tokens"), str)

    def create(self, body: TokenBody) -> NewTokenView:
        """Create a token; its secret is in what is returned."""
        document = body.model_dump(mode="json", by_alias=True)
        return to_view(NewTokenView, self._client.exchange("POST", "/api/tokens", document), str)

    def revoke(self, name: str) -> RevokedView:
        """Make a token, or all sessions of a user, invalid."""
        found = self._client.exchange("DELETE", f"/api/tokens/{quote(name, safe='')}")
        return to_view(RevokedView, found, str)

    def link(self, body: LinkBody) -> LinkView:
        """Create a link that logs a browser in."""
        document = body.model_dump(mode="json", by_alias=True)
        return to_view(LinkView, self._client.exchange("POST", "/api/links", document), str)
