"""What may be cloned, and what is refused before git sees it."""

import pytest

from orchestrator.daemon.sources.address import AddressRefused, folder_name, is_address, parse_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("https://github.com/ada/textkit.git", "https://github.com/ada/textkit.git"),
        ("https://github.com/ada/textkit/", "https://github.com/ada/textkit"),
        ("HTTPS://git.example.org:8443/a/b/c", "https://git.example.org:8443/a/b/c"),
        ("ssh://git@git.example.org:2222/a/b.git", "ssh://git@git.example.org:2222/a/b.git"),
        ("git@github.com:ada/textkit.git", "git@github.com:ada/textkit.git"),
        ("git@host:/srv/git/textkit.git", "git@host:/srv/git/textkit.git"),
    ],
)
def test_https_and_ssh_may_be_cloned(text: str, address: str) -> None:
    assert is_address(text)
    assert parse_address(text) == address


@pytest.mark.parametrize(
    "text",
    [
        "ext::sh -c id",
        "ext::sh%20-c%20id",
        "file:///etc",
        "fd::17",
        "git://github.com/ada/textkit",
        "http://github.com/ada/textkit",
        "ftp://host/a/b",
        "https://ada:secret@github.com/ada/textkit",
        "https://secret@github.com/ada/textkit",
        "https://github.com/ada/textkit?token=secret",
        "https://github.com/a/../b",
        "https://-oProxyCommand=id/a/b",
        "ssh://-oProxyCommand=id/a/b",
        "ssh://-oProxyCommand=id@host/a/b",
        "git@-oProxyCommand=id:a/b",
        "git@host:-upload-pack=id/b",
        "git@host:a/b --upload-pack=id",
        "git@host:a;id",
        "https://host/a\nb",
        "https://höst/a/b",
        "https:///a/b",
        "https://host:99999/a/b",
        "https://host/" + "a" * 2000,
    ],
)
def test_everything_else_is_refused_and_shows_no_secret(text: str) -> None:
    with pytest.raises(AddressRefused) as refused:
        parse_address(text)
    assert "secret" not in str(refused.value)
    assert "write https://HOST/OWNER/NAME.git" in str(refused.value)


@pytest.mark.parametrize("text", [".", "/srv/git/a", "../a", "a/b", "~/textkit", "C:/x", "a@b", "host:a/b"])
def test_a_folder_is_no_address(text: str) -> None:
    assert not is_address(text)


def test_copies_of_different_addresses_have_different_folders() -> None:
    names = {folder_name(f"https://host/{owner}/textkit.git") for owner in ("a", "b")}
    assert len(names) == 2
    assert all(name.startswith("textkit-") for name in names)
