"""The OpenAPI document: it names every answer, and shows an example of everything that fits its schema."""

import re
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any

import jsonschema
import pytest

from orchestrator.server.app import create_app
from orchestrator.server.openapi.document import DocumentedApp, examples
from orchestrator.server.problems import KINDS, TYPES
from tests.fakes.in_process_daemon import create_daemon

Json = dict[str, Any]
BINARY = "application/zip"
"""What is shown no example of."""


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> DocumentedApp:
    folder = tmp_path_factory.mktemp("openapi")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("XDG_CONFIG_HOME", str(folder / "config"))
        daemon = create_daemon(folder / "data")
    daemon.store.close()
    return create_app(daemon.service)


@pytest.fixture(scope="module")
def document(app: DocumentedApp) -> Json:
    return app.openapi()


def operations(document: Json) -> Iterator[tuple[str, Json]]:
    for item in document["paths"].values():
        for operation in item.values():
            yield operation["operationId"], operation


def bodies(document: Json) -> Iterator[tuple[str, str, Json]]:
    """Yield what every route takes and answers: its name, the media type, and what is said about it."""
    for name, operation in operations(document):
        for media_type, content in operation.get("requestBody", {}).get("content", {}).items():
            yield f"{name} takes", media_type, content
        for status, response in operation["responses"].items():
            for media_type, content in response.get("content", {}).items():
                yield f"{name} answers {status}", media_type, content


def shown_in(document: Json, content: Json) -> Iterator[object]:
    for example in content.get("examples", {}).values():
        name = example.get("$ref", "").removeprefix("#/components/examples/")
        yield document["components"]["examples"][name]["value"] if name else example["value"]


def test_everything_that_a_route_takes_or_answers_has_an_example(document: Json) -> None:
    lacking = [name for name, kind, content in bodies(document) if kind != BINARY and not content.get("examples")]
    assert not lacking, "put examples of their schemas into orchestrator/server/openapi/examples.json"


def test_every_example_fits_its_schema(document: Json) -> None:
    checked = 0
    for name, _, content in bodies(document):
        said: Json = content.get("schema") or content.get("itemSchema") or {}
        schema = {**said, "components": document["components"]}
        for value in shown_in(document, content):
            try:
                jsonschema.Draft202012Validator(schema).validate(value)
            except jsonschema.ValidationError as error:
                raise AssertionError(f"{name}: {error.json_path}: {error.message}") from error
            checked += 1
    assert checked > 300


def test_every_view_in_an_example_has_all_its_fields_and_no_other(document: Json) -> None:
    schemas = document["components"]["schemas"]
    for name, value in examples()["views"].items():
        assert name in schemas, f"no route takes or answers a {name} any more"
        is_body = name.endswith("Body")
        known = set(schemas[name]["properties"])
        assert set(value) <= known if is_body else set(value) == known, name


def test_every_kind_of_problem_is_shown_as_it_is_answered() -> None:
    shown: Mapping[str, Json] = examples()["problems"]
    of_errors = {kind: (status, title) for _, status, kind, title in reversed(KINDS)}
    assert set(of_errors) <= set(shown)
    for kind, problem in shown.items():
        assert problem["type"] == f"{TYPES}{kind}"
        if kind in of_errors and kind not in {"login-refused", "unreadable"}:  # two rows each
            assert (problem["status"], problem["title"]) == of_errors[kind]


def test_routes_have_names_of_their_own_and_answer_at_least_who_may_not_call(document: Json) -> None:
    names = [name for name, _ in operations(document)]
    assert len(names) == len(set(names)) > 50
    for name, operation in operations(document):
        assert name in {"daemon.healthz", "daemon.readyz"} or {"403", "500"} <= set(operation["responses"]), name
        assert not any("HTTPValidationError" in str(one) for one in operation["responses"].values())


def test_the_help_page_names_every_route_and_every_kind_of_problem(document: Json) -> None:
    page = (files("orchestrator") / "help" / "api.md").read_text(encoding="utf-8")
    routes = {f"{method.upper()} {path}" for path, item in document["paths"].items() for method in item}
    told = re.findall(r"^\| `((?:GET|POST|PATCH|PUT|DELETE) [^`]+)` \| [^|]+ \|$", page, re.MULTILINE)
    assert sorted(told) == sorted(routes)
    kinds = dict(re.findall(r"^\| [0-9, ]+ \| `([^`]+)` \| ([^|]+) \|$", page, re.MULTILINE))
    assert kinds == {kind: problem["title"] for kind, problem in examples()["problems"].items()}


def test_every_link_leads_to_an_operation_that_takes_what_it_gives(document: Json) -> None:
    takes = {name: {one["name"] for one in op.get("parameters", ())} for name, op in operations(document)}
    links = [
        link
        for _, operation in operations(document)
        for response in operation["responses"].values()
        for link in response.get("links", {}).values()
    ]
    assert len(links) > 50
    for link in links:
        assert set(link["parameters"]) <= takes[link["operationId"]], link


def test_what_is_possible_at_an_address_is_what_the_document_says(document: Json, app: DocumentedApp) -> None:
    for path, item in document["paths"].items():
        assert sorted(app.methods[path]) == sorted(method.upper() for method in item)
