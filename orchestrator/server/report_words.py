"""The languages of night reports: English in report_texts.py, others here, keyed by the English text.

What agents, tickets and the daemon say in a report, such as reasons and notes, is shown as it is.
"""

from collections.abc import Mapping

ENGLISH = "en"
KOREAN: Mapping[str, str] = {
    "%(count)s %(kind)s": "%(kind)s %(count)s번",
    "%(count)s blocked": "막힘 %(count)s개",
    "%(count)s came under review": "리뷰 시작 %(count)s개",
    "%(count)s cancelled": "취소 %(count)s개",
    "%(count)s completed": "완료 %(count)s개",
    "%(count)s failed": "실패 %(count)s개",
    "%(count)s more: %(usd)s": "그 밖 %(count)s개: %(usd)s",
    "%(count)s submitted": "등록 %(count)s개",
    "%(count)s times": "%(count)s번",
    "%(count)s wait for you": "확인할 일 %(count)s건",
    "%(count)s wait for you.": "확인할 일이 %(count)s건 있습니다.",
    "%(free)s of %(total)s free; agents are frozen below %(floor)s": (
        "%(total)s 중 %(free)s 비어 있음. %(floor)s보다 적으면 에이전트를 멈춤"
    ),
    "%(kind)s, %(task)s (%(title)s), since %(since)s": "%(kind)s, %(task)s (%(title)s), %(since)s부터",
    "%(running)s tasks at work, %(queued)s wait to begin": "작업 중 %(running)s개, 시작 대기 %(queued)s개",
    "%(task)s (%(title)s) waited for %(reasons)s": "%(task)s (%(title)s), 기다린 것: %(reasons)s",
    "%(task)s, %(status)s in %(stage)s": "%(task)s, %(stage)s에서 %(status)s",
    "%(text)s, until %(at)s": "%(text)s, %(at)s까지",
    "%(usd)s, %(tokens)s tokens, %(turns)s turns, %(hours)s h": (
        "%(usd)s, 토큰 %(tokens)s개, 턴 %(turns)s개, %(hours)s시간"
    ),
    "%(what)s: %(hours)s h": "%(what)s %(hours)s시간",
    "FAIL": "실패",
    "Failed, blocked or cancelled": "실패, 막힘, 취소",
    "Finished": "끝난 작업",
    "Limits met": "만난 한도",
    "No task changed its status.": "상태가 바뀐 작업이 없습니다.",
    "Notes": "참고",
    "Nothing waits for you.": "확인할 일이 없습니다.",
    "PASS": "통과",
    "Report of %(since)s to %(until)s": "%(since)s부터 %(until)s까지의 보고서",
    "SKIPPED": "건너뜀",
    "Spent: %(spent)s.": "쓴 양: %(spent)s.",
    "Stood still": "멈춰 있던 시간",
    "Tasks: %(counts)s.": "작업: %(counts)s.",
    "The machine now": "지금 이 기계",
    "Time and money": "시간과 비용",
    "Unusual": "특이한 일",
    "WARN": "경고",
    "Waits for you": "확인할 일",
    "a budget": "예산",
    "a dependency": "의존성",
    "a free slot": "빈 자리",
    "a person who looks at it": "확인할 사람",
    "a person who paused it": "멈춘 사람",
    "a review": "리뷰",
    "a usage limit": "사용 한도",
    "an answer": "답변",
    "blocked": "막힘",
    "branch %(branch)s in %(repo)s": "%(repo)s의 브랜치 %(branch)s",
    "by model": "모델별",
    "by pipeline": "파이프라인별",
    "by repository": "저장소별",
    "by role": "역할별",
    "by task": "작업별",
    "cancelled": "취소됨",
    "checks: %(checks)s": "검사: %(checks)s",
    "command": "명령 실패",
    "denied": "권한 거부",
    "dependency": "의존성",
    "failed": "실패",
    "failure": "실패",
    "failures: %(count)s": "실패 횟수: %(count)s",
    "foreign edit": "외부 수정",
    "free resources": "남는 자원",
    "freeze": "동결",
    "housekeeping freed %(freed)s in %(count)s removals": "정리 작업이 %(count)s개를 지워 %(freed)s를 비움",
    "in all: %(counts)s": "합계: %(counts)s",
    "its children": "하위 작업",
    "its run window": "실행 시간대",
    "kill": "강제 종료",
    "limit": "한도",
    "lost": "유실",
    "merged": "병합됨",
    "next: %(what)s": "다음: %(what)s",
    "no check ran: nothing shows that this change works": (
        "검사가 하나도 실행되지 않았습니다. 이 변경이 동작한다는 근거가 없습니다"
    ),
    "nothing waits for you": "확인할 일 없음",
    "pull request %(url)s": "풀 리퀘스트 %(url)s",
    "question": "질문",
    "reason: %(reason)s": "이유: %(reason)s",
    "recurring: %(what)s (%(count)s times)": "반복: %(what)s (%(count)s번)",
    "report %(path)s": "보고서 %(path)s",
    "retry": "재시도",
    "review": "리뷰",
    "service": "서비스",
    "stall": "멈춤",
    "still": "계속됨",
    "tag %(name)s": "태그 %(name)s",
    "the channel %(name)s does not work %(why)s": "알림 채널 %(name)s이(가) 작동하지 않음: %(why)s",
    "the daemon was started at %(at)s": "데몬이 %(at)s에 시작됨",
    "the model's service": "모델 서비스",
    "the usage window %(name)s is used up until %(at)s": "사용 한도 %(name)s 소진, %(at)s까지",
    "the usage window %(name)s is used up": "사용 한도 %(name)s 소진",
    "unfreezable": "멈출 수 없음",
    "unreadable": "읽을 수 없음",
}
WORDS: Mapping[str, Mapping[str, str]] = {ENGLISH: {}, "ko": KOREAN}


def say(language: str, text: str, /, **values: object) -> str:
    """Return a text of the report in a language, with its values; in English where the language has none."""
    return WORDS[language].get(text, text) % values
