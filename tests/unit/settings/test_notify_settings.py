"""The settings of notifications: what is wrong is named, and no secret is shown."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from orchestrator.daemon.inspection.settings import SettingsService
from orchestrator.settings.loading import SettingsError, keep_programs, load_settings
from orchestrator.settings.sections.notify import NotifySettings

MAIL = {"type": "mail", "host": "smtp.example.org", "sender": "a@example.org", "to": ["b@example.org"]}
HOOK = {"type": "webhook", "url": "https://example.org/in", "secret_env": "SECRET"}


def made(**values: Any) -> NotifySettings:
    return NotifySettings.model_validate({"channels": {"mail": MAIL}, **values})


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"channels": {"x": {"type": "mail"}}}, "a channel of type 'mail' needs host"),
        ({"channels": {"x": MAIL | {"url": "https://x"}}}, "a channel of type 'mail' does not use url"),
        ({"channels": {"x": MAIL | {"to": ["nobody"]}}}, "should match pattern"),
        ({"channels": {"x": MAIL | {"sender": "a@x\r\nBcc: b@y"}}}, "should match pattern"),
        ({"channels": {"x": MAIL | {"security": "none", "user": "ada"}}}, "must not go over an open connection"),
        ({"channels": {"x": HOOK | {"url": "http://example.org"}}}, "must not go over plain http to other networks"),
        ({"channels": {"x": HOOK | {"url": "ftp://example.org/geheim"}}}, "url is no address of a webhook"),
        ({"channels": {"x": {"type": "apprise", "url": "slack"}}}, "url is no address of Apprise"),
        ({"channels": {"X y": MAIL}}, "should match pattern"),
        ({"channels": {"notify_command": MAIL}}, "choose another name"),
        ({"rules": [{"channels": ["post"]}]}, "there is no channel 'post'; known: mail"),
        ({"rules": [{"channels": ["mail"], "kinds": ["fail"]}]}, "'fail' is no kind of notice; did you mean 'failed'"),
        ({"rules": [{"channels": ["mail"], "hours": "8-9"}]}, "are no hours|is not a time of day"),
        ({"rules": [{"channels": ["mail"], "days": ["someday"]}]}, "is not a day"),
        ({"escalations": [{"channels": ["mail"]}]}, "Field required"),
        ({"report": {"at": "7.30"}}, "is not a time of day"),
        ({"report": {"at": "07:30", "channels": ["post"]}}, "there is no channel 'post'"),
        ({"zone": "Europe/Berlln"}, "is not a time zone; did you mean 'Europe/Berlin'"),
        ({"quiet_hours": "22:00"}, "are no hours; write 22:00-07:00"),
    ],
)
def test_what_is_wrong_is_named(values: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said) as caught:
        made(**values)
    assert not any("geheim" in one["msg"] for one in caught.value.errors())


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8080/x", "http://192.168.1.7/x", "http://[::1]/x", "https://example.org/${PATH_PART}"]
)
def test_a_webhook_in_a_private_network_may_be_plain_http(url: str) -> None:
    assert made(channels={"x": HOOK | {"url": url}}).channels["x"].url == url


def test_a_channel_names_the_variables_that_it_needs() -> None:
    url = "https://example.org/${ONE}?key=${TWO}"
    channels = made(channels={"x": HOOK | {"url": url}, "y": MAIL | {"user": "ada", "password_env": "THREE"}}).channels
    assert (channels["x"].variables(), channels["y"].variables()) == (("SECRET", "ONE", "TWO"), ("THREE",))


def test_rules_and_quiet_hours_become_those_of_the_core() -> None:
    settings = made(
        channels={"mail": MAIL, "phone": MAIL | {"quiet_hours": "", "digest_every": 60.0}},
        quiet_hours="22:00-07:00",
        urgent=["login_missing"],
        rules=[{"channels": ["phone"], "kinds": ["failed"], "days": ["mon-fri"]}],
    )
    rules = settings.core_rules(has_command=True)
    assert list(rules.channels) == ["notify_command", "mail", "phone"]
    assert rules.channels["mail"].quiet is not None
    assert (rules.channels["phone"].quiet, rules.channels["phone"].digest_every) == (None, 60.0)
    assert rules.channels["mail"].is_urgent("login_missing")
    assert rules.rules[0].hours is not None
    assert rules.rules[0].hours.days == frozenset(range(5))
    assert settings.report_times() is None


def settings_file(folder: Path, url: str) -> Path:
    file = folder / "orchestrator.toml"
    file.write_text(f'[notify.channels.slack]\ntype = "apprise"\nurl = "{url}"\n')
    return file


def test_the_address_of_a_channel_is_shown_without_its_secrets(tmp_path: Path) -> None:
    settings = load_settings(settings_file(tmp_path, "slack://TokenA/TokenB/TokenC"))
    shown = {one.name: one for one in SettingsService(settings=lambda: settings).in_force().values}
    assert shown["notify.channels.slack.url"].value == '"slack://••••"'
    assert shown["notify.channels.slack.url"].is_masked
    assert "Token" not in str(shown)


def test_an_error_names_file_and_line_of_a_channel(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(settings_file(tmp_path, "TokenA"))
    [problem] = caught.value.problems
    assert str(problem).startswith(f"{tmp_path}/orchestrator.toml:1: notify.channels.slack: ")
    assert "TokenA" not in str(problem)


def test_where_secrets_are_sent_waits_for_a_restart_if_agents_can_write_the_settings(tmp_path: Path) -> None:
    before = load_settings(settings_file(tmp_path, "ntfy://host/topic"))
    after = load_settings(settings_file(tmp_path, "json://evil/${GITHUB_TOKEN}"))
    kept, names = keep_programs(after, before)
    assert names == ["notify.channels"]
    assert kept.notify.channels == before.notify.channels
