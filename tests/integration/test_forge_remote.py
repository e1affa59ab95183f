"""Which forge a remote refers to, and which account is used."""

import os
import shutil
from pathlib import Path

import pytest

from orchestrator.integrations.errors import AuthenticationFailed
from orchestrator.integrations.forges.open_forge import login_for
from orchestrator.integrations.forges.remote import ForgeKind, Remote, UnknownForge, kind_of, remote_of, without_login

SECRET = "ghp_averysecrettoken"


@pytest.mark.parametrize(
    ("url", "host", "path", "port"),
    [
        ("git@github.com:team/tool.git", "github.com", "team/tool", None),
        ("github.com:team/tool", "github.com", "team/tool", None),
        ("https://github.com/team/tool.git", "github.com", "team/tool", None),
        ("https://GitHub.com/team/tool/", "github.com", "team/tool", None),
        (f"https://x-access-token:{SECRET}@github.com/team/tool", "github.com", "team/tool", None),
        (f"https://{SECRET}@github.com/team/tool", "github.com", "team/tool", None),
        ("ssh://git@github.com/team/tool.git", "github.com", "team/tool", None),
        ("ssh://git@ssh.github.com:443/team/tool.git", "github.com", "team/tool", None),
        ("ssh://git@git.example.org:2222/team/tool.git", "git.example.org", "team/tool", None),
        ("git+ssh://git@git.example.org/team/tool.git", "git.example.org", "team/tool", None),
        ("https://git.example.org:8443/team/tool.git", "git.example.org", "team/tool", 8443),
        ("https://git.example.org:443/team/tool.git", "git.example.org", "team/tool", None),
        ("http://git.example.org/team/tool.git", "git.example.org", "team/tool", None),
        ("git@gitlab.com:group/sub/deep/tool.git", "gitlab.com", "group/sub/deep/tool", None),
        ("ssh://git@altssh.gitlab.com:443/group/tool.git", "gitlab.com", "group/tool", None),
        ("https://github.com/team/.github.git", "github.com", "team/.github", None),
    ],
)
def test_a_remote_is_parsed_in_any_notation(url: str, host: str, path: str, port: int | None) -> None:
    assert remote_of(url) == Remote(host=host, path=path, port=port)


@pytest.mark.parametrize(
    "url",
    [
        "/home/me/tool.git",
        "../tool",
        "file:///home/me/tool",
        "C:\\tool",
        "https://github.com/tool",
        "https://github.com/team/../tool",
        "https://github.com/team/%2e%2e/x",
        "https://github.com/team/tool?x=1",
        f"https://me:a/{SECRET}@github.com/team/tool/..",
        f"https://x:{SECRET}@github.com/",
        f"ext::sh -c x {SECRET}@github.com",
        "https://[::1/team/tool",
        "https://github.com:99999/team/tool",
        "git@host:team/to ol",
        "git@ho\nst:team/tool",
        "",
    ],
)
def test_anything_but_a_forge_repository_is_refused_without_showing_a_login(url: str) -> None:
    with pytest.raises(UnknownForge, match="set-url") as refused:
        remote_of(url)
    assert SECRET not in str(refused.value)


def test_a_url_is_shown_without_its_login() -> None:
    assert without_login(f"https://me:{SECRET}@github.com/team/tool") == "https://github.com/team/tool"
    assert without_login(f"{SECRET}@github.com:team/tool") == "github.com:team/tool"
    assert without_login(f"https://me:a/{SECRET}@b/c") == "https://b/c"


@pytest.mark.parametrize(
    ("url", "kind", "api"),
    [
        ("git@github.com:team/tool", ForgeKind.GITHUB, "https://api.github.com"),
        ("https://acme.ghe.com/team/tool", ForgeKind.GITHUB, "https://api.acme.ghe.com"),
        ("https://github.example.org:8443/team/tool", ForgeKind.GITHUB, "https://github.example.org:8443/api/v3"),
        ("git@gitlab.com:group/tool", ForgeKind.GITLAB, "https://gitlab.com/api/v4"),
        ("git@gitlab.example.org:group/tool", ForgeKind.GITLAB, "https://gitlab.example.org/api/v4"),
        ("git@code.example.org:group/tool", ForgeKind.GITLAB, "https://code.example.org/api/v4"),
    ],
)
def test_the_host_determines_the_forge_and_its_api(url: str, kind: ForgeKind, api: str) -> None:
    remote = remote_of(url)
    assert kind_of(remote, {"code.example.org": ForgeKind.GITLAB}) is kind
    assert remote.api(kind) == api
    assert remote.web.startswith(f"https://{remote.host}")


def test_an_unknown_host_has_to_be_declared() -> None:
    with pytest.raises(UnknownForge, match="declare its kind"):
        kind_of(remote_of("git@notgithub.org.evil.test:a/b"), {})


def test_a_configured_token_is_used_and_never_shown() -> None:
    login = login_for(ForgeKind.GITHUB, "github.com", f" {SECRET}\n")
    assert login.token == SECRET
    assert SECRET not in repr(login)
    for bad in ("", "short", "two words here", "new\nline-in-it", "ünicode-token"):
        with pytest.raises(AuthenticationFailed, match="cannot be one") as refused:
            login_for(ForgeKind.GITHUB, "github.com", bad)
        assert not bad.strip() or bad not in str(refused.value)


def test_without_the_forges_tool_the_message_says_how_to_log_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for kind, mend in ((ForgeKind.GITHUB, "gh auth login"), (ForgeKind.GITLAB, "glab auth login")):
        with pytest.raises(AuthenticationFailed, match=f"cannot be run.*{mend} --hostname git.test"):
            login_for(kind, "git.test")


@pytest.mark.skipif(shutil.which("gh") is None, reason="gh is not installed")
def test_the_real_gh_returns_the_login_of_its_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("GH_", "GITHUB_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GH_CONFIG_DIR", str(tmp_path))
    with pytest.raises(AuthenticationFailed, match=r"gh auth login --hostname github\.com"):
        login_for(ForgeKind.GITHUB, "github.com")
    hosts = f"github.com:\n    oauth_token: {SECRET}\n    user: me\n    git_protocol: https\n"
    (tmp_path / "hosts.yml").write_text(hosts, encoding="utf-8")
    assert login_for(ForgeKind.GITHUB, "github.com").token == SECRET


def test_a_tool_without_output_gives_no_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    tool = tmp_path / "glab"
    for script, said in (
        ("exit 1", "glab auth login"),
        ("exit 0", "glab auth login"),
        ("echo a b c d e f", "one word"),
    ):
        tool.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        tool.chmod(0o755)
        with pytest.raises(AuthenticationFailed, match=said):
            login_for(ForgeKind.GITLAB, "gitlab.com")
    tool.write_text(f"#!/bin/sh\necho {SECRET}\n", encoding="utf-8")
    assert login_for(ForgeKind.GITLAB, "gitlab.com").token == SECRET
