"""The OpenAPI document: that of the framework, with each refusal, an example of everything, and what leads where."""

import asyncio
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import orjson
from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.routing import APIRoute
from pydantic.json_schema import JsonSchemaMode

from orchestrator.server.access.requests import COOKIE, HOOKS, OPEN_OVER_TCP, OPEN_PATHS
from orchestrator.server.openapi.links import links_of
from orchestrator.server.openapi.refusals import (
    BODY,
    EVERY,
    MALFORMED,
    NAMED,
    PATH,
    READ,
    WRITE,
    Refusal,
    problem_response,
    refusal_of,
    refusals_in,
)
from orchestrator.server.schemas.base import View
from orchestrator.server.schemas.events import EventView, GapView
from orchestrator.server.schemas.tasks import ProblemView

Object = dict[str, Any]
"""A part of the document."""

JSON = "application/json"
SCHEMAS = "#/components/schemas/"
OF_THE_FRAMEWORK = ("HTTPValidationError", "ValidationError")
"""Schemas of answers that this API never gives."""
STREAM = "text/event-stream"
EVENT = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "pattern": "^[0-9]+$", "description": "The number in the stream."},
        "event": {"type": "string", "description": "The event's type, or `gap`."},
        "data": {
            "type": "string",
            "contentMediaType": JSON,
            "contentSchema": {"anyOf": [{"$ref": f"{SCHEMAS}EventView"}, {"$ref": f"{SCHEMAS}GapView"}]},
        },
    },
}
"""The schema of one Server-Sent Event."""
ERROR = {
    "type": "string",
    "description": "Of `operation-refused` alone: which refusal; other members then say what was expected.",
}
SECURITY = {
    "token": {"type": "http", "scheme": "bearer", "description": "Of `orchestrator token create`; over TCP only."},
    "session": {"type": "apiKey", "in": "cookie", "name": COOKIE, "description": "Of a browser that is logged in."},
}
"""What a request over TCP shows, one of them; on the Unix socket the kernel says who asks."""


class DocumentedApp(FastAPI):
    """An app whose OpenAPI document, at /openapi.json, says all that its routes can answer.

    `methods` has those that are possible at each address, by its template.
    """

    def __init__(self, **more: Any) -> None:
        super().__init__(openapi_url=None, **more)
        self.methods: dict[str, list[str]] = {}
        self._document = b""
        self.add_route("/openapi.json", self._send_document, include_in_schema=False)

    def include_router(self, router: APIRouter, *given: Any, **more: Any) -> None:
        """Include a router, and note what is possible at its addresses."""
        super().include_router(router, *given, **more)
        for route in router.routes:
            if isinstance(route, APIRoute):
                self.methods.setdefault(route.path_format, []).extend(sorted(route.methods or ()))

    def openapi(self) -> Object:
        """Return the document; it takes about half a second to make."""
        document = _completed(super().openapi())
        self.openapi_schema = None
        return document

    async def document(self) -> bytes:
        """Return the document as JSON; it is made once."""
        if not self._document:
            self._document = await asyncio.to_thread(lambda: orjson.dumps(self.openapi()))
        return self._document

    async def _send_document(self, _: Request) -> Response:
        return Response(await self.document(), media_type=JSON)


def operation_id(route: APIRoute) -> str:
    """Return a route's name in the document: its resource and what it does there."""
    return f"{route.tags[0]}.{route.name}" if route.tags else route.name


@cache
def examples() -> Object:
    """Return the examples of the document: of `problems` by kind, of `views` by schema, of `routes` by name."""
    found: Object = orjson.loads(Path(__file__).with_name("examples.json").read_bytes())
    return found


def _completed(document: Object) -> Object:
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for name in OF_THE_FRAMEWORK:
        schemas.pop(name, None)
    for view in (EventView, GapView):
        schemas[view.__name__] = _schema(view, schemas, "serialization")
    schemas["Problem"] = _schema(ProblemView, schemas, "validation")
    schemas["Problem"]["properties"]["error"] = ERROR
    shown = examples()
    components["examples"] = {
        name: {"summary": value.get("title", name), "value": value}
        for name, value in {**shown["problems"], **shown["views"]}.items()
    }
    components["securitySchemes"] = SECURITY
    for path, method, operation in _operations(document):
        needs_none = path in OPEN_OVER_TCP or path.startswith(HOOKS)  # a webhook is signed instead
        operation["security"] = [{}] if needs_none else [{name: []} for name in SECURITY]
        _complete_refusals(path, method, operation)
        _complete_parameters(operation)
        _complete_examples(operation, shown)
    return document


def _schema(view: type[View], schemas: Object, mode: JsonSchemaMode) -> Object:
    """Return the schema of a view that no route returns as such, with those that it is made of put to the others."""
    schema = view.model_json_schema(by_alias=True, ref_template=f"{SCHEMAS}{{model}}", mode=mode)
    for name, inner in schema.pop("$defs", {}).items():
        schemas.setdefault(name, inner)
    return schema


def _operations(document: Object) -> Iterator[tuple[str, str, Object]]:
    for path, item in document["paths"].items():
        for method, operation in item.items():
            yield path, method, operation


def _complete_refusals(path: str, method: str, operation: Object) -> None:
    responses: Object = operation["responses"]
    refusals = refusals_in(responses) | set(_met_by_any(path, method, operation))
    answers = {status: one for status, one in responses.items() if status.startswith("2")}
    for status in sorted({status for status, _ in refusals}):
        kinds = {kind for of, kind in refusals if of == status}
        answers[str(status)] = problem_response(status, kinds, examples()["problems"])
    operation["responses"] = answers


def _met_by_any(path: str, method: str, operation: Object) -> Iterator[Refusal]:
    """Yield what a request may meet because of what it takes and does, whatever its use case."""
    parameters = operation.get("parameters", [])
    if path not in OPEN_PATHS:
        yield from EVERY
    if parameters:
        yield MALFORMED
    if "requestBody" in operation:
        yield from BODY
    if any(one["in"] == "path" for one in parameters):
        yield PATH
    if "{name}" in path:
        yield from map(refusal_of, NAMED)
    if method != "get":
        yield from WRITE
    elif path not in OPEN_PATHS:
        yield from READ


def _complete_parameters(operation: Object) -> None:
    """Leave out null, which no parameter can be."""
    for parameter in operation.get("parameters", []):
        schema = parameter["schema"]
        choices = [one for one in schema.get("anyOf", ()) if one != {"type": "null"}]
        if len(choices) == 1:
            del schema["anyOf"]
            schema |= choices[0]


def _complete_examples(operation: Object, shown: Object) -> None:
    own = shown["routes"].get(operation["operationId"], {})
    body = operation.get("requestBody", {}).get("content", {}).get(JSON)
    if body is not None:
        _give_examples(body, own.get("request"), shown["views"])
    for status, response in operation["responses"].items():
        if not status.startswith("2"):
            continue
        if STREAM in response.get("content", {}):
            response["content"][STREAM] = {"itemSchema": EVENT}
        for media_type, content in response.get("content", {}).items():
            _give_examples(content, own.get(media_type, own.get("response")), shown["views"])
            for name in _schema_names(content) if media_type == JSON else ():
                if links := links_of(operation["operationId"], name):
                    response["links"] = links


def _give_examples(content: Object, own: object, views: Object) -> None:
    """Show a route's own example of a body, or else those of the views that it is one of."""
    names = [name for name in _schema_names(content) if name in views]
    if own is not None:
        content["examples"] = {"example": {"value": own}}
    elif names:
        content["examples"] = {name: {"$ref": f"#/components/examples/{name}"} for name in names}


def _schema_names(content: Object) -> list[str]:
    """Return the names of the schemas that a body has one of."""
    schema: Object = content.get("schema", {})
    choices = [schema, *schema.get("anyOf", ())]
    return [one["$ref"].removeprefix(SCHEMAS) for one in choices if "$ref" in one]
