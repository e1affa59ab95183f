"""Bodies of requests: a boolean is true or false, a number is no text, and nothing unknown is passed over."""

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any, get_args

import pytest
from fastapi.routing import APIRoute
from pydantic import BaseModel, TypeAdapter, ValidationError

from orchestrator.server import routes, schemas
from orchestrator.server.schemas.base import RequestBody

WRONG = {bool: (0, 1, 1.0, "true", "false", "on", ""), int: (True, "1", 1.5), float: (True, False, "1.5", "5", "nan")}
FOREIGN = {"ForceBody"}
"""Bodies in the shape of other systems' documents, in which what is unknown is ignored."""


def modules_of(package: Any) -> list[Any]:
    found = pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    return [importlib.import_module(one.name) for one in found]


def bodies(kind: type[RequestBody] = RequestBody) -> Iterator[type[RequestBody]]:
    for one in kind.__subclasses__():
        yield one
        yield from bodies(one)


def types_in(annotation: object) -> Iterator[object]:
    yield annotation
    for part in get_args(annotation):
        yield from types_in(part)


modules_of(schemas)
FIELDS = [
    pytest.param(body, field.alias or name, value, id=f"{body.__name__}-{name}-{value!r}")
    for body in bodies()
    for name, field in body.model_fields.items()
    for kind in sorted(WRONG.keys() & set(types_in(field.annotation)), key=str)
    for value in WRONG[kind]
]


@pytest.mark.parametrize(("body", "name", "value"), FIELDS)
def test_a_value_of_another_type_is_refused(body: type[RequestBody], name: str, value: object) -> None:
    with pytest.raises(ValidationError) as refused:
        body.model_validate({name: value})
    assert (name,) in [error["loc"] for error in refused.value.errors()]


def test_what_nobody_knows_is_refused_everywhere() -> None:
    for body in bodies():
        with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
            body.model_validate({"unheardOf": 1})


def test_a_boolean_and_numbers_of_both_kinds_are_taken() -> None:
    values = {"text": "t", "repo": "/r", "draft": True, "usd": 5}
    body = TypeAdapter[Any](next(one for one in bodies() if one.__name__ == "SubmissionBody")).validate_python(values)
    assert (body.draft, body.usd, body.again) == (True, 5.0, False)


def test_every_route_s_body_is_of_this_kind() -> None:
    taken = {
        part
        for module in modules_of(routes)
        for route in getattr(getattr(module, "router", None), "routes", ())
        if isinstance(route, APIRoute)
        for parameter in route.dependant.body_params
        for part in types_in(parameter.field_info.annotation)
        if isinstance(part, type) and issubclass(part, BaseModel)
    }
    assert {one.__name__ for one in taken if not issubclass(one, RequestBody)} == FOREIGN
