"""Which problem documents a route can answer: those of its use cases, and those that any request may meet."""

from collections.abc import Iterable, Mapping
from typing import Any

from orchestrator.daemon.services import errors
from orchestrator.errors import OrchestratorError, WorkWouldBeLost
from orchestrator.server.problems import KINDS, TYPES

Refusal = tuple[int, str]
"""A status and the kind of a problem: the last part of its type."""
Responses = dict[int | str, dict[str, Any]]

REFUSALS = "x-refusals"
"""The key under which a route's responses have the kinds of their problems until the document is made."""
MALFORMED: Refusal = (400, "malformed")
BODY: tuple[Refusal, ...] = (MALFORMED, (413, "too-large"), (415, "unsupported-media-type"))
EVERY: tuple[Refusal, ...] = (
    *((401, "not-logged-in"), (403, "not-for-you"), (403, "other-origin"), (403, "out-of-scope")),
    *((421, "wrong-host"), (429, "too-many-requests"), (431, "large-head"), (500, "mistake")),
)
"""What every route can answer that asks who calls."""
PATH: Refusal = (404, "not-found")
"""What becomes of a parameter in a path that has a slash: the address of something else."""
READ: tuple[Refusal, ...] = ((500, "unreadable"), (503, "busy"))
WRITE: tuple[Refusal, ...] = ((409, "key-taken"), (507, "not-committed"))
OPERATION: tuple[Refusal, ...] = ((400, "operation-refused"), (409, "operation-refused"))
NOT_READY: tuple[Refusal, ...] = ((503, "draining"), (503, "account"), (503, "installation"))
NAMED = (errors.NoSuchTask, errors.AmbiguousName, errors.UnreadableTask)
"""What every route can answer that takes the name of a task, or of a request to people."""
CHANGED = (*NAMED, errors.InvalidTransition, errors.NotCommitted, OrchestratorError)
"""What a route can answer that changes a task."""
DELETED = (*CHANGED, WorkWouldBeLost)
"""What a route can answer that deletes a task."""
ANSWERED = (*CHANGED, errors.NoSuchRequest, errors.AlreadyAnswered, errors.AnswerRefused, errors.BadAnswer)
"""What a route can answer that takes a person's answer."""
TRACKER = (
    *(errors.AlreadyActive, errors.NotFound, errors.AuthenticationFailed, errors.AccessDenied),
    *(errors.Refused, errors.Unreachable, errors.SubmissionRefused),
)
"""What a submission can be refused for."""


def refusal_of(error: type[OrchestratorError]) -> Refusal:
    """Return what becomes of an error."""
    return next(row[1:3] for row in KINDS if issubclass(error, row[0]))


def refuses(*reasons: type[OrchestratorError] | Refusal) -> Responses:
    """Return the responses of a route whose use case raises these errors, or that refuses so itself."""
    found: Responses = {}
    for reason in reasons:
        status, kind = reason if isinstance(reason, tuple) else refusal_of(reason)
        kinds = found.setdefault(status, {REFUSALS: []})[REFUSALS]
        if kind not in kinds:
            kinds.append(kind)
    return found


def refusals_in(responses: Mapping[str, Mapping[str, Any]]) -> set[Refusal]:
    """Return what a route's responses say that it refuses."""
    return {(int(status), kind) for status, one in responses.items() for kind in one.get(REFUSALS, ())}


def problem_response(status: int, kinds: Iterable[str], problems: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the response of the document for problems of these kinds; `problems` has an example of each kind."""
    names = sorted(kinds)
    schema = {
        "allOf": [{"$ref": "#/components/schemas/Problem"}],
        "properties": {"type": {"enum": [f"{TYPES}{name}" for name in names]}, "status": {"const": status}},
    }
    return {
        "description": "; ".join(dict.fromkeys(problems[name]["title"] for name in names)),
        "content": {
            "application/problem+json": {
                "schema": schema,
                "examples": {name: _example(name, status, problems[name]) for name in names},
            }
        },
    }


def _example(name: str, status: int, problem: Mapping[str, Any]) -> dict[str, Any]:
    if problem["status"] == status:
        return {"$ref": f"#/components/examples/{name}"}
    return {"value": {**problem, "status": status}}
