"""What commands print of tasks."""

import io

import pytest
from rich.console import Console

from orchestrator.cli.output import status_text, table
from orchestrator.core.task.agent import PauseReason
from orchestrator.core.task.task import TaskStatus


@pytest.mark.parametrize("reason", [None, *PauseReason])
def test_what_a_paused_task_waits_for_is_said_in_words(reason: PauseReason | None) -> None:
    assert str(status_text(TaskStatus.IN_PROGRESS, paused=True, blocked_by=reason)) not in {"", "in_progress"}


T = "Audit the dependencies of every service and say which are old and unsafe"

LISTS = {
    "schedules": (
        ("NAME", "WHEN", "ZONE", "NEXT", "IN", "LAST", "RESULT", "TITLE"),
        (
            "audit-dependencies",
            "0 22 * * 1-5",
            "Europe/Berlin",
            "Mon 2026-11-23 22:00",
            "in 3 h",
            "never",
            "refused",
            T,
        ),
        {"NAME": "audit-dependencies", "RESULT": "refused", "TITLE": "Audit"},
    ),
    "notices": (
        ("TOLD", "KIND", "CHANNEL", "STATUS", "SUBJECT"),
        ("2026-11-23 07:00", "night_report", "desktop-mail", "given up", f"{T}; 5 tries: {T}"),
        {"KIND": "night_report", "CHANNEL": "desktop-mail", "STATUS": "given up", "SUBJECT": "Audit"},
    ),
    "channels": (
        ("CHANNEL", "WORKS", "LAST", "WAITING", "WHY NOT"),
        ("desktop-mail", "no, 12 failures", "3m10s ago", "12", T),
        {"CHANNEL": "desktop-mail", "WHY NOT": "Audit"},
    ),
    "intake": (
        ("WHEN", "SOURCE", "CAME TO", "NAME", "TASK OR REASON"),
        ("2026-11-23 07:00", "query bugs", "refused", "fix-the-parser-of-dates.md", T),
        {"SOURCE": "query bugs", "CAME TO": "refused", "NAME": "fix-the-par", "TASK OR REASON": "Audit"},
    ),
}


@pytest.mark.parametrize("name", LISTS)
def test_a_narrow_terminal_keeps_the_columns_that_say_what_a_row_is_about(name: str) -> None:
    headings, row, expected = LISTS[name]
    shown = _shown(headings, row)
    assert all(heading in shown and text in shown for heading, text in expected.items()), shown


def test_a_reason_goes_on_in_the_next_line_and_loses_nothing() -> None:
    headings, row, _ = LISTS["notices"]
    shown = _shown(headings, row)
    assert set(T.split()) <= set(shown.split())
    assert "…" not in shown


def test_when_a_task_starts_is_shown_whole_beside_a_long_title() -> None:
    headings = ("TASK", "STATUS", "STAGE", "STEP", "DONE", "AGENT", "SINCE", "TOKENS", "COST", "WHY", "TITLE")
    why = "it starts at 2026-11-23 23:30 UTC"
    assert why in _shown(headings, ("20261123-a1b2c3", "pending", "PREFLIGHT", "", "0%", "", "3s", "", "", why, T))


def _shown(headings: tuple[str, ...], row: tuple[str, ...]) -> str:
    screen = Console(width=80, file=io.StringIO())
    with screen.capture() as captured:
        screen.print(table(headings, [row], room=80))
    return captured.get()
