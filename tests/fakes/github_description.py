"""What GitHub publishes about its REST API, held against what is asked of the stand-ins and what they answer.

tests/data/github_api.json is the part that is used of github.com/github/rest-api-description (OpenAPI 3.0, MIT), as the
npm package @octokit/openapi 23.0.2 has it, without descriptions and examples. A stand-in states what a test is about;
`completed` adds the fields that GitHub always sends, so no client comes to rely on their absence.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import orjson
from jsonschema import Draft4Validator

from orchestrator.formats.codec import Json, JsonObject
from orchestrator.formats.fields import list_of, object_of, text_of

FILE = Path(__file__).parent.parent / "data/github_api.json"
ALWAYS_POSSIBLE = frozenset({401, 403, 404, 409, 422, 429, 500, 502, 503})
"""Statuses of failures that GitHub documents for all its API, and not with each request."""
UNDOCUMENTED_NULLS = {"pull-request-review-comment": ("line", "original_line")}
"""Numbers by the description that GitHub answers with null: the code has changed since, or a whole file is meant."""
SAMPLES: Mapping[str, Json] = {"string": "", "integer": 1, "number": 1.0, "boolean": False, "array": []}
FORMATS: Mapping[str, Json] = {
    "date-time": "2026-11-21T22:00:00Z",
    "uri": "https://github.test/",
    "email": "ada@github.test",
}


def objections(method: str, path: str, query: Mapping[str, str], body: JsonObject) -> list[str]:
    """Return what GitHub's description does not allow in a request: its address, parameters and body."""
    operation = operation_of(method, path)
    if operation is None:
        return [f"{method} {path} is not described"]
    parameters = [resolved(object_of(one)) for one in list_of(operation.get("parameters"))]
    known = {text_of(one["name"]): one for one in parameters if one["in"] == "query"}
    found = [f"{method} {path}: the parameter {name} is not described" for name in query.keys() - known.keys()]
    for name in query.keys() & known.keys():
        schema = object_of(known[name]["schema"])
        value: Json = int(query[name]) if schema.get("type") == "integer" else query[name]
        found += [f"{method} {path}: {name}: {one}" for one in misfits(schema, value)]
    content = object_of(object_of(operation.get("requestBody")).get("content"))
    if content:
        wanted = object_of(object_of(content["application/json"])["schema"])
        found += [f"{method} {path}: the body: {one}" for one in misfits(wanted, body)]
    elif body:
        found.append(f"{method} {path} takes no body")
    return found


def completed(method: str, path: str, status: int, answer: Json) -> tuple[Json, list[str]]:
    """Return an answer with every field that GitHub always sends, and why it is none of GitHub's."""
    operation = operation_of(method, path)
    responses = object_of(operation["responses"]) if operation else {}
    if str(status) not in responses:
        return answer, [] if status in ALWAYS_POSSIBLE else [f"{method} {path} is never answered {status}"]
    schema = schema_of_response(responses, status)
    if schema is None:
        return answer, []
    whole = filled(schema, answer)
    return whole, [f"{method} {path}, {status}: {one}" for one in misfits(schema, whole)]


def schema_of_response(responses: JsonObject, status: int) -> JsonObject | None:
    """Return the schema of an answer's JSON; None if it has none."""
    content = object_of(resolved(object_of(responses[str(status)])).get("content"))
    kind = object_of(content.get("application/json")).get("schema")
    return object_of(kind) if kind else None


def operation_of(method: str, path: str) -> JsonObject | None:
    """Return the description of a request."""
    for pattern, methods in paths().items():
        if re.fullmatch(pattern, path) and method.lower() in methods:
            return object_of(methods[method.lower()])
    return None


@cache
def paths() -> Mapping[str, JsonObject]:
    """Return what is described, by a pattern of its address; the name of a branch may hold slashes."""
    described = object_of(description()["paths"])
    return {re.sub(r"\\\{(\w+)\\\}", _part, re.escape(path)): object_of(one) for path, one in described.items()}


def _part(name: re.Match[str]) -> str:
    return ".+" if name[1] == "ref" else "[^/]+"


@cache
def description() -> JsonObject:
    """Return the whole description, with OpenAPI's `nullable` in the words of JSON Schema."""
    read = orjson.loads(FILE.read_bytes())
    for schema, fields in UNDOCUMENTED_NULLS.items():
        for name in fields:
            read["components"]["schemas"][schema]["properties"][name]["nullable"] = True
    return object_of(_nullable(read))


def _nullable(value: Json) -> Json:
    if isinstance(value, list):
        return [_nullable(one) for one in value]
    if not isinstance(value, dict):
        return value
    same = {name: _nullable(one) for name, one in value.items() if not (name == "nullable" and isinstance(one, bool))}
    return {"anyOf": [{"type": "null"}, same]} if value.get("nullable") is True else same


def misfits(schema: JsonObject, value: Json) -> Iterator[str]:
    """Yield why a value does not fit a schema."""
    whole: JsonObject = {"components": description()["components"], "allOf": [schema]}
    for error in Draft4Validator(whole).iter_errors(value):
        yield f"{error.json_path}: {error.message:.200}"


def resolved(schema: JsonObject) -> JsonObject:
    """Return what a reference points to."""
    while reference := text_of(schema.get("$ref")):
        there: Json = description()
        for name in reference.removeprefix("#/").split("/"):
            there = object_of(there)[name]
        schema = object_of(there)
    return schema


def filled(schema: JsonObject, value: Json) -> Json:
    """Return a value with its required fields, wherever they are missing."""
    schema = resolved(schema)
    for choice in ("anyOf", "oneOf"):
        options = [object_of(one) for one in list_of(schema.get(choice)) if one != {"type": "null"}]
        if options and value is not None:
            return filled(options[0], value)
    if isinstance(value, list):
        return [filled(object_of(schema.get("items")), one) for one in value]
    if not isinstance(value, dict):
        return value
    whole = dict(value)
    for part in map(object_of, list_of(schema.get("allOf"))):
        whole = object_of(filled(part, whole))
    known = object_of(schema.get("properties"))
    whole = {name: filled(object_of(known.get(name)), one) for name, one in whole.items()}
    missing = [name for name in map(text_of, list_of(schema.get("required"))) if name not in whole]
    return {**whole, **{name: sample(object_of(known.get(name))) for name in missing}}


def sample(schema: JsonObject) -> Json:
    """Return the plainest value that fits a schema."""
    schema = resolved(schema)
    if {"type": "null"} in list_of(schema.get("anyOf")):
        return None
    for choice in ("anyOf", "oneOf", "allOf"):
        if options := list_of(schema.get(choice)):
            return sample(object_of(options[0]))
    if values := list_of(schema.get("enum")):
        return values[0]
    if schema.get("format") in FORMATS:
        return FORMATS[text_of(schema["format"])]
    kind = text_of(schema.get("type"))
    return SAMPLES[kind] if kind in SAMPLES else filled(schema, {})
