"""Which answers name what other routes take, as links of the OpenAPI document."""

from collections.abc import Iterator, Mapping
from typing import Any

TASK = (
    *("tasks.task", "tasks.why", "tasks.agent", "tasks.change", "tasks.pause", "tasks.resume", "tasks.cancel"),
    *("tasks.retry", "tasks.archive", "tasks.delete", "records.journal", "records.artifacts", "agents.agents"),
    *(
        "checkpoints.checkpoints",
        "events.stream",
        "state.current",
        "records.diff",
        "records.timeline",
        "records.failures",
    ),
)
"""What can be asked of a task."""
REQUESTS: Mapping[str, tuple[str, ...]] = {
    "people.questions": ("people.question", "people.answer", "people.skip"),
    "people.dependencies": ("people.dependency", "people.provide", "people.reject"),
    "people.reviews": ("people.review", "people.approve", "people.request_changes"),
}
"""What can be asked of the requests in a list."""
_NEXT = "$response.body#/nextCursor"


def links_of(operation: str, schema: str) -> dict[str, Any]:
    """Return the links of an operation whose answer has this schema, by name."""
    return {name: {"operationId": name, "parameters": given} for name, given in _links(operation, schema)}


def _links(operation: str, schema: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield what leads on from an answer: the operation, and where its parameters are."""
    match schema:
        case "TaskView":
            yield from ((name, {"name": "$response.body#/id"}) for name in TASK)
        case "TaskPage":
            yield from ((name, {"name": "$response.body#/tasks/0/id"}) for name in ("tasks.task", "tasks.why"))
            yield operation, {"cursor": _NEXT}
        case "RequestList":
            yield from ((name, {"name": "$response.body#/requests/0/id"}) for name in REQUESTS.get(operation, ()))
        case "CheckpointList":
            given = {"name": "$request.path.name", "number": "$response.body#/checkpoints/0/number"}
            yield from ((f"checkpoints.{name}", given) for name in ("checkpoint", "pin", "restore"))
        case "AttemptList":
            given = {"name": "$request.path.name", "attempt": "$response.body#/attempts/0/attempt"}
            yield from ((name, given) for name in ("agents.transcript", "records.entries"))
        case "NewTokenView":
            yield "access.revoke", {"token": "$response.body#/name"}
        case "ArtifactList":
            yield "records.artifact", {"name": "$request.path.name", "path": "$response.body#/artifacts/0/path"}
        case "JournalPage":
            yield operation, {"name": "$request.path.name", "since": "$response.body#/nextSince"}
