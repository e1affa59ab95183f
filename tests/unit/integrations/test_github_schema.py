"""The GraphQL queries sent to GitHub, and the stand-in's answers, are held against GitHub's published schema."""

import pytest

from orchestrator.formats.codec import Json, JsonObject
from orchestrator.integrations.forges.github_answers import CHECKS, STATE, THREADS
from tests.fakes.github_schema import answer_objections, objections

REPOSITORY: JsonObject = {"owner": "team", "name": "tool"}
STATUS: JsonObject = {"__typename": "StatusContext", "context": "ci", "state": "SUCCESS", "targetUrl": None}


@pytest.mark.parametrize(
    ("query", "variables"),
    [
        (STATE, {**REPOSITORY, "number": 7}),
        (THREADS, {**REPOSITORY, "number": 7, "after": None}),
        (CHECKS, {**REPOSITORY, "sha": "7e57" * 10}),
    ],
)
def test_every_query_fits_the_schema(query: str, variables: JsonObject) -> None:
    assert objections(query, variables) == []


@pytest.mark.parametrize(
    ("right", "wrong", "objection"),
    [
        ("headRefOid", "headSha", "PullRequest.headSha is not described"),
        ("first:100", "most:100", "PullRequest.latestOpinionatedReviews takes no most"),
        ("number:$number", "", "Repository.pullRequest needs number"),
        ("$number:Int!", "$number:String!", "takes number: Int!, and not String!"),
        ("$number:Int!", "$number:Int", "takes number: Int!, and not Int"),
        ("author{login}", "author", "PullRequestReview.author is a Actor, which has only fields"),
        ("mergeable", "mergeable{word}", "PullRequest.mergeable is a MergeableState, which has no fields"),
        ("$owner:String!", "", "the variable owner is not declared"),
    ],
)
def test_a_query_that_the_schema_does_not_allow_is_named(right: str, wrong: str, objection: str) -> None:
    found = objections(STATE.replace(right, wrong, 1), {**REPOSITORY, "number": 7})
    assert objection in "\n".join(found)


def test_a_fragment_must_be_on_a_type_that_can_be_there() -> None:
    (found,) = objections(CHECKS.replace("... on CheckRun", "... on Commit").split("{databaseId")[0] + SHORT, CHECKED)
    assert found == "a StatusCheckRollupContext is never a Commit"


SHORT = "{oid}}}}}}}}"
CHECKED: JsonObject = {**REPOSITORY, "sha": "7e57" * 10}


@pytest.mark.parametrize(
    ("change", "objection"),
    [
        ({}, ""),
        ({"state": "GREEN"}, ".state: 'GREEN' is no StatusState!"),
        ({"context": None}, ".context: None is no String!"),
        ({"context": 7}, ".context: 7 is no String!"),
        ({"name": "ci"}, ".name was not asked for and is there"),
    ],
)
def test_an_answer_has_what_was_asked_for_and_of_the_right_type(change: dict[str, Json], objection: str) -> None:
    contexts: JsonObject = {"nodes": [{**STATUS, **change}], "pageInfo": {"hasNextPage": False, "endCursor": None}}
    data: JsonObject = {"repository": {"object": {"statusCheckRollup": {"contexts": contexts}}}}
    found = answer_objections(CHECKS, data)
    assert bool(found) == bool(objection), found
    assert objection in "\n".join(found)


def test_an_answer_must_have_all_that_was_asked_for() -> None:
    assert answer_objections("query{viewer{login}}", {"viewer": {}}) == [
        "data.viewer.login was asked for and is not there"
    ]
