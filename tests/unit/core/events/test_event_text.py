"""Events as texts for users."""

from typing import get_args

import pytest

from orchestrator.core.events.event_text import LONGEST, PHRASES, describe_event
from orchestrator.core.events.events import Event
from orchestrator.formats.codec import Json


def test_every_event_type_has_its_own_text_which_names_only_its_fields() -> None:
    kinds = {kind.__name__: kind for kind in get_args(Event)}
    assert set(kinds) <= set(PHRASES)
    for name, kind in kinds.items():
        fields = [
            place.partition("|")[2].partition(".")[0] for place in PHRASES[name].replace("}", "{").split("{")[1::2]
        ]
        assert set(fields) <= set(kind.__dataclass_fields__), name


@pytest.mark.parametrize(
    ("trigger", "event", "words"),
    [
        ("TurnFinished", {"outcome": "failed", "reason": "no\nanswer"}, "a turn of its agent ended failed: no answer"),
        ("TurnFinished", {"outcome": "ok", "reason": ""}, "a turn of its agent ended ok"),
        (
            "TurnFinished",
            {"outcome": "ok", "malformed": ["ERROR was not understood", "so was USER_QUESTION"]},
            "a turn of its agent ended ok; ERROR was not understood; so was USER_QUESTION",
        ),
        ("TurnFinished", {"outcome": "ok", "malformed": []}, "a turn of its agent ended ok"),
        (
            "CheckFinished",
            {"name": "lint", "result": {"verdict": "FAIL", "reason": "exit code 1"}},
            "a check ended: lint FAIL: exit code 1",
        ),
        ("CheckFinished", {"name": "lint", "result": None}, "a check ended: lint"),
        ("PauseRequested", {"by": "ann uid:1000 pid:7", "reason": ""}, "a pause was requested by ann"),
        ("CommandFailed", {"reason": "\x1b[2J {by|reason}"}, "an action failed: \\x1b[2J {by|reason}"),
        ("CheckpointSaved", {"number": 3}, "a checkpoint was saved: 3"),
        ("AgentVanished", None, "agent vanished"),
        ("RunFrozen", [], "its processes are stopped"),
    ],
)
def test_the_text_of_an_event_names_exactly_the_fields_that_are_set(trigger: str, event: Json, words: str) -> None:
    assert describe_event(trigger, event) == words


def test_a_long_reason_is_truncated() -> None:
    assert len(describe_event("CommandFailed", {"reason": "x" * 10_000})) == LONGEST
