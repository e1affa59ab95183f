"""What people type within a command because other programs have it: the sub-command that is meant, or what to type."""

import re
from collections.abc import Mapping, Sequence

from orchestrator.cli.parsing.errors import UsageError

_TOKENS = {"ls": "list", "rm": "revoke", "remove": "revoke", "delete": "revoke", "new": "create", "add": "create"}

SUB_COMMANDS: Mapping[str, Mapping[str, str]] = {
    "schedule": {
        "ls": "list",
        "rm": "remove",
        "delete": "remove",
        "new": "add",
        "create": "add",
        "start": "run",
        "trigger": "run",
        "disable": "pause",
        "suspend": "pause",
        "enable": "resume",
        "describe": "show",
        "inspect": "show",
        "get": "show",
        "change": "edit",
        "update": "edit",
        "modify": "edit",
        "set": "edit",
    },
    "token": _TOKENS,
    "checkpoints": {"ls": "list", "inspect": "show"},
    "notify": {"ls": "list", "history": "log"},
    "service": {"remove": "uninstall", "update": "upgrade", "log": "logs"},
}
"""Sub-commands under other names, by command; they are not listed."""

_SYSTEMCTL = "`systemctl {word} orchestrator` does that, with --user for a service of your own"
SUB_ANSWERS: Mapping[str, Mapping[str, str]] = {
    "service": dict.fromkeys(("start", "stop", "restart", "reload", "enable", "disable", "is-active"), _SYSTEMCTL),
    "schedule": {"rename": "`orchestrator schedule remove NAME` and `orchestrator schedule add` replace it"},
}
"""Sub-commands that other programs have, and what to type instead."""

_FORMAT = "`-o json` prints JSON, `-o name` the ids alone, `-o wide` more columns"
_MORE = "`--json` prints everything that is known"
OPTIONS: Mapping[tuple[str, str], str] = {
    ("cancel", "--all"): "name the tasks; `orchestrator pause --all` stops all of them for now, "
    "`orchestrator drain` ends every agent and keeps its session",
    ("cancel", "-a"): "name the tasks; `orchestrator pause --all` stops all of them for now",
    ("status", "--watch"): "`orchestrator watch` is a live screen",
    ("status", "-w"): "`orchestrator watch` is a live screen",
    ("status", "-f"): "`orchestrator watch` is a live screen, `orchestrator events -f` follows what happens",
    ("tasks", "--watch"): "`orchestrator watch` is a live screen",
    ("tasks", "-w"): "`orchestrator watch` is a live screen",
    ("tasks", "--format"): _FORMAT,
    ("delete", "-f"): "`--yes` deletes without a question",
    ("delete", "--force"): "`--yes` deletes without a question",
    ("", "-v"): _MORE,
    ("", "--verbose"): _MORE,
}
"""Options that other programs have, by command, "" for any, and what to type instead."""

_NUMBERS = (
    (re.compile(r"Input should be a valid integer.*"), "give a whole number"),
    (re.compile(r"Input should be a valid number.*"), "give a number"),
    (re.compile(r"Input should be greater than or equal to (\S+)"), r"give at least \1"),
    (re.compile(r"Input should be less than or equal to (\S+)"), r"give at most \1"),
)


def expand_within(command: str, arguments: Sequence[str]) -> list[str]:
    """Return the arguments of a command with the sub-command that is meant. Raises UsageError for one to choose."""
    at = next((at for at, word in enumerate(arguments) if not word.startswith("-")), None)
    if at is None:
        return [*arguments]
    word = arguments[at]
    if answer := SUB_ANSWERS.get(command, {}).get(word):
        raise UsageError(f"there is no command '{command} {word}': {answer.format(word=word)}")
    return [*arguments[:at], SUB_COMMANDS.get(command, {}).get(word, word), *arguments[at + 1 :]]


def option_hint(command: str, option: str) -> str:
    """Return what to type instead of an option that a command does not have, "" if nothing is known."""
    return OPTIONS.get((command, option)) or OPTIONS.get(("", option)) or ""


def in_plain_words(message: str) -> str:
    """Return what is wrong with a value, without the words of the library that checks it."""
    for pattern, words in _NUMBERS:
        message = pattern.sub(words, message)
    return message.replace("Value error, ", "")
