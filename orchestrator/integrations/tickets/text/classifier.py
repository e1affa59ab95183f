"""The type and the priority of a ticket, from the words that trackers and people use for them.

What speaks first is believed: the type that the tracker gives the ticket, then its labels, then its title. A label
counts only if it is such a word as a whole ("bug", "kind/bug", "type: bug"), because "needs review" or "release
blocker" say nothing of the work. Nothing that is known means None: the caller decides what that is taken for.
"""

import re
from collections.abc import Mapping, Sequence

from orchestrator.core.task.task import Priority
from orchestrator.core.task.ticket import TicketType

_TYPES: Mapping[TicketType, str] = {
    TicketType.BUGFIX: (
        "bug|bugfix|bug-fix|hotfix|fix|defect|fault|regression|incident|problem|crash"
        "|버그|버그수정|버그-수정|결함|오류|장애|수정"
    ),
    TicketType.CODE_REVIEW: "code-review|review|audit|코드리뷰|코드-리뷰|리뷰|코드검토|코드-검토",
    TicketType.RELEASE: "release|version-release|릴리스|릴리즈|배포|출시",
    TicketType.FEATURE: (
        "feature|new-feature|feature-request|story|user-story|enhancement|improvement|task|sub-task|subtask|epic|chore"
        "|기능|신규기능|신규-기능|새-기능|기능추가|기능-추가|개선|작업|하위-작업|스토리|에픽"
    ),
}
_PRIORITIES: Mapping[Priority, str] = {
    Priority.CRITICAL: "critical|blocker|highest|urgent|p0|긴급|최상|매우-높음",
    Priority.HIGH: "high|major|important|p1|높음|중요",
    Priority.NORMAL: "normal|medium|p2|보통|중간",
    Priority.LOW: "low|lowest|minor|trivial|p3|p4|낮음|매우-낮음|사소함",
}
_TYPE_OF = {word: kind for kind, words in _TYPES.items() for word in words.split("|")}
_PRIORITY_OF = {word: priority for priority, words in _PRIORITIES.items() for word in words.split("|")}
_TITLES: tuple[tuple[TicketType, re.Pattern[str]], ...] = (
    (TicketType.BUGFIX, re.compile(r"^\W*(bug|hotfix|bugfix|fix)\b|\b(crash(es)?|regression)\b|버그|오류|결함|고장")),
    (TicketType.CODE_REVIEW, re.compile(r"^\W*(code )?review\b|\bcode review\b|코드 ?(리뷰|검토)")),
    (TicketType.RELEASE, re.compile(r"^\W*(release|릴리[스즈]|배포)\W+v?\d|v?\d\S* (release|릴리[스즈]|배포)\W*$")),
    (TicketType.FEATURE, re.compile(r"^\W*(feat|feature|add|implement|support)\b|추가|구현")),
)
_PREFIX = re.compile(r"^(type|kind|category|priority|prio|severity|유형|종류|타입|우선순위|심각도)\s*[:/=-]+\s*")
_LONGEST_WORD, _LONGEST_TITLE = 60, 500


def type_of(kinds: Sequence[str] = (), labels: Sequence[str] = (), title: str = "") -> TicketType | None:
    """Return the type by the tracker's own types, then labels, then the title; None if none of them names one."""
    for words in (kinds, labels):
        found = {_TYPE_OF.get(_plain(word)) for word in words}
        if first := next((kind for kind in _TYPES if kind in found), None):
            return first
    start = title[:_LONGEST_TITLE].casefold()
    return next((kind for kind, pattern in _TITLES if pattern.search(start)), None)


def priority_of(words: Sequence[str]) -> Priority | None:
    """Return the highest priority among the words; None if none of them is one."""
    found = {_PRIORITY_OF.get(_plain(word)) for word in words}
    return next((priority for priority in _PRIORITIES if priority in found), None)


def _plain(word: str) -> str:
    """Return a word or label as in the tables: lower case, without a prefix, joined by dashes."""
    letters = "".join(c if c.isalnum() or c in ":/=-_ " else " " for c in word[:_LONGEST_WORD].casefold())
    return "-".join(_PREFIX.sub("", letters.strip()).replace("_", " ").replace("-", " ").split())
