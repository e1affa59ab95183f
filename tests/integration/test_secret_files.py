"""Tokens in files instead of the environment: beside the settings, or as credentials of the service."""

from pathlib import Path

import pytest

from orchestrator.formats.secret_files import LONGEST, read_secrets
from orchestrator.settings.environment import environment_with_secrets, secrets_of_service
from orchestrator.settings.loading import SettingsError, load_settings
from tests.acceptance.harness import DaemonHarness, Json


def keep(folder: Path, name: str, text: str = "token\n", mode: int = 0o600) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text)
    path.chmod(mode)
    return path


@pytest.fixture
def beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of secrets beside the user's settings."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config/orchestrator/credentials"


def test_a_secret_is_the_content_of_its_file_without_the_line_end(tmp_path: Path) -> None:
    keep(tmp_path, "GITHUB_TOKEN", "ghp_1\r\n")
    keep(tmp_path, "orchestrator-key", "another")
    (tmp_path / "LINK_TOKEN").symlink_to(tmp_path / "GITHUB_TOKEN")
    (tmp_path / "FOLDER").mkdir()
    assert read_secrets(tmp_path) == ({"GITHUB_TOKEN": "ghp_1"}, [])
    assert read_secrets(tmp_path / "missing") == ({}, [])


def test_a_command_beside_the_service_looks_at_what_systemd_gave_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    keep(tmp_path / "credentials/orchestrator.service", "DESK_SECRET", mode=0o400)
    assert secrets_of_service()["DESK_SECRET"] == "token"
    assert "DESK_SECRET" not in environment_with_secrets(), "the command itself was not given it"


@pytest.mark.parametrize("text", ["", "\n", "a\0b", "a" * (LONGEST + 1)])
def test_a_file_without_a_secret_is_named(tmp_path: Path, text: str) -> None:
    keep(tmp_path, "GITHUB_TOKEN", text)
    found, (problem,) = read_secrets(tmp_path)
    assert (found, "GITHUB_TOKEN holds no secret" in problem) == ({}, True)


def test_what_others_can_read_is_refused_with_the_command_that_mends_it(beside: Path) -> None:
    path = keep(beside, "GITHUB_TOKEN", mode=0o640)
    with pytest.raises(SettingsError, match=f"can be read by others.*chmod 600 {path}"):
        load_settings()
    assert "GITHUB_TOKEN" not in environment_with_secrets()


def test_credentials_of_the_service_may_show_rights_of_a_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(tmp_path / "credentials", "JIRA_API_TOKEN", mode=0o440)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path / "credentials"))
    load_settings()
    assert environment_with_secrets()["JIRA_API_TOKEN"] == "token"


def test_a_variable_wins_over_a_file(beside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(beside, "GITLAB_TOKEN", "from the file")
    monkeypatch.setenv("GITLAB_TOKEN", "from the environment")
    assert environment_with_secrets()["GITLAB_TOKEN"] == "from the environment"


def test_an_agent_gets_the_token_of_its_cli_from_a_file_and_no_other(tmp_path: Path) -> None:
    secrets, seen = tmp_path / "config/orchestrator/credentials", tmp_path / "seen"
    keep(secrets, "CLAUDE_CODE_OAUTH_TOKEN", "sk-ant-oat01-made-up")
    keep(secrets, "GITHUB_TOKEN", "ghp_made_up")
    looks = f"echo $CLAUDE_CODE_OAUTH_TOKEN $GITHUB_TOKEN > '{seen}'"
    scenario: Json = {"ANALYSIS": [{"run": looks, "work": True}]}
    with DaemonHarness(tmp_path, scenario) as harness:
        harness.wait_for_end(harness.submit())
    assert seen.read_text() == "sk-ant-oat01-made-up\n"
