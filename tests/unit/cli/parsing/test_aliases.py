"""Words of other programs: each becomes the command that is meant, or is answered with those to choose from."""

import pytest

from orchestrator.cli.commands_table import COMMANDS
from orchestrator.cli.parsing.aliases import ALIASES, ANSWERS, expand
from orchestrator.cli.parsing.errors import UsageError

PAGES = {"checks", "simulate"}


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("ps", "tasks"),
        ("ps -a", "tasks -a"),
        ("--data-dir ps ps", "--data-dir ps tasks"),
        ("--data-dir=/x rm A", "--data-dir=/x delete A"),
        ("-o json ls", "-o json tasks"),
        ("describe A", "show A"),
        ("describe task A", "show A"),
        ("get tasks", "tasks"),
        ("get tasks -o json", "tasks -o json"),
        ("get task A", "show A"),
        ("info", "status"),
        ("info A", "show A"),
        ("tail A", "logs --follow A"),
        ("schedules", "schedule list"),
        ("cron", "schedule list"),
        ("channels", "notify list"),
        ("notices --json", "notify log --json"),
        ("inbox", "intake"),
        ("windows", "limits"),
        ("schedule --json ls", "schedule --json list"),
        ("token rm phone", "token revoke phone"),
        ("schedule list", "schedule list"),
        ("schedule", "schedule"),
        ("settings", "check --settings"),
        ("help", "help"),
        ("help checks", "help checks"),
        ("help simulate", "help simulate"),
        ("help tasks", "tasks --help"),
        ("help ps", "tasks --help"),
        ("help token create", "token create --help"),
        ("help frobnicate", "help frobnicate"),
        ("frobnicate", "frobnicate"),
        ("submit ps", "submit ps"),
        ("status", "status"),
        ("status --socket x -o json", "status --socket x -o json"),
        ("status A", "show A"),
        ("--version", "--version --help"),
        ("", "--help"),
    ],
)
def test_what_is_typed_becomes_what_is_meant(typed: str, meant: str) -> None:
    assert expand(typed.split(), COMMANDS, PAGES) == meant.split()


@pytest.mark.parametrize("word", ANSWERS)
def test_a_word_that_needs_a_choice_is_answered_with_commands(word: str) -> None:
    with pytest.raises(UsageError, match=r"`orchestrator [a-z]"):
        expand([word, "A"], COMMANDS)


def test_every_alias_names_a_command_and_hides_none() -> None:
    assert {meant[0] for meant in ALIASES.values()} <= set(COMMANDS)
    assert set(COMMANDS).isdisjoint(ALIASES)
