"""What states are called, in the user's language: English, or Korean where the locale says so.

`--json` and the API always have the values themselves.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import Enum

from orchestrator.core.schedule.waits import WaitReason
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

WAITS: Mapping[Language, Mapping[WaitReason, str]] = {
    Language.ENGLISH: {
        WaitReason.SLOT: "{tasks} for a slot",
        WaitReason.START: "{tasks} for the start time",
        WaitReason.WINDOW: "{tasks} for a run window",
        WaitReason.TASK: "{tasks} for other tasks",
        WaitReason.LIMIT: "{tasks} for a usage limit",
        WaitReason.BUDGET: "{tasks} for a budget",
        WaitReason.SERVICE: "{tasks} for the service",
    },
    Language.KOREAN: {
        WaitReason.SLOT: "슬롯 대기 {tasks}개",
        WaitReason.START: "시작 시각 대기 {tasks}개",
        WaitReason.WINDOW: "실행 시간대 대기 {tasks}개",
        WaitReason.TASK: "다른 작업 대기 {tasks}개",
        WaitReason.LIMIT: "사용 한도 대기 {tasks}개",
        WaitReason.BUDGET: "예산 대기 {tasks}개",
        WaitReason.SERVICE: "서비스 대기 {tasks}개",
    },
}
"""How many tasks wait for the same."""
SINCE: Mapping[Language, str] = {Language.ENGLISH: " (from {when} on)", Language.KOREAN: " ({when}부터)"}
TOMORROW: Mapping[Language, str] = {Language.ENGLISH: "tomorrow", Language.KOREAN: "내일"}


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


def wait_label(reason: WaitReason, tasks: int, until: datetime | None, now: datetime) -> str:
    """Return how many tasks wait for the same, and from when on the first of them may go on, by the local clock."""
    words = language()
    label = WAITS[words][reason].format(tasks=tasks)
    if until is None:
        return label
    at, today = until.astimezone(), now.astimezone().date()
    day = {today: "", today + timedelta(days=1): f"{TOMORROW[words]} "}.get(at.date(), f"{at:%Y-%m-%d} ")
    return label + SINCE[words].format(when=f"{day}{at:%H:%M}")
