"""What keys do on the live screen: select, scroll, ask before what cannot be undone."""

from dataclasses import replace

import pytest

from orchestrator.cli.screen.keys import Selection, Shown, key_names, press, still_there
from orchestrator.daemon.access.verbs import Verb

TASKS = [f"T-{number}" for number in range(10)]


def after(*keys: str, begin: Selection | None = None, rows: int = 4) -> Selection:
    now = begin or Selection()
    for key in keys:
        now = press(now, key, TASKS, rows)
    return now


def test_bytes_of_a_terminal_become_names_of_keys() -> None:
    assert key_names(b"\x1b[A\x1b[Bjk\x1b[6~q") == ["up", "down", "down", "up", "page down", "quit"]
    assert key_names(b"xz\xc3\xa9\x1b[200~") == []
    assert key_names(b"\x1b") == ["escape"]


@pytest.mark.parametrize(
    ("keys", "task", "first"),
    [
        ("down", "T-0", 0),
        ("down down", "T-1", 0),
        ("down down down down down", "T-4", 1),
        ("down up", "T-0", 0),
        ("end", "T-9", 6),
        ("end down", "T-9", 6),
        ("end home", "T-0", 0),
        ("down page_down", "T-4", 1),
        ("end page_up page_up page_up", "T-0", 0),
    ],
)
def test_the_selected_task_is_always_on_the_screen(keys: str, task: str, first: int) -> None:
    now = after(*(key.replace("_", " ") for key in keys.split()))
    assert (now.task, now.first) == (task, first)


def test_nothing_is_done_without_a_selected_task() -> None:
    now = after("pause")
    assert (now.order, now.asked) == (None, None)
    assert "arrow keys" in now.said


def test_a_pause_is_done_at_once_and_a_cancel_after_a_yes() -> None:
    assert after("down", "pause").order is Verb.PAUSE
    asked = after("down", "cancel")
    assert (asked.asked, asked.order) == (Verb.CANCEL, None)
    assert after("yes", begin=asked).order is Verb.CANCEL
    for key in ("quit", "pause", "enter", "cancel"):
        left = after(key, begin=asked)
        assert (left.asked, left.order, left.quits) == (None, None, False)


def test_help_and_details_are_left_before_the_screen_is() -> None:
    assert after("help").shown is Shown.HELP
    assert after("help", "quit").shown is Shown.TASKS
    assert after("down", "enter").shown is Shown.ONE
    assert after("down", "enter", "escape").shown is Shown.TASKS
    assert after("enter").shown is Shown.TASKS
    assert after("quit").quits


def test_a_task_that_moved_stays_selected_and_one_that_is_gone_does_not() -> None:
    now = after("end")
    assert still_there(now, TASKS[::-1], 4) == replace(now, first=0)
    gone = still_there(replace(now, asked=Verb.CANCEL), TASKS[:3], 4)
    assert (gone.task, gone.asked, gone.first) == (None, None, 0)
    assert still_there(Selection(), [], 4) == Selection()
