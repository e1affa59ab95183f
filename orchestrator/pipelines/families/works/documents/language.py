"""Headings, labels and short words of a work's files in the languages that works are written in.

Ids, file names, statuses and modes are the same in every language: programs read them.
"""

import re
import unicodedata
from enum import StrEnum

_HANGUL = re.compile("[\uac00-\ud7a3]")
_KANA = re.compile("[\u3040-\u30ff]")
_LETTER = re.compile(r"[^\W\d_]")
_PARENTHESES = re.compile(r"\(([^()]*)\)")
_NUMBER = re.compile(r"\d{1,2}[.)]\s+")
_BLANKS = re.compile(r"[\s_-]+")
_NAMES = {
    "en": "en", "eng": "en", "english": "en", "영어": "en", "英語": "en",
    "ko": "ko", "kor": "ko", "kr": "ko", "korean": "ko", "한국어": "ko", "한글": "ko", "韓国語": "ko",
    "ja": "ja", "jpn": "ja", "jp": "ja", "japanese": "ja", "일본어": "ja", "日本語": "ja",
}  # fmt: skip


class Language(StrEnum):
    """A language that a work's files are written in."""

    EN = "en"
    KO = "ko"
    JA = "ja"


class Heading(StrEnum):
    """A section of a file, by its English heading."""

    ORIGINAL_REQUEST = "Original Request"
    FUNCTIONAL = "Functional Requirements"
    NON_FUNCTIONAL = "Non-Functional Requirements"
    CRITERIA = "Acceptance Criteria"
    GOAL = "Goal"
    GRAPH = "Task Dependency Graph"
    TASKS = "Tasks"
    WORK = "WORK"
    DEPENDENCIES = "Dependencies"
    SCOPE = "Scope"
    FILES = "Files"
    VERIFY = "Verify"
    SUMMARY = "Summary"
    CHECKLIST = "Completed Checklist"
    VERIFICATION = "Verification Results"
    FILES_CHANGED = "Files Changed"
    ISSUES = "Issues Encountered"
    NOTES = "Notes for Subsequent Tasks"
    HANDOFF = "Context Handoff"
    LOG = "Log"


class Label(StrEnum):
    """A field of a file, by its English name."""

    CREATED = "Created"
    REQUIREMENT = "Requirement"
    MODE = "Execution-Mode"
    PROJECT = "Project"
    TECH_STACK = "Tech Stack"
    LANGUAGE = "Language"
    STATUS = "Status"
    WORK = "WORK"
    COMPLETED = "Completed"
    UPDATED = "Updated"
    LAST_UPDATED = "Last updated"
    STARTED = "Started"
    MODE_OF_APPROVAL = "Mode"
    DEPENDS_ON = "Depends on"
    SCOPE = "Scope"
    FILES = "Files"
    FILES_CHANGED = "Files changed"


_HEADINGS: dict[Heading, tuple[tuple[str, ...], tuple[str, ...]]] = {
    Heading.ORIGINAL_REQUEST: (("원본 요청", "원래 요청", "사용자 요청"), ("元のリクエスト", "元の依頼")),
    Heading.FUNCTIONAL: (("기능 요구사항", "기능 요구 사항"), ("機能要件",)),
    Heading.NON_FUNCTIONAL: (("비기능 요구사항", "비기능 요구 사항"), ("非機能要件",)),
    Heading.CRITERIA: (("수용 기준", "인수 기준", "인수 조건", "완료 조건", "승인 기준"), ("受け入れ基準", "受入基準")),
    Heading.GOAL: (("목표",), ("目標", "ゴール")),
    Heading.GRAPH: (
        ("TASK 의존성 그래프", "태스크 의존성 그래프", "의존성 그래프"),
        ("タスク依存関係グラフ", "依存グラフ"),
    ),
    Heading.TASKS: (("TASK 목록", "태스크", "태스크 목록", "작업 목록"), ("タスク", "タスク一覧")),
    Heading.WORK: (("WORK", "작업"), ("WORK", "ワーク")),
    Heading.DEPENDENCIES: (("의존성", "종속성", "선행 TASK"), ("依存関係", "依存")),
    Heading.SCOPE: (("범위", "작업 범위"), ("スコープ", "範囲")),
    Heading.FILES: (("파일", "대상 파일"), ("ファイル", "対象ファイル")),
    Heading.VERIFY: (("검증", "검증 방법"), ("検証", "検証方法")),
    Heading.SUMMARY: (("요약",), ("サマリー", "概要")),
    Heading.CHECKLIST: (("완료 체크리스트",), ("完了チェックリスト",)),
    Heading.VERIFICATION: (("검증 결과",), ("検証結果",)),
    Heading.FILES_CHANGED: (("변경 파일", "변경된 파일"), ("変更ファイル", "変更されたファイル")),
    Heading.ISSUES: (("발생 이슈",), ("発生した問題", "発生イシュー")),
    Heading.NOTES: (("후속 TASK 참고사항", "후속 TASK 참고 사항"), ("後続タスクへの注意事項", "後続TASKへの注意事項")),
    Heading.HANDOFF: (("컨텍스트 핸드오프",), ("コンテキストハンドオフ", "コンテキスト引き継ぎ")),
    Heading.LOG: (("로그",), ("ログ",)),
}
_EXTRA_HEADINGS = {
    Heading.VERIFICATION: ("Verification",),
    Heading.CHECKLIST: ("Checklist",),
    Heading.GRAPH: ("Dependency Graph",),
    Heading.ISSUES: ("Issues",),
}
_LABELS: dict[Label, tuple[str, ...]] = {
    Label.CREATED: ("생성일", "작성일", "作成日"),
    Label.REQUIREMENT: ("요구사항", "요구 사항", "要件"),
    Label.MODE: ("실행 모드", "実行モード"),
    Label.PROJECT: ("프로젝트", "プロジェクト"),
    Label.TECH_STACK: ("기술 스택", "技術スタック"),
    Label.LANGUAGE: ("언어", "言語"),
    Label.STATUS: ("상태", "状態", "ステータス"),
    Label.WORK: (),
    Label.COMPLETED: ("완료", "완료일", "完了", "完了日"),
    Label.UPDATED: ("갱신", "업데이트", "更新"),
    Label.LAST_UPDATED: ("마지막 갱신", "마지막 업데이트", "最終更新"),
    Label.STARTED: ("시작", "開始"),
    Label.MODE_OF_APPROVAL: ("모드", "モード"),
    Label.DEPENDS_ON: ("Depends", "의존성", "의존", "依存", "依存関係"),
    Label.SCOPE: ("범위", "スコープ", "範囲"),
    Label.FILES: ("파일", "ファイル"),
    Label.FILES_CHANGED: ("변경 파일", "변경된 파일", "変更ファイル"),
}
_NONE = frozenset(
    ("", "-", "—", "–", "none", "n/a", "na", "nil", "없음", "해당 없음", "해당없음", "なし", "無し", "特になし")
)


def plain(text: str) -> str:
    """Return a heading or label as it is compared: without marks, case, and different kinds of blanks and dashes."""
    bare = unicodedata.normalize("NFKC", text[:200]).strip().strip("*_`#:").strip()
    return _BLANKS.sub(" ", _NUMBER.sub("", bare, count=1) if bare[:1].isdigit() else bare).strip().casefold()


_BY_HEADING = {
    plain(word): heading
    for heading, (korean, japanese) in _HEADINGS.items()
    for word in (heading.value, *korean, *japanese, *_EXTRA_HEADINGS.get(heading, ()))
}
_BY_LABEL: dict[Label, frozenset[str]] = {
    label: frozenset(map(plain, (label.value, *others))) for label, others in _LABELS.items()
}


def heading_of(text: str) -> Heading | None:
    """Return which section a heading begins, None for an unknown one; a translation may follow in parentheses."""
    inside = _PARENTHESES.findall(text[:200])
    for word in (text, _PARENTHESES.sub("", text[:200]), *inside):
        if found := _BY_HEADING.get(plain(word)):
            return found
    return None


def is_label(text: str, label: Label) -> bool:
    """Return whether a text is the name of a field, in any of the languages."""
    return plain(text) in _BY_LABEL[label]


def is_none(text: str) -> bool:
    """Return whether a text says that there is nothing, in any of the languages."""
    return plain(text).rstrip(".。") in _NONE


def title_of(heading: Heading, language: Language) -> str:
    """Return a heading in a language."""
    korean, japanese = _HEADINGS[heading]
    match language:
        case Language.EN:
            return heading.value
        case Language.KO:
            return korean[0]
        case Language.JA:
            return japanese[0]


def nothing_in(language: Language) -> str:
    """Return how a file says that there is nothing."""
    return {Language.EN: "None", Language.KO: "없음", Language.JA: "なし"}[language]


def language_named(text: str) -> Language | None:
    """Return the language that a field names by code or by name; None if it is not known."""
    words = _PARENTHESES.sub(" ", text[:100]).casefold().replace("_", "-").split()
    code = words[0].split("-")[0] if words else ""
    return Language(_NAMES[code]) if code in _NAMES else None


def language_of(text: str) -> Language:
    """Return the language that a text is probably written in, by its letters."""
    sample = text[:20_000]
    letters = len(_LETTER.findall(sample)) or 1
    if len(_KANA.findall(sample)) * 10 >= letters:
        return Language.JA
    return Language.KO if len(_HANGUL.findall(sample)) * 5 >= letters else Language.EN
