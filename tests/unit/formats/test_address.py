"""Addresses that people write into settings and files."""

import pytest

from orchestrator.formats.address import host_of, is_in_the_clear


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://ci.example.org/x?y=1", "ci.example.org"),
        ("https://CI.example.org:443/", "ci.example.org"),
        ("http://127.0.0.1:3000", "127.0.0.1:3000"),
        ("http://[::1]:80/", "[::1]"),
    ],
)
def test_the_host_of_an_address_has_its_port_unless_that_is_the_usual_one(url: str, host: str) -> None:
    assert host_of(url) == host


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("ci.example.org/x", "is not an address"),
        ("https://me:secret@ci.example.org/", "without a user"),
        ("ftp://ci.example.org/", "cannot be called"),
        ("https://ci.example.org/" + "a" * 2000, "is not an address"),
        ("https://ci.example.org:port/", "is not an address"),
        ("", "is not an address"),
    ],
)
def test_anything_else_is_refused_without_repeating_a_password(url: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as refused:
        host_of(url)
    assert "secret" not in str(refused.value)


def test_only_plain_http_to_another_machine_can_be_read_by_others() -> None:
    assert is_in_the_clear("http://ci.example.org/")
    assert not any(map(is_in_the_clear, ("https://ci.example.org/", "http://localhost:3/", "http://[::1]/")))
