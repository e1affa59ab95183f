"""What notices say in the languages of people: names of kinds, statuses, and the daemon's own sentences.

What agents and tickets say is told as it is, and so is why something failed.
"""

from collections.abc import Mapping

from orchestrator.core.notices.sentence import Sentence

WORDS: dict[str, dict[str, str]] = {
    "en": {
        "review_asked": "Review wanted",
        "question_asked": "Question",
        "dependency_asked": "Something to provide",
        "limit_reached": "Usage limit reached",
        "login_missing": "Login missing",
        "installation_broken": "Installation broken",
        "blocked": "Blocked",
        "failed": "Failed",
        "completed": "Completed",
        "reminder": "Reminder",
        "escalation": "Unanswered",
        "channel_failed": "A channel does not work",
        "channel_recovered": "A channel works again",
        "disk_low": "The disk runs low",
        "disk_recovered": "The disk has room again",
        "service": "The service",
        "digest": "notices",
        "schedule": "A scheduled task was not submitted",
        "morning_report": "Morning report",
        "test": "Test",
        "task": "Task",
        "stage": "Stage",
        "run": "Run",
    },
    "ko": {
        "review_asked": "리뷰 요청",
        "question_asked": "질문",
        "dependency_asked": "제공 요청",
        "limit_reached": "사용 한도 도달",
        "login_missing": "로그인 필요",
        "installation_broken": "설치 오류",
        "blocked": "중단됨",
        "failed": "실패",
        "completed": "완료",
        "reminder": "알림",
        "escalation": "미응답",
        "channel_failed": "알림 채널 오류",
        "channel_recovered": "알림 채널 복구",
        "disk_low": "디스크 부족",
        "disk_recovered": "디스크 여유 회복",
        "service": "서비스",
        "digest": "건의 알림",
        "schedule": "예약 작업이 제출되지 않음",
        "morning_report": "아침 보고서",
        "test": "시험",
        "task": "작업",
        "stage": "단계",
        "run": "실행",
    },
}
"""What notices are called in mails and messages, by language; programs get the kinds themselves."""

STATUSES: Mapping[str, Mapping[str, str]] = {
    "en": {},
    "ko": {
        "draft": "초안",
        "pending": "대기 중",
        "in_progress": "진행 중",
        "review": "리뷰 대기",
        "completed": "완료",
        "failed": "실패",
        "blocked": "중단됨",
        "cancelled": "취소됨",
        "archived": "보관됨",
    },
}
"""Statuses of tasks; a language without one has its value."""
SENTENCES: Mapping[str, Mapping[str, str]] = {
    "en": {},
    "ko": {
        "Nobody has answered for %(minutes)s minutes.\n%(about)s": (
            "%(minutes)s분 동안 아무도 답하지 않았습니다.\n%(about)s"
        ),
        "The channel %(channel)r does not work since %(since)s: %(reason)s. What it was to tell waits in the outbox.": (
            "알림 채널 %(channel)r이(가) %(since)s부터 작동하지 않습니다: %(reason)s. 보낼 것은 보관함에서 기다립니다."
        ),
        "The channel %(channel)r works again. It had failed since %(since)s.": (
            "알림 채널 %(channel)r이(가) 다시 작동합니다. %(since)s부터 실패하고 있었습니다."
        ),
        "The backup to %(folder)s failed: %(reason)s": "%(folder)s에 하는 백업이 실패했습니다: %(reason)s",
        "The daily backup to %(folder)s failed: %(reason)s": "%(folder)s에 매일 하는 백업이 실패했습니다: %(reason)s",
        (
            "The disk of the data folder runs low: %(free)s are free. "
            "Below %(floor)s, the setting free_space_floor, no task goes on."
        ): (
            "데이터 폴더의 디스크가 부족해지고 있습니다: %(free)s 남음. "
            "설정 free_space_floor인 %(floor)s보다 적어지면 어떤 작업도 진행하지 않습니다."
        ),
        (
            "No task goes on: the disk of the data folder has only %(free)s free, and free_space_floor is %(floor)s. "
            "Work continues by itself when more is free."
        ): (
            "모든 작업이 멈춰 있습니다: 데이터 폴더의 디스크가 %(free)s만 남았고 free_space_floor는 %(floor)s입니다. "
            "자리가 더 나면 스스로 이어집니다."
        ),
        "The disk of the data folder has room again: %(free)s are free. It had been low since %(since)s.": (
            "데이터 폴더의 디스크에 다시 여유가 생겼습니다: %(free)s 남음. %(since)s부터 부족했습니다."
        ),
        "This is a test of the channel %(channel)r. If you read it, the channel works.": (
            "알림 채널 %(channel)r의 시험입니다. 이 글이 보이면 채널이 작동합니다."
        ),
        "This report is late: it was due at %(at)s, and nobody could send it.": (
            "늦은 보고서입니다. %(at)s에 보냈어야 하지만 아무도 보낼 수 없었습니다."
        ),
        "schedule %(name)s: 1 run was missed, the last at %(due)s: %(reason)s": (
            "일정 %(name)s: %(due)s 실행을 놓쳤습니다: %(reason)s"
        ),
        "schedule %(name)s: 1 run was refused, the last at %(due)s: %(reason)s": (
            "일정 %(name)s: %(due)s 실행이 거절되었습니다: %(reason)s"
        ),
        "schedule %(name)s: 1 run was failed, the last at %(due)s: %(reason)s": (
            "일정 %(name)s: %(due)s 실행이 실패했습니다: %(reason)s"
        ),
        "schedule %(name)s: %(count)s runs were missed, the last at %(due)s: %(reason)s": (
            "일정 %(name)s: 실행 %(count)s번을 놓쳤습니다. 마지막은 %(due)s: %(reason)s"
        ),
    },
}
"""The daemon's own sentences, by their English; a language without one has the English."""


def say(text: Sentence | str, language: str) -> str:
    """Return a text in a language, as far as it is the daemon's own."""
    if isinstance(text, str):
        return text
    return SENTENCES[language].get(text.english, text.english) % text.values
