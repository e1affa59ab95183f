"""The live screen as a value: which task is selected, what is shown of it, and what each key does. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from orchestrator.daemon.access.verbs import Verb

_KEY = re.compile(rb"\x1b\[[0-9;]*[A-Za-z~]|\x1bO[A-Z]|.", re.DOTALL)
NAMES = {
    b"\x1b[A": "up",
    b"\x1bOA": "up",
    b"k": "up",
    b"\x1b[B": "down",
    b"\x1bOB": "down",
    b"j": "down",
    b"\x1b[5~": "page up",
    b"\x1b[6~": "page down",
    b" ": "page down",
    b"\x1b[H": "home",
    b"g": "home",
    b"\x1b[F": "end",
    b"G": "end",
    b"\r": "enter",
    b"\n": "enter",
    b"\x1b": "escape",
    b"?": "help",
    b"h": "help",
    b"q": "quit",
    b"Q": "quit",
    b"y": "yes",
    b"p": "pause",
    b"r": "resume",
    b"c": "cancel",
    b"a": "approve",
    b"t": "retry",
}
VERBS = {
    "pause": Verb.PAUSE,
    "resume": Verb.RESUME,
    "cancel": Verb.CANCEL,
    "approve": Verb.APPROVE,
    "retry": Verb.RETRY,
}
ASKED_BEFORE = frozenset({Verb.CANCEL, Verb.APPROVE})
"""Verbs that are done only after a yes."""
HELP = (
    ("↑ ↓, k j", "select a task"),
    ("PgUp PgDn", "a screen up or down; Home and End to the first and last"),
    ("Enter", "why it is where it is, and what it asks; Escape goes back"),
    ("p  r", "pause it; resume it"),
    ("a  c", "approve its work; cancel it: both ask before"),
    ("t", "retry it, if it is blocked"),
    ("?", "this help"),
    ("q", "quit; every task goes on"),
)


class Shown(Enum):
    """What the screen shows."""

    TASKS = "tasks"
    ONE = "one"
    HELP = "help"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What the user has selected; `first` is the row at the top, `asked` a verb that waits for a yes.

    `order` is the verb to carry out for the selected task now, `said` what came of the last one.
    """

    task: str | None = None
    first: int = 0
    shown: Shown = Shown.TASKS
    asked: Verb | None = None
    order: Verb | None = None
    said: str = ""
    quits: bool = False


def key_names(pressed: bytes) -> list[str]:
    """Return the names of keys that a terminal sent; unknown ones are left out."""
    return [NAMES[key] for key in _KEY.findall(pressed) if key in NAMES]


def press(now: Selection, key: str, tasks: Sequence[str], rows: int) -> Selection:
    """Return the selection after a key, with so many rows of tasks on the screen."""
    now = replace(now, order=None, said="")
    if now.asked is not None:
        return replace(now, asked=None, order=now.asked if key == "yes" else None)
    if key in VERBS:
        return _ordered(now, VERBS[key])
    match key:
        case "quit" | "escape" if now.shown is not Shown.TASKS:
            return replace(now, shown=Shown.TASKS)
        case "quit":
            return replace(now, quits=True)
        case "help":
            return replace(now, shown=Shown.TASKS if now.shown is Shown.HELP else Shown.HELP)
        case "enter" if now.task is not None:
            return replace(now, shown=Shown.ONE)
        case "up" | "down" | "page up" | "page down" | "home" | "end" if tasks:
            return _moved(now, key, tasks, rows)
        case _:
            return now


def still_there(now: Selection, tasks: Sequence[str], rows: int) -> Selection:
    """Return the selection with the rows that show it, after the tasks have changed; one that is gone is dropped."""
    if now.task not in tasks:
        return replace(now, task=None, asked=None, first=min(now.first, max(0, len(tasks) - rows)))
    return replace(now, first=_first(now.first, tasks.index(now.task), rows))


def _ordered(now: Selection, verb: Verb) -> Selection:
    if now.task is None:
        return replace(now, said="select a task first, with the arrow keys")
    return replace(now, asked=verb) if verb in ASKED_BEFORE else replace(now, order=verb)


def _moved(now: Selection, key: str, tasks: Sequence[str], rows: int) -> Selection:
    steps = {"up": -1, "down": 1, "page up": -rows, "page down": rows, "home": -len(tasks), "end": len(tasks)}
    begin = len(tasks) - 1 if key == "end" else now.first
    wanted = tasks.index(now.task) + steps[key] if now.task in tasks else begin
    at = min(max(wanted, 0), len(tasks) - 1)
    return replace(now, task=tasks[at], first=_first(now.first, at, rows))


def _first(first: int, at: int, rows: int) -> int:
    """Return the row at the top such that the row `at` is visible."""
    return min(max(first, at - max(1, rows) + 1), at)
