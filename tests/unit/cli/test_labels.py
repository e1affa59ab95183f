"""What states are called in each language."""

import pytest

from orchestrator.cli.labels import WAITS_FOR, Language, language, pause_label, status_label
from orchestrator.core.task.agent import PauseReason
from orchestrator.core.task.task import TaskStatus

SEED = {
    "draft": "초안",
    "pending": "대기 중",
    "in_progress": "진행 중",
    "review": "리뷰 대기",
    "completed": "완료",
    "failed": "실패",
}
"""The labels of Claude Code Server."""


@pytest.fixture(autouse=True)
def no_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, Language.ENGLISH),
        ({"LANG": "ko_KR.UTF-8"}, Language.KOREAN),
        ({"LANG": "ko"}, Language.KOREAN),
        ({"LANG": "kok_IN"}, Language.ENGLISH),
        ({"LANG": "ko_KR.UTF-8", "LC_ALL": "C"}, Language.ENGLISH),
        ({"LANG": "en_US.UTF-8", "LC_MESSAGES": "ko_KR"}, Language.KOREAN),
        ({"LANG": "ko_KR.UTF-8", "LC_ALL": ""}, Language.KOREAN),
        ({"LANG": "일본\udcff"}, Language.ENGLISH),
    ],
)
def test_the_locale_of_messages_decides(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: Language
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert language() is expected


def test_states_have_the_labels_of_the_original_system_in_korean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANG", "ko_KR.UTF-8")
    assert {value: status_label(TaskStatus(value)) for value in SEED} == SEED
    assert len({status_label(status) for status in TaskStatus}) == len(TaskStatus)


def test_states_are_their_values_in_english() -> None:
    assert [status_label(status) for status in TaskStatus] == [status.value for status in TaskStatus]


@pytest.mark.parametrize("spoken", Language)
@pytest.mark.parametrize("blocked_by", [None, *PauseReason])
def test_every_reason_to_wait_has_a_label(spoken: Language, blocked_by: PauseReason | None) -> None:
    assert WAITS_FOR[spoken][blocked_by]
    assert pause_label(blocked_by) == WAITS_FOR[Language.ENGLISH][blocked_by]
