"""Addresses that a form may lead back to."""

import pytest

from orchestrator.server.web.forms import is_own_path


@pytest.mark.parametrize("path", ["/", "/tasks/ABC-1?from=3#seq-4", "/tasks/ABC-1/artifacts/a%2Fb.md"])
def test_a_path_of_this_site_is_followed(path: str) -> None:
    assert is_own_path(path)


@pytest.mark.parametrize(
    "path",
    ["", "tasks", "//evil.example", "/\\evil.example", "https://evil.example", "javascript:1", "/\tx", "/a\r\nb"],
)
def test_any_other_address_is_not(path: str) -> None:
    assert not is_own_path(path)
