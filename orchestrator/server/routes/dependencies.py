"""What routes are given beside the request: the service, and who asks."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Path, Request

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


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamReader:
    """Who reads a stream."""

    abort: Callable[[], None]
    """Cuts off the connection at once."""
    is_admitted: Callable[[], bool]
    """Whether the caller may read on: a token may be revoked meanwhile, and a session end."""


def reader_of(request: Request) -> StreamReader:
    """Return who reads the stream that a request asks for."""
    credentials, caller = service_of(request).credentials, caller_of(request)
    return StreamReader(abort=request.state.abort, is_admitted=lambda: credentials.still_admits(caller))


TheService = Annotated[Service, Depends(service_of)]
TheCaller = Annotated[Caller, Depends(caller_of)]
TheReader = Annotated[StreamReader, Depends(reader_of)]
By = Annotated[str, Depends(name_of_caller)]
TaskName = Annotated[
    str,
    Path(
        description="The id of a task, a unique beginning of one, or the key of its ticket.",
        examples=["LOCAL-20261122_073933", "ABC-123"],
    ),
]
RequestName = Annotated[
    str,
    Path(description="The id of a request: the name of its task, a dot, its number.", examples=["ABC-123.1"]),
]
