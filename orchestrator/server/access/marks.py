"""Routes that need more than their method says, and the refusal of who has less."""

import os
from shlex import quote

from fastapi import Request

from orchestrator.daemon.access.scopes import Scope
from orchestrator.daemon.callers import Caller
from orchestrator.server.peer_auth import caller_of
from orchestrator.server.problems import HttpProblem, RefusedRequest

MARK = "x-scope"
ADMIN = {MARK: Scope.ADMIN.value}
"""A route's mark, in the OpenAPI document too, that it needs the scope `admin`."""


def lacks_scope(caller: Caller, needed: Scope) -> HttpProblem:
    """Return the refusal of a caller that may ask less."""
    has = f"has the scope {caller.scope}" if caller.scope else "has no scope"
    is_person = caller.scope is not None and not caller.name and caller.attempt is None
    owner = Caller(uid=os.geteuid()).user
    mend = f"ask as {owner}: sudo -u {quote(owner)} orchestrator …" if is_person else "use a token that has it"
    detail = f"{caller} {has}, and this needs {needed}; {mend}"
    return HttpProblem(403, "out-of-scope", "The caller may not do this", detail)


def check_mark(request: Request) -> None:
    """Refuse who has less than the mark of the route asks for; a dependency of every route."""
    needed = (getattr(request.scope["route"], "openapi_extra", None) or {}).get(MARK)
    caller = caller_of(request)
    if needed and not caller.may(Scope(needed)):
        raise RefusedRequest(lacks_scope(caller, Scope(needed)))
