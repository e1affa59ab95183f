"""Notices as programs read them."""

import pytest

from orchestrator.core.decide.pausing import add_notice
from orchestrator.core.events.notice import Notice, NoticeKind
from orchestrator.integrations.notices.documents import announcement, what_to_do
from tests.fakes.tasks import TASK_ID, submitted
from tests.fakes.world import START
from tests.unit.playbook import at_work


def notice(kind: NoticeKind, key: str = f"{TASK_ID}:41:0") -> Notice:
    return Notice(key=key, kind=kind, text="Which port?", at=START)


def test_a_notice_names_its_task_and_the_next_action() -> None:
    assert announcement(submitted(stage="DESIGN"), notice(NoticeKind.QUESTION_ASKED)) == {
        "key": f"{TASK_ID}:41:0",
        "event": "question_asked",
        "task_id": TASK_ID,
        "title": "Add a flag",
        "status": "pending",
        "stage": "DESIGN",
        "text": "Which port?",
        "at": "2026-11-21T22:00:00.000Z",
        "what_to_do": f"orchestrator answer {TASK_ID}",
    }


@pytest.mark.parametrize(
    ("kind", "verb"),
    [
        (NoticeKind.REVIEW_ASKED, "show"),
        (NoticeKind.QUESTION_ASKED, "answer"),
        (NoticeKind.DEPENDENCY_ASKED, "why"),
        (NoticeKind.LIMIT_REACHED, "why"),
        (NoticeKind.LOGIN_MISSING, "why"),
        (NoticeKind.BLOCKED, "logs"),
        (NoticeKind.FAILED, "logs"),
        (NoticeKind.COMPLETED, "show"),
        (NoticeKind.REMINDER, "why"),
    ],
)
def test_each_kind_has_a_command_for_the_next_action(kind: NoticeKind, verb: str) -> None:
    assert what_to_do(kind, "T-1") == f"orchestrator {verb} T-1"


@pytest.mark.parametrize("key", ["", ".", "..", "../x", "a/b", "a\n", "a\0", "ü", "x" * 201])
def test_a_key_that_is_not_a_file_name_is_an_error(key: str) -> None:
    with pytest.raises(ValueError, match="cannot be the key of a notice"):
        notice(NoticeKind.FAILED, key)


def test_a_notice_that_is_already_pending_is_not_added_again() -> None:
    once = add_notice(at_work(), NoticeKind.BLOCKED, "no disk", START, "blocked-7")
    assert add_notice(once, NoticeKind.BLOCKED, "no disk", START, "blocked-7") is once
