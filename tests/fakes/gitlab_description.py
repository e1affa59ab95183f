"""What GitLab publishes about its REST API, held against what is asked of the stand-ins and what they answer.

tests/data/gitlab_api.json writes down, for the requests that are used, the names and types that GitLab documents:
`requests` by GitLab's OpenAPI description (19.5), `requests_by_page`, which are notes, discussions and users, by the
pages of https://docs.gitlab.com/api/. GitLab declares no field of an answer as required; so a stand-in may leave fields
out, but each one it sends must be documented and fit.

Three things follow the pages, because the description contradicts the examples there: a list of people is a list and
not one of them, an access level is a number, and labels to add are text with commas. Premium's `approvals_required` and
`approvals_left` are on the page only.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import cache
from pathlib import Path

import orjson

from orchestrator.formats.codec import Json, JsonObject
from orchestrator.formats.fields import object_of, text_of

FILE = Path(__file__).parent.parent / "data/gitlab_api.json"
ALWAYS_POSSIBLE = frozenset({400, 401, 403, 404, 429, 500, 502, 503})
"""Statuses of failures that any request may have."""
PARTS = {"project": ".+", "branch": ".+", "sha": "[0-9a-f]+", "discussion": "[^/]+"}
"""What a part of an address may be; the others are numbers."""
PLAIN: Mapping[str, type] = {"string": str, "integer": int, "boolean": bool}


def objections(method: str, path: str, query: Mapping[str, str], body: JsonObject) -> list[str]:
    """Return what GitLab does not document in a request: its address, parameters and body."""
    operation = operation_of(method, path)
    if operation is None:
        return [f"{method} {path} is not described"]
    found = []
    known = object_of(operation.get("query"))
    for name, value in query.items():
        if name not in known:
            found.append(f"the parameter {name} is not described")
        else:
            found += misfits(known[name], int(value) if known[name] == "integer" else value, name)
    wanted = object_of(operation.get("body"))
    fields = {name.removesuffix("!"): kind for name, kind in wanted.items()}
    found += [f"the field {name} is required" for name in fields if f"{name}!" in wanted and name not in body]
    found += _fields_misfit(fields, body, "")
    return [f"{method} {path}: {one}" for one in found]


def answer_objections(method: str, path: str, status: int, answer: Json) -> list[str]:
    """Return why an answer is none of GitLab's."""
    operation = operation_of(method, path)
    answers = object_of(operation["answers"]) if operation else {}
    kind = answers.get(str(status))
    if kind is None:
        return [] if status in ALWAYS_POSSIBLE else [f"{method} {path} is never answered {status}"]
    return [f"{method} {path}, {status}: {one}" for one in misfits(kind, answer, "")] if kind else []


def operation_of(method: str, path: str) -> JsonObject | None:
    """Return what is documented of a request."""
    for (verb, pattern), operation in operations().items():
        if verb == method and re.fullmatch(pattern, path):
            return operation
    return None


@cache
def operations() -> Mapping[tuple[str, str], JsonObject]:
    """Return what is documented, by method and a pattern of the address."""
    read = description()
    known = {**object_of(read["requests"]), **object_of(read["requests_by_page"])}
    whole = {}
    for request, operation in known.items():
        method, _, path = request.partition(" ")
        pattern = re.sub(r"\\\{(\w+)\\\}", lambda part: PARTS.get(part[1], r"\d+"), re.escape(path))
        whole[method, pattern] = object_of(operation)
    return whole


@cache
def description() -> JsonObject:
    """Return all that is documented."""
    return object_of(orjson.loads(FILE.read_bytes()))


def misfits(kind: Json, value: Json, place: str) -> Iterator[str]:
    """Yield why a value is not of a kind: one of these words, a plain type, a list `[X]`, X or null `X?`, an object."""
    name = text_of(kind)
    if isinstance(kind, list):
        fits, what = value in kind, f"none of {kind}"
    elif name.endswith("?"):
        yield from misfits(name.removesuffix("?"), value, place) if value is not None else ()
        return
    elif name.startswith("["):
        fits, what = isinstance(value, list), "no list"
    elif name == "time":
        fits, what = _is_time(value), "no time"
    else:
        fits, what = type(value) is PLAIN.get(name, dict), f"no {name}"
    if not fits:
        yield f"{place}: {value!r:.80} is {what}"
    elif isinstance(value, list):
        for number, one in enumerate(value):
            yield from misfits(name[1:-1], one, f"{place}[{number}]")
    elif isinstance(value, dict):
        yield from _fields_misfit(object_of(object_of(description()["types"])[name]), value, place)


def _fields_misfit(known: JsonObject, there: JsonObject, place: str) -> Iterator[str]:
    for name, value in there.items():
        if name in known:
            yield from misfits(known[name], value, f"{place}.{name}")
        else:
            yield f"the field {place}.{name} is not described"


def _is_time(value: Json) -> bool:
    try:
        return isinstance(value, str) and bool(datetime.fromisoformat(value))
    except ValueError:
        return False
