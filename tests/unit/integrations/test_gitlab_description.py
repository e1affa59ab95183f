"""The stand-ins of GitLab are held against what GitLab publishes: which requests and which answers fit."""

import pytest

from orchestrator.formats.codec import Json
from tests.fakes.gitlab_description import answer_objections, objections

PULLS = "/projects/team/tool/merge_requests"
NOTES = f"{PULLS}/7/notes"


@pytest.mark.parametrize(
    ("method", "path", "query", "body", "objection"),
    [
        ("GET", PULLS, {"state": "opened", "source_branch": "feature/x", "per_page": "100"}, {}, ""),
        ("GET", PULLS, {"state": "open"}, {}, "'open' is none of"),
        ("GET", NOTES, {"maxResults": "100"}, {}, "the parameter maxResults is not described"),
        ("POST", NOTES, {}, {"body": "Done."}, ""),
        ("POST", NOTES, {}, {"text": "Done."}, "the field body is required"),
        ("PUT", f"{PULLS}/7", {}, {"reviewer_ids": ["ada"]}, "'ada' is no integer"),
        ("PUT", f"{PULLS}/7/merge", {}, {"force": True}, "the field .force is not described"),
        ("GET", "/projects/team/tool/repository/branches/feature/x", {}, {}, ""),
        ("DELETE", "/projects/team/tool", {}, {}, "is not described"),
    ],
)
def test_a_request_must_be_one_that_gitlab_documents(
    method: str, path: str, query: dict[str, str], body: dict[str, Json], objection: str
) -> None:
    found = objections(method, path, query, body)
    assert bool(found) == bool(objection), found
    assert objection in "\n".join(found)


@pytest.mark.parametrize(
    ("status", "answer", "objection"),
    [
        (201, {"id": 7, "body": "Done.", "author": {"username": "ada"}, "created_at": "2026-11-21T22:00:00Z"}, ""),
        (404, {"message": "404 Not found"}, ""),
        (200, {"id": 7}, "is never answered 200"),
        (201, {"id": "7"}, ".id: '7' is no integer"),
        (201, {"created_at": "yesterday"}, ".created_at: 'yesterday' is no time"),
        (201, {"author": {"username": "ci", "bot": True}}, "the field .author.bot is not described"),
        (201, {"position": None}, ".position: None is no Position"),
        (201, [], "[] is no Note"),
    ],
)
def test_an_answer_must_have_a_documented_status_and_only_documented_fields(
    status: int, answer: Json, objection: str
) -> None:
    found = answer_objections("POST", NOTES, status, answer)
    assert bool(found) == bool(objection), found
    assert objection in "\n".join(found)
