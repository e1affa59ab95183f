"""What states are called, in the user's language: English, or Korean where the locale says so.

`--json` and the API always have the values themselves.
"""

from collections.abc import Mapping
from enum import Enum

from orchestrator.core.task.agent import PauseReason
from orchestrator.core.task.task import TaskStatus
from orchestrator.settings.environment import environment

_LOCALE = ("LC_ALL", "LC_MESSAGES", "LANG")
"""Variables that name the locale of messages, the first one that is set and not empty."""


class Language(Enum):
    """A language that states have names in."""

    ENGLISH = "en"
    KOREAN = "ko"


KOREAN_STATUS: Mapping[TaskStatus, str] = {
    TaskStatus.DRAFT: "초안",
    TaskStatus.PENDING: "대기 중",
    TaskStatus.IN_PROGRESS: "진행 중",
    TaskStatus.REVIEW: "리뷰 대기",
    TaskStatus.COMPLETED: "완료",
    TaskStatus.FAILED: "실패",
    TaskStatus.BLOCKED: "중단됨",
    TaskStatus.CANCELLED: "취소됨",
    TaskStatus.ARCHIVED: "보관됨",
}

WAITS_FOR: Mapping[Language, Mapping[PauseReason | None, str]] = {
    Language.ENGLISH: {
        None: "waits for a slot",
        PauseReason.USER: "paused",
        PauseReason.CHILDREN: "waits for its children",
        PauseReason.QUESTION: "waits for your answer",
        PauseReason.DEPENDENCY: "waits for what you provide",
        PauseReason.REVIEW: "waits for your review",
        PauseReason.RATE_LIMIT: "waits for the usage limit",
        PauseReason.SERVICE: "waits for the service",
        PauseReason.BUDGET: "has used up its budget",
        PauseReason.WINDOW: "waits for its hours",
        PauseReason.PRESSURE: "held by the daemon",
    },
    Language.KOREAN: {
        None: "슬롯 대기",
        PauseReason.USER: "일시중지",
        PauseReason.CHILDREN: "하위 작업 대기",
        PauseReason.QUESTION: "질문 응답 대기",
        PauseReason.DEPENDENCY: "의존성 대기",
        PauseReason.REVIEW: "리뷰 대기",
        PauseReason.RATE_LIMIT: "사용 한도 대기",
        PauseReason.SERVICE: "서비스 대기",
        PauseReason.BUDGET: "예산 소진",
        PauseReason.WINDOW: "실행 시간대 대기",
        PauseReason.PRESSURE: "데몬이 보류함",
    },
}
"""What a paused task waits for."""


def language() -> Language:
    """Return the language of the user's locale."""
    variables = environment()
    locale = next((value for name in _LOCALE if (value := variables.get(name))), "")
    spoken = locale.split(".")[0].split("_")[0].lower()
    return Language.KOREAN if spoken == Language.KOREAN.value else Language.ENGLISH


def status_label(status: TaskStatus) -> str:
    """Return what a status is called; in English, its value."""
    return KOREAN_STATUS[status] if language() is Language.KOREAN else status.value


def pause_label(blocked_by: PauseReason | None) -> str:
    """Return what a paused task waits for."""
    return WAITS_FOR[language()][blocked_by]
