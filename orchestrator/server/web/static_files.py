"""Static files of the pages: they never change under one address, so browsers keep them."""

import os

from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from orchestrator.server.web.templates import STATIC

A_YEAR = 31_536_000


class KeptFiles(StaticFiles):
    """Static files that a browser asks for once; their addresses carry a digest of what is in them."""

    def __init__(self) -> None:
        super().__init__(directory=os.fspath(str(STATIC)))

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Return a file, which may be kept for a year if its address names its digest."""
        answer = await super().get_response(path, scope)
        if answer.status_code == 200 and b"v=" in scope["query_string"]:
            answer.headers["Cache-Control"] = f"public, max-age={A_YEAR}, immutable"
        return answer
