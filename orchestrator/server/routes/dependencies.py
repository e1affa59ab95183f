"""What routes are given beside the request: the service, and who asks."""

from collections.abc import Callable
from typing import Annotated

from fastapi import Depends, Request

from orchestrator.daemon.callers import Caller
from orchestrator.daemon.service import Service
from orchestrator.server.peer_auth import caller_of


def service_of(request: Request) -> Service:
    """Return the service that the app was made for."""
    service: Service = request.app.state.service
    return service


def name_of_caller(request: Request) -> str:
    """Return who asks, as it is recorded."""
    return str(caller_of(request))


def abort_of(request: Request) -> Callable[[], None]:
    """Return what cuts off the connection of the request at once."""
    abort: Callable[[], None] = request.state.abort
    return abort


TheService = Annotated[Service, Depends(service_of)]
TheCaller = Annotated[Caller, Depends(caller_of)]
Abort = Annotated[Callable[[], None], Depends(abort_of)]
By = Annotated[str, Depends(name_of_caller)]
