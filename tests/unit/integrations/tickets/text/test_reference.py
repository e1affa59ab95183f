"""Ticket references: which texts are references, and to which tracker."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.integrations.errors import NoTicket
from orchestrator.integrations.tickets.text.reference import Site, parse_reference
from orchestrator.integrations.tickets.text.ticket import Tracker

JIRA = Site(kind=Tracker.JIRA, url="https://acme.example/jira")
GITHUB = Site(kind=Tracker.GITHUB, url="https://github.com")
GITLAB = Site(kind=Tracker.GITLAB, url="https://gitlab.com")
SITES = (JIRA, GITHUB, GITLAB)


@pytest.mark.parametrize(
    ("name", "site", "project", "key"),
    [
        (" ABC-123\n", JIRA, "ABC", "ABC-123"),
        ("A_1-2", JIRA, "A_1", "A_1-2"),
        ("https://acme.example/jira/browse/ABC-1", JIRA, "ABC", "ABC-1"),
        ("https://acme.example/jira/browse/ABC-1?focusedId=7#c", JIRA, "ABC", "ABC-1"),
        ("https://acme.example/jira/projects/ABC/issues/ABC-1", JIRA, "ABC", "ABC-1"),
        ("https://acme.example/jira/boards/3?view=x&selectedIssue=ABC-1", JIRA, "ABC", "ABC-1"),
        ("acme/app#12", GITHUB, "acme/app", "GH-12"),
        ("HTTPS://GitHub.com/acme/my.app/issues/12#issuecomment-1", GITHUB, "acme/my.app", "GH-12"),
        ("https://github.com/acme/app/pull/12/files", GITHUB, "acme/app", "GH-12"),
        ("acme/tools/app#12", GITLAB, "acme/tools/app", "GL-12"),
        ("https://gitlab.com/acme/tools/app/-/issues/12", GITLAB, "acme/tools/app", "GL-12"),
        ("https://gitlab.com/acme/app/-/work_items/12?x", GITLAB, "acme/app", "GL-12"),
    ],
)
def test_a_reference_leads_to_its_tracker(name: str, site: Site, project: str, key: str) -> None:
    found = parse_reference(name, SITES)
    assert found is not None
    assert (found.site, found.project, found.key) == (site, project, key)


@pytest.mark.parametrize(
    "text",
    ["", "Fix ABC-1", "abc-1", "ABC-0", "LOCAL-20260528", "ABC-1 ABC-2", "#12", "app#12", "C#7 is old", "a" * 2000],
)
def test_any_other_text_is_a_ticket_itself(text: str) -> None:
    assert parse_reference(text, SITES) is None


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("https://github.com.evil.example/acme/app/issues/1", "on no configured tracker; set up: https://acme"),
        ("https://github.com@evil.example/acme/app/issues/1", "on no configured tracker"),
        ("https://evil.example\\@github.com/acme/app/issues/1", "on no configured tracker"),
        ("http://github.com/acme/app/issues/1", "on no configured tracker"),
        ("https://acme.example/jirax/browse/ABC-1", "on no configured tracker"),
        ("https://github.com/acme/app", "not the address of one ticket"),
        ("https://github.com/acme/app/issues/0", "not the address of one ticket"),
        ("https://github.com/../app/issues/1", "names no repository"),
        ("../..#1", "names no repository"),
    ],
)
def test_a_reference_without_a_target_is_refused(name: str, reason: str) -> None:
    with pytest.raises(NoTicket, match=reason):
        parse_reference(name, SITES)


@pytest.mark.parametrize(("name", "wanted"), [("ABC-1", "jira"), ("a/b#1", "github or gitlab"), ("a/b/c#1", "gitlab")])
def test_a_reference_without_its_tracker_names_what_to_configure(name: str, wanted: str) -> None:
    with pytest.raises(NoTicket, match=rf"a ticket on {wanted}, and none is set up; set up: none\. Add it to"):
        parse_reference(name, [])


def test_the_first_configured_forge_has_the_short_references() -> None:
    found = parse_reference("acme/app#1", [JIRA, GITLAB, GITHUB])
    assert str(found) == "acme/app#1 on gitlab.com"
    assert str(parse_reference("ABC-1", SITES)) == "ABC-1 on acme.example/jira"


@given(st.text(st.sampled_from("https://gitub.com/ABC-1#?&@\\._"), max_size=60))
def test_parts_of_a_url_cannot_lead_outside_of_it(text: str) -> None:
    try:
        found = parse_reference(text, SITES)
    except NoTicket:
        return
    if found is not None:
        assert found.site in SITES
        assert not set(found.project) & set("?#@\\:%")
        assert ".." not in found.project.split("/")
