"""Where callbacks may be sent, with settings of an operator and a CLAUDE.md of anybody."""

import pytest

from orchestrator.core.events.callback import CallbackKind
from orchestrator.integrations.callbacks.destinations import Destination, Destinations

TASK, PROGRESS = CallbackKind.TASK, CallbackKind.PROGRESS
ALLOWED = Destinations(token="operators", hosts=frozenset({"ci.example.org", "localhost:3000"}))
LINES = """# Rules
TaskCallback: https://ci.example.org/task
ProgressCallback: http://localhost:3000/progress
CallbackToken: theirs
"""


def test_lines_of_a_repository_count_where_the_settings_name_nothing_and_list_the_host() -> None:
    assert ALLOWED.of(TASK, LINES) == Destination(url="https://ci.example.org/task", token="theirs")
    assert ALLOWED.of(PROGRESS, LINES) == Destination(url="http://localhost:3000/progress", token="theirs")


def test_the_settings_win_and_their_token_goes_to_their_address_only() -> None:
    settings = Destinations(urls={TASK: "https://own.example.org/x"}, token="operators", hosts=ALLOWED.hosts)
    assert settings.of(TASK, LINES) == Destination(url="https://own.example.org/x", token="operators")
    assert settings.of(PROGRESS, LINES) == Destination(url="http://localhost:3000/progress", token="theirs")
    assert settings.of(PROGRESS, LINES.replace("CallbackToken: theirs", "")) == Destination(
        url="http://localhost:3000/progress"
    )


def test_carriage_returns_are_stripped_and_a_bare_key_means_off() -> None:
    windows = LINES.replace("\n", "\r\n")
    assert ALLOWED.of(TASK, windows) == Destination(url="https://ci.example.org/task", token="theirs")
    assert ALLOWED.of(TASK, "TaskCallback:\r\nTaskCallback: https://ci.example.org/task\n") is None
    assert ALLOWED.of(TASK, "") is None
    assert ALLOWED.of(TASK, "See TaskCallback: https://ci.example.org/task") is None


@pytest.mark.parametrize(
    "url",
    [
        "https://evil.example.org/task",
        "https://ci.example.org:8443/task",
        "https://ci.example.org.evil.example.org/",
        "https://ci.example.org@evil.example.org/",
        "https://evil.example.org#ci.example.org",
        "http://localhost/",
        "http://[::1]:3000/",
        "file:///etc/passwd",
        "gopher://ci.example.org/",
        "https://ci.example.org/a b",
        "https://ci.example.org/\x00",
        "https://ci.example.örg/",
        "https://ci.example.org:99999/",
        "https://[ci.example.org/",
        "https://" + "a" * 5000,
        "//ci.example.org/task",
        "$(curl evil)",
    ],
)
def test_nothing_is_sent_to_a_host_that_is_not_listed_or_to_what_is_no_address(url: str) -> None:
    with pytest.raises(ValueError, match=r"does not list|is not an address|cannot be called"):
        ALLOWED.of(TASK, f"TaskCallback: {url}\n")


def test_a_token_does_not_travel_in_the_clear_and_has_to_fit_into_a_header() -> None:
    http = Destinations(urls={TASK: "http://ci.example.org/x"}, token="operators")
    with pytest.raises(ValueError, match="must not go over plain http"):
        http.of(TASK, "")
    assert Destinations(urls=http.urls).of(TASK, "") == Destination(url="http://ci.example.org/x")
    with pytest.raises(ValueError, match="cannot be one"):
        Destinations(urls={TASK: "https://ci.example.org/x"}, token="two words").of(TASK, "")
    with pytest.raises(ValueError, match="cannot be one"):
        ALLOWED.of(TASK, LINES.replace("theirs", "a\x7fb"))
    assert "operators" not in repr(http)
