"""Settings, from real files and a real environment."""

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from datetime import time
from pathlib import Path

import pytest
from pydantic import BaseModel

from orchestrator.core.schedule.run_windows import AtEdge
from orchestrator.core.task.task_policy import Autonomy, OnBlocked
from orchestrator.settings.loading import SettingsError, load_places, load_settings
from orchestrator.settings.settings import Settings

DEFAULTS = Path("config/orchestrator.toml")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary home without settings."""
    for name in os.environ:
        places = {"STATE_DIRECTORY", "RUNTIME_DIRECTORY", "XDG_STATE_HOME"}
        if name.startswith(("ORCHESTRATOR_", "JIRA_")) or name in places:
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "config/orchestrator").mkdir(parents=True)
    return tmp_path


def keys(model: type[BaseModel], prefix: str = "") -> dict[str, object]:
    """Return every key of the settings, dotted."""
    found: dict[str, object] = {}
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            found |= keys(field.annotation, f"{prefix}{name}.")
        else:
            found[prefix + name] = field
    return found


def flat(table: Mapping[str, object], known: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in table.items():
        if isinstance(value, dict) and prefix + name not in known:
            found |= flat(value, known, f"{prefix}{name}.")
        else:
            found[prefix + name] = value
    return found


def problems_of(path: Path) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        load_settings(path)
    return [str(problem) for problem in caught.value.problems]


def test_the_default_file_documents_exactly_the_existing_keys() -> None:
    text = re.sub(r"(?m)^# (\w+ = )", r"\1", DEFAULTS.read_text(encoding="utf-8"))
    known = keys(Settings)
    assert list(flat(tomllib.loads(text), known)) == list(known)
    for line in text.splitlines():
        if re.match(r"(max|checkpoint|turn|orphan|free|\w+ = (?!\"~))", line):
            assert "#" in line, f"say what it is for: {line}"


def test_the_default_file_states_the_defaults() -> None:
    assert load_settings(DEFAULTS).model_dump() == load_settings().model_dump()


def test_later_layers_override_key_by_key(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user = home / "config/orchestrator/orchestrator.toml"
    user.write_text("max_agents = 2\nturn_timeout = 20\n[graces]\neof = 2\nterm = 2\nkill = 2\ninterrupt = 2\n")
    given = home / "given.toml"
    given.write_text("turn_timeout = 30\n[graces]\nterm = 3\nkill = 3\ninterrupt = 3\n")
    monkeypatch.setenv("ORCHESTRATOR_GRACES__KILL", "4")
    monkeypatch.setenv("ORCHESTRATOR_GRACES__INTERRUPT", "4")
    settings = load_settings(given, {"graces": {"interrupt": 5}})
    assert (settings.max_agents, settings.turn_timeout) == (2, 30)
    assert settings.graces.model_dump() == {"eof": 2, "term": 3, "kill": 4, "interrupt": 5}


def test_data_and_socket_are_in_the_folders_of_systemd(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STATE_DIRECTORY", f"{home}/lib:{home}/other")
    monkeypatch.setenv("RUNTIME_DIRECTORY", f"{home}/run")
    settings = load_settings()
    assert (settings.data_dir, settings.socket) == (home / "lib", home / "run/orchestrator.sock")


def test_without_systemd_they_are_in_the_home_of_the_user(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_settings().data_dir == home / ".local/state/orchestrator"
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "state"))
    settings = load_settings()
    assert settings.data_dir == home / "state/orchestrator"
    assert settings.socket == home / "state/orchestrator/orchestrator.sock"


def test_a_given_data_dir_moves_the_socket_along(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORCHESTRATOR_DATA_DIR", "~/data")
    assert load_settings().socket == home / "data/orchestrator.sock"


def test_the_log_is_json_under_systemd(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_settings().log.format == "console"
    monkeypatch.setenv("JOURNAL_STREAM", "8:1234")
    assert load_settings().log.format == "json"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\nmax_agent = 2", ":2: unknown key 'max_agent'; did you mean 'max_agents'?"),
        ("[graces]\n\ntrem = 2", ":3: unknown key 'graces.trem'; did you mean 'term'?"),
        ("[grace]", ":1: unknown key 'grace'; did you mean 'graces'?"),
        ("turn_timeout = 0", ":1: turn_timeout: input should be greater than 0"),
        ("turn_timeout = inf", ":1: turn_timeout: input should be a finite number"),
        ("max_agents = 0", ":1: max_agents: input should be greater than or equal to 1"),
        ('free_space_floor = "much"', ":1: free_space_floor: could not parse value and unit"),
        ('free_space_floor = "63MiB"', ":1: free_space_floor: must be at least 64 MiB, because"),
        ("free_space_floor = 0", ":1: free_space_floor: must be at least 64 MiB, because"),
        ('[agent]\ndriver = "codex"', ":2: agent.driver: input should be 'claude' or 'command'"),
        ('[agent]\ndriver = "command"', ':1: agent: driver = "command" needs command'),
        ("[agent]\ncommand = [\n  'a',\n  3]", ":4: agent.command.1: input should be a valid string"),
        ('[agent]\nsetting_sources = "usr"', ":2: agent.setting_sources: string should match"),
        (
            "[checks.commands]\n" + "".join(f"a{number} = 'true'\n" for number in range(51)),
            ":1: checks.commands: dictionary should have at most 50 items",
        ),
        (
            '[windows.night]\nopens = "22:00"\ncloses = "06:30"\nzone = "Europe/Berlyn"',
            ":1: windows.night: 'Europe/Berlyn' is not a time zone; did you mean 'Europe/Berlin'?",
        ),
        (
            '[windows.night]\nopens = "22:00"\ncloses = "26:30"',
            ":1: windows.night: '26:30' is not a time of day; write 22:00",
        ),
        (
            '[windows.night]\nopens = "22:00"\ncloses = "06:30"\ndays = "weekdys"',
            ":1: windows.night: 'weekdys' is not a day; write one of mon, tue,",
        ),
        (
            '[windows.night]\nopens = "22:00"\ncloses = "06:30"\nat_edg = "freeze"',
            ":4: unknown key 'windows.night.at_edg'; did you mean 'at_edge'?",
        ),
        ("max_agents = \n", ":1: this is not TOML"),
        ("a = 1\0", ":1: this is binary, not text"),
    ],
)
def test_an_error_in_a_file_is_reported_with_its_line(home: Path, text: str, message: str) -> None:
    file = home / "given.toml"
    file.write_text(text)
    found = problems_of(file)
    assert any(problem.startswith(f"{file}{message}") for problem in found), found


def test_on_blocked_depends_on_the_autonomy_unless_it_is_set(home: Path) -> None:
    file = home / "given.toml"
    file.write_text('on_blocked = "halt"')
    unsaid, said = (
        {one: settings.policy(one).on_blocked for one in Autonomy}
        for settings in (load_settings(), load_settings(file))
    )
    assert unsaid == {Autonomy.INTERACTIVE: OnBlocked.HALT, Autonomy.AUTO: OnBlocked.ESCALATE}
    assert said == dict.fromkeys(Autonomy, OnBlocked.HALT)


def test_run_windows_are_read_with_days_by_name_and_the_home_of_the_user(home: Path) -> None:
    file = home / "given.toml"
    night = '[windows.night]\ndays = ["fri-mon", "wed"]\nopens = "22:00"\ncloses = "24:00"\nrepos = ["~/work"]\n'
    file.write_text(f'{night}zone = "Europe/Berlin"\nat_edge = "end_turn"\n')
    (window,) = load_settings(file).capacity().windows
    assert (window.name, window.days, window.at_edge) == ("night", frozenset({4, 5, 6, 0, 2}), AtEdge.END_TURN)
    assert (window.opens, window.closes, str(window.zone)) == (time(22), time(0), "Europe/Berlin")
    assert window.repos == (str(home / "work"),)


def test_a_requested_file_must_exist(home: Path) -> None:
    assert problems_of(home / "none.toml") == [f"{home}/none.toml: cannot be read: No such file or directory"]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (
            "ORCHESTRATOR_MAX_AGENT",
            "2",
            "environment: ORCHESTRATOR_MAX_AGENT is not a setting; did you mean 'max_agents'?",
        ),
        ("ORCHESTRATOR_AGENT__MODLE", "x", "environment: unknown key 'agent.modle'; did you mean 'model'?"),
        ("ORCHESTRATOR_AGENT__COMMAND", "x", "environment: error parsing value for field"),
        ("ORCHESTRATOR_MAX_AGENTS", "x", "environment: max_agents: input should be a valid integer"),
    ],
)
def test_an_invalid_variable_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, message: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError, match=re.escape(message)):
        load_settings()


def test_variables_for_agents_are_not_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORCHESTRATOR_TASK", "T-1")
    monkeypatch.setenv("ORCHESTRATOR_OUTBOX", "/tmp/out")
    assert load_settings().max_agents == 1


def test_the_users_definitions_are_searched_after_the_bundled_ones(home: Path) -> None:
    folders = load_settings(options={"folders": {"agents": ["~/mine"]}}).definition_folders()
    assert folders.roles[0] == Path("agents").absolute()
    assert folders.roles[-2:] == (home / "config/orchestrator/agents", home / "mine")
    assert folders.pipelines[0] == Path("config/pipelines").absolute()


def test_jira_is_configured_by_the_variables_of_the_original_system_unless_a_file_sets_it(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JIRA_BASE_URL", "https://old.example")
    monkeypatch.setenv("JIRA_USER_EMAIL", "me@acme.example")
    given = home / "given.toml"
    given.write_text('[trackers.jira]\nurl = "https://jira.acme.example/jira"\n')
    assert load_settings().trackers.jira.url == "https://old.example"
    jira = load_settings(given).trackers.jira
    assert (jira.url, jira.user) == ("https://jira.acme.example/jira", "me@acme.example")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://jira.acme.example", "jira.acme.example must not go over plain http"),
        ("http://127.0.0.1.acme.example", "must not go over plain http"),
        ("https://me:secret@jira.acme.example", "the address on jira.acme.example"),
        ("https://jira.acme.example/?x=1", "the address on jira.acme.example"),
        ("https://jira.acme.example:x", "write https://host"),
        ("jira.acme.example", "write https://host"),
        ("https://", "write https://host"),
        ("", "write https://host"),
    ],
)
def test_a_tracker_that_must_not_get_a_token_is_refused(home: Path, url: str, said: str) -> None:
    given = home / "given.toml"
    given.write_text(f'[trackers.jira]\nurl = "{url}"\n')
    (problem,) = problems_of(given)
    assert said in problem
    assert problem.startswith(f"{given}:2: trackers.jira.url: ")
    assert "secret" not in problem


def test_an_invalid_variable_of_the_original_system_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JIRA_BASE_URL", "jira.acme.example")
    with pytest.raises(SettingsError, match=r"JIRA_… variables: trackers\.jira\.url: "):
        load_settings()


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8080", "http://localhost:1", "http://[::1]:8", "https://a.example/j"]
)
def test_plain_http_is_accepted_on_loopback(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("ORCHESTRATOR_TRACKERS__GITLAB__URL", url)
    assert load_settings().trackers.gitlab.url == url


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ('gateway = "jira-gateway"', r'gateway = … needs url = "https://…"'),
        ('url = "https://jira.example"\ngateway = "gate"', "jira.gateway = 'gate' needs mcp_config in [agent]"),
    ],
)
def test_a_gateway_is_a_registered_server_of_a_jira_with_a_web_address(home: Path, given: str, said: str) -> None:
    file = home / "given.toml"
    file.write_text(f"[trackers.jira]\n{given}\n")
    (problem,) = problems_of(file)
    assert said in problem
    assert str(file) in problem


@pytest.mark.parametrize("load", [load_settings, load_places])
def test_an_empty_path_is_one_error_that_names_its_place(
    load: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORCHESTRATOR_DATA_DIR", "")
    with pytest.raises(SettingsError) as caught:
        load()
    told = [str(problem) for problem in caught.value.problems]
    assert told == ["environment: data_dir: is empty; name a path, or leave the setting out"]


def test_a_path_that_is_wrong_in_a_file_is_told_with_the_file(home: Path) -> None:
    config = home / "own.toml"
    config.write_text('socket = ""\n[agent\n')
    with pytest.raises(SettingsError) as caught:
        load_places(config)
    told = [str(problem) for problem in caught.value.problems]
    assert told == [f"{config}: socket: is empty; name a path, or leave the setting out"]
