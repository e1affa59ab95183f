"""The stand-ins of GitHub are held against what GitHub publishes: what is checked, and what is filled in."""

import pytest

from orchestrator.formats.codec import Json
from orchestrator.formats.fields import object_of
from tests.fakes.github_description import completed, objections

COMMENTS = "/repos/acme/app/issues/12/comments"


@pytest.mark.parametrize(
    ("method", "path", "query", "body", "objection"),
    [
        ("GET", COMMENTS, {"per_page": "100", "page": "2"}, {}, ""),
        ("GET", COMMENTS, {"maxResults": "100"}, {}, "the parameter maxResults is not described"),
        ("POST", COMMENTS, {}, {"body": "Done."}, ""),
        ("POST", COMMENTS, {}, {"text": "Done."}, "'body' is a required property"),
        ("GET", "/repos/acme/app/git/ref/heads/feature/x", {}, {}, ""),
        ("DELETE", "/repos/acme/app", {}, {}, "is not described"),
    ],
)
def test_a_request_must_be_one_that_github_describes(
    method: str, path: str, query: dict[str, str], body: dict[str, Json], objection: str
) -> None:
    found = objections(method, path, query, body)
    assert [objection in one for one in found] == [True] * bool(objection), found


def test_an_answer_gets_every_field_that_github_always_sends_and_must_fit_its_description() -> None:
    whole, wrong = completed("POST", COMMENTS, 201, {"id": 7, "body": "Done.", "user": {"login": "ada"}})
    assert wrong == []
    comment = object_of(whole)
    assert (comment["id"], comment["body"]) == (7, "Done.")
    assert {"node_id", "html_url", "created_at", "updated_at"} <= comment.keys()
    assert {"login", "avatar_url", "type"} <= object_of(comment["user"]).keys()
    assert completed("POST", COMMENTS, 200, {"id": 7})[1] == [f"POST {COMMENTS} is never answered 200"]
    assert "'7' is not of type 'integer'" in completed("POST", COMMENTS, 201, {"id": "7"})[1][0]
