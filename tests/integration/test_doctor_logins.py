"""The doctor asks forges and trackers with their own tokens; servers that hang or refuse are told."""

import json
import os
import socket
import stat
from collections.abc import Mapping
from pathlib import Path

import pytest

from orchestrator.daemon.examination.canary import make_canary_turn
from orchestrator.daemon.examination.examination import Check, Examiner
from orchestrator.daemon.examination.logins import check_logins
from orchestrator.daemon.inspection.doctor_checks import Level
from orchestrator.settings.settings import Settings
from tests.fakes.loopback_server import Handler, LoopbackServer
from tests.fakes.messages_api import MessagesApi
from tests.fakes.scripted_model import Fail, Say

TOKEN = "t0ken-of-a-test"
LATER = "2099-01-01 00:00:00 UTC"
SOON = "2000-01-01 00:00:00 UTC"


Answer = tuple[int, Mapping[str, str], object]
PATHS = {"github": "/api/v3/user", "gitlab": "/api/v4/personal_access_tokens/self", "jira": "/rest/api/2/myself"}


class Services(LoopbackServer):
    """Says to whom a token belongs, as the services of these names do."""

    def __init__(self, **answers: Answer) -> None:
        super().__init__(_Handler)
        self.answers = {PATHS[name]: answer for name, answer in answers.items()}


class _Handler(Handler[Services]):
    def do_GET(self) -> None:
        status, headers, body = self.stand_in.answers[self.path]
        given = self.headers.get("Authorization") == f"Bearer {TOKEN}"
        self.send(status if given else 401, json.dumps(body).encode(), {**headers, "Content-Type": "application/json"})


def settings_of(tmp_path: Path, **tables: object) -> Settings:
    return Settings.model_validate({"data_dir": tmp_path, "socket": tmp_path / "socket", **tables})


def told(settings: Settings, **variables: str) -> list[tuple[Level, str]]:
    return [(one.level, one.text.partition(": ")[2] or one.text) for one in check_logins(settings, variables)]


@pytest.mark.parametrize(
    ("headers", "level", "said"),
    [
        ({}, Level.OK, "accepts the login"),
        ({"X-OAuth-Scopes": "repo, read:org"}, Level.OK, "accepts the login"),
        ({"github-authentication-token-expiration": LATER}, Level.OK, "accepts the login until 2099-01-01"),
        ({"github-authentication-token-expiration": SOON}, Level.WARN, "ends at 2000-01-01 00:00 UTC"),
        ({"X-OAuth-Scopes": "read:org"}, Level.WARN, "it lacks the scope repo"),
    ],
)
def test_a_token_for_github_is_tried(tmp_path: Path, headers: Mapping[str, str], level: Level, said: str) -> None:
    with Services(github=(200, headers, {"login": "ada"})) as services:
        settings = settings_of(tmp_path, trackers={"github": {"url": services.url}})
        ((found, text),) = told(settings, GITHUB_TOKEN=TOKEN)
    assert (found, said in text) == (level, True), text


def test_a_token_that_is_refused_would_stop_the_night_and_is_never_shown(tmp_path: Path) -> None:
    with Services(github=(200, {}, {})) as services:
        settings = settings_of(tmp_path, trackers={"github": {"url": services.url}})
        (found,) = check_logins(settings, {"GITHUB_TOKEN": "an-older-token"})
    assert (found.level, found.mend) == (Level.BAD, "renew the token in GITHUB_TOKEN")
    assert "an-older-token" not in found.text


@pytest.mark.parametrize(
    ("token", "level"),
    [
        ({"scopes": ["api"], "expires_at": None}, Level.OK),
        ({"scopes": ["api"], "expires_at": "2099-01-01"}, Level.OK),
        ({"scopes": ["api"], "expires_at": "2000-01-01"}, Level.WARN),
        ({"scopes": ["read_api"], "expires_at": None}, Level.WARN),
    ],
)
def test_a_token_for_gitlab_says_itself_what_it_may_and_until_when(tmp_path: Path, token: object, level: Level) -> None:
    with Services(gitlab=(200, {}, token)) as services:
        settings = settings_of(tmp_path, trackers={"gitlab": {"url": services.url}})
        ((found, _),) = told(settings, GITLAB_TOKEN=TOKEN)
    assert found is level


def test_a_token_that_the_settings_want_and_that_is_missing_is_told(tmp_path: Path) -> None:
    forge = {"hosts": {"git.example.org": {"kind": "gitlab", "token_env": "MY_TOKEN"}}}
    settings = settings_of(tmp_path, forge=forge, trackers={"jira": {"url": "https://jira.example.org"}})
    found = [(one.level, one.text) for one in check_logins(settings, {})]
    assert found == [
        (Level.WARN, "there is no token for git.example.org: MY_TOKEN is not set where this runs"),
        (Level.WARN, "there is no token for jira.example.org: JIRA_API_TOKEN is not set where this runs"),
    ]


def test_a_server_that_never_answers_and_a_tool_that_hangs_keep_nobody_waiting(tmp_path: Path) -> None:
    program = tmp_path / "bin/gh"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        settings = settings_of(tmp_path, trackers={"gitlab": {"url": url}})
        variables = {"GITLAB_TOKEN": TOKEN, "PATH": f"{program.parent}:{os.environ['PATH']}"}
        (found,) = Examiner([Check("logins", check_logins)], patience=0.3).examine(settings, variables)
    assert (found.name, "gave no answer within 0.3 s" in found.text) == ("logins", True)


@pytest.mark.claude
@pytest.mark.parametrize("is_refused", [False, True])
def test_a_canary_turn_says_what_it_cost_or_why_it_failed(tmp_path: Path, is_refused: bool) -> None:
    with MessagesApi(lambda _: Fail(400, "invalid_request_error", "no") if is_refused else Say("ready")) as api:
        home = {"HOME": str(tmp_path), "CLAUDE_CONFIG_DIR": str(tmp_path / "claude")}
        settings = settings_of(tmp_path, agent={"env": {**api.env, **home}})
        (found,) = make_canary_turn(settings, {"PATH": os.environ["PATH"], **home})
    assert "it cost $0.0" in found.text
    assert found.level is (Level.BAD if is_refused else Level.OK), found.text
    assert bool(found.mend) == is_refused


def test_a_cli_whose_stream_is_another_one_is_told(tmp_path: Path) -> None:
    program = tmp_path / "claude"
    program.write_text('#!/bin/sh\necho \'{"type":"hello"}\'\n')
    program.chmod(0o755)
    settings = settings_of(tmp_path, agent={"executable": str(program)})
    (found,) = make_canary_turn(settings, {"PATH": os.environ["PATH"]})
    assert (found.level, found.text.endswith("its stream has changed")) == (Level.BAD, True)
