"""The CLI's folder of each task, made from the user's, and the login that sandboxed agents share."""

import json
from pathlib import Path

import pytest

from orchestrator.agents.claude_folder import LOGIN, ClaudeFolder, SharedLogin, users_folder
from orchestrator.formats.codec import JsonObject

SESSION = "4b7a8a4c-5f0c-4c0e-9a57-3a1f0f4f7a11"


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def folder_of(tmp_path: Path, session_id: str = "") -> ClaudeFolder:
    users = users_folder({"HOME": str(tmp_path / "home")})
    return ClaudeFolder(path=tmp_path / "T-1/claude", users=users, session_id=session_id)


def names_below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_task_gets_the_users_settings_as_they_are_and_nothing_else(tmp_path: Path) -> None:
    users = tmp_path / "home/.claude"
    written(users / "settings.json", '{"model": "opus"}').chmod(0o444)
    written(users / "skills/do/it.sh", "true").chmod(0o755)
    written(users / "skills/orchestrator/commands/submit.md", "submit it")
    written(tmp_path / "dotfiles/CLAUDE.md", "Be brief.")
    (users / "CLAUDE.md").symlink_to(tmp_path / "dotfiles/CLAUDE.md")
    written(users / "commands/deep/hey.md", "say hey")
    (users / "commands/again").symlink_to(users / "commands")
    for private in (LOGIN, "projects/-w/other.jsonl", "history.jsonl"):
        written(users / private, "{}")
    written(tmp_path / "home/.claude.json", '{"oauthAccount": {"name": "Ada"}, "projects": {"/w": {}}}')
    folder = folder_of(tmp_path)
    folder.prepare()
    assert names_below(folder.path) == [
        ".claude.json",
        "CLAUDE.md",
        "commands/deep/hey.md",
        "settings.json",
        "skills/do/it.sh",
    ]
    assert [(folder.path / name).stat().st_mode & 0o777 for name in ("settings.json", "skills/do/it.sh")] == [
        0o600,
        0o700,
    ]
    assert json.loads((folder.path / ".claude.json").read_text()) == {"oauthAccount": {"name": "Ada"}}
    assert not (folder.path / "CLAUDE.md").is_symlink()


def test_what_a_task_left_in_its_folder_stays_and_the_users_changes_stay_out(tmp_path: Path) -> None:
    settings = written(tmp_path / "home/.claude/settings.json", "{}")
    folder = folder_of(tmp_path)
    folder.prepare()
    written(folder.path / "projects/-w/own.jsonl", "{}")
    settings.write_text('{"hooks": {}}')
    folder.prepare()
    assert names_below(folder.path) == ["projects/-w/own.jsonl", "settings.json"]
    assert (folder.path / "settings.json").read_text() == "{}"


def test_a_folder_that_was_half_made_is_made_anew(tmp_path: Path) -> None:
    written(tmp_path / "home/.claude/settings.json", "{}")
    written(tmp_path / "T-1/.claude.partial/leftover", "")
    folder = folder_of(tmp_path)
    folder.prepare()
    assert names_below(tmp_path / "T-1") == ["claude/settings.json"]


def test_a_session_that_began_in_the_users_folder_is_taken_over(tmp_path: Path) -> None:
    written(tmp_path / f"home/.claude/projects/-w/{SESSION}.jsonl", "turns")
    written(tmp_path / f"home/.claude/projects/-w/{SESSION}/subagents/a.jsonl", "turns")
    written(tmp_path / "home/.claude/projects/-w/other.jsonl", "turns")
    folder = folder_of(tmp_path, SESSION)
    folder.prepare()
    assert names_below(folder.path) == [f"projects/-w/{SESSION}.jsonl", f"projects/-w/{SESSION}/subagents/a.jsonl"]


def login(number: int) -> JsonObject:
    """The file of a login that was renewed so many times."""
    account: JsonObject = {"accessToken": f"a{number}", "refreshToken": f"r{number}", "expiresAt": 1000 + number}
    return {"claudeAiOauth": account, "organizationUuid": "o"}


class Logins:
    """The user's login and the agents'."""

    def __init__(self, root: Path) -> None:
        self.users, self.agents = root / "home" / LOGIN, root / "login" / LOGIN
        self.users.parent.mkdir()
        self.shared = SharedLogin(users=self.users.parent, folder=self.agents.parent)

    def exchange(self) -> list[JsonObject | None]:
        self.shared.exchange()
        return [json.loads(path.read_text()) if path.exists() else None for path in (self.users, self.agents)]


@pytest.fixture
def logins(tmp_path: Path) -> Logins:
    return Logins(tmp_path)


def test_agents_get_the_users_login_and_lose_it_when_the_user_logs_out(logins: Logins) -> None:
    logins.users.write_text(json.dumps(login(1)))
    assert logins.exchange() == [login(1), login(1)]
    assert logins.agents.stat().st_mode & 0o777 == 0o600
    logins.users.unlink()
    assert logins.exchange() == [None, None]


def test_a_login_that_an_agent_renewed_is_the_users_too(logins: Logins) -> None:
    logins.users.write_text(json.dumps(login(1)))
    logins.exchange()
    logins.agents.write_text(json.dumps(login(2)))
    assert logins.exchange() == [login(2), login(2)]
    logins.users.write_text(json.dumps(login(3)))
    assert logins.exchange() == [login(3), login(3)]


def test_after_a_restart_the_login_that_lasts_longer_counts(logins: Logins) -> None:
    logins.users.write_text(json.dumps(login(1)))
    logins.agents.parent.mkdir()
    logins.agents.write_text(json.dumps(login(2)))
    assert logins.exchange() == [login(2), login(2)]


def test_the_users_new_login_wins_over_whatever_agents_wrote(logins: Logins) -> None:
    logins.users.write_text(json.dumps(login(1)))
    logins.exchange()
    logins.users.write_text(json.dumps(login(2)))
    logins.agents.write_text(json.dumps(login(9)))
    assert logins.exchange() == [login(2), login(2)]


@pytest.mark.parametrize("left", ["", "garbage", "[]", "{}", '{"claudeAiOauth": {"accessToken": "a"}}'])
def test_what_is_no_whole_login_never_reaches_the_user(logins: Logins, left: str) -> None:
    logins.users.write_text(json.dumps(login(1)))
    logins.exchange()
    logins.agents.write_text(left)
    assert logins.exchange() == [login(1), login(1)]


def test_only_what_the_cli_renews_is_taken_over(logins: Logins) -> None:
    logins.users.write_text(json.dumps(login(1)))
    logins.exchange()
    logins.agents.write_text(json.dumps({**login(2), "organizationUuid": "other", "planted": 1}))
    users, _ = logins.exchange()
    assert users == login(2)


def test_a_users_file_that_is_being_written_is_left_alone(logins: Logins) -> None:
    logins.users.write_text(json.dumps(login(1)))
    logins.exchange()
    logins.users.write_text('{"claudeAiOauth": ')
    logins.shared.exchange()
    assert json.loads(logins.agents.read_text()) == login(1)
