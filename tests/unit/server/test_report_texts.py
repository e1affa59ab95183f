"""Night reports in the languages of people: nothing of ours stays English, and no foreign word is changed."""

import ast
import re
from collections.abc import Iterator
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.task.checks import Verdict
from orchestrator.core.task.user_requests import RequestKind
from orchestrator.daemon.reporting.history import IncidentKind
from orchestrator.server import report_texts
from orchestrator.server.report_texts import CAME_TO_BE, SHARES, WAITED_FOR, ReportFormat, as_text, headline
from orchestrator.server.report_words import KOREAN, WORDS
from orchestrator.server.schemas.base import to_view
from orchestrator.server.schemas.oversight.reports import ReportView

HOSTILE = "<script>x</script> %(count)s %s **bold** [a](http://evil.example)"
Json = dict[str, Any]
OURS = re.compile(r"[A-Za-z]{3,}")


def said_in_report() -> Iterator[str]:
    """Yield every text that the writer says, and the names of all kinds that it may show."""
    tree = ast.parse(Path(report_texts.__file__).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        name = getattr(node.func, "attr", getattr(node.func, "id", "")) if isinstance(node, ast.Call) else ""
        if isinstance(node, ast.Call) and name in {"say", "said"}:
            yield from (one.value for one in node.args if isinstance(one, ast.Constant) and isinstance(one.value, str))
    yield from CAME_TO_BE.values()
    yield from SHARES.values()
    yield from WAITED_FOR.values()
    for kinds in (IncidentKind, Verdict, RequestKind):
        yield from (str(kind).replace("_", " ") for kind in kinds)
    yield from ("failed", "blocked", "cancelled", "unreadable")


def test_every_text_of_a_report_is_translated_and_no_translation_is_unused() -> None:
    wanted = set(said_in_report())
    assert sorted(wanted - KOREAN.keys()) == []
    assert sorted(KOREAN.keys() - wanted) == []


def test_a_translation_has_the_values_of_its_text() -> None:
    for text, translated in KOREAN.items():
        assert sorted(re.findall(r"%\(\w+\)s", text)) == sorted(re.findall(r"%\(\w+\)s", translated)), text


AT = "2026-11-22T03:12:00Z"
SPENT: Json = {"usd": 3.2, "tokens": 64000, "turns": 5, "hours": 0.6}
TASK: Json = {
    **dict.fromkeys(("title", "ticket", "reason", "next"), "x"),
    "id": "T-1",
    "status": "completed",
    "at": AT,
    "stage": "DESIGN",
    "repo": "/r",
    "pipeline": "full",
    "branch": "b",
    "commit": "c",
    "pullRequest": "1",
    "isMerged": True,
    "tag": "v1",
    "report": "/r/summary.md",
    "checks": [{"name": "x", "verdict": "PASS"}],
    "isUnchecked": True,
    "failures": 2,
    "patterns": [{"pattern": "x", "occurrences": 3}],
    "spent": SPENT,
}
INCIDENT: Json = {"task": "T-1", "at": AT, "seq": 3, "kind": "limit", "stage": "DESIGN", "text": "x", "window": "x"}
REPORT: Json = {
    "since": "2026-11-21T08:00:00Z",
    "until": "2026-11-22T08:00:00Z",
    "madeAt": AT,
    "spent": SPENT,
    "counts": dict.fromkeys(("completed", "failed", "blocked", "cancelled", "review", "pending"), 2),
    "finished": [TASK],
    "problems": [{**TASK, "status": "blocked"}],
    "waiting": [{"task": "T-1", "title": "x", "kind": "question", "text": "x", "command": "x", "since": AT}],
    "shares": {kind: [{"name": "x", "spent": SPENT}] * 12 for kind in SHARES},
    "limitsMet": [{**INCIDENT, "until": AT}],
    "stops": [
        {"task": "T-1", "title": "x", "reason": reason, "times": times, "seconds": 60, "since": AT, "isOver": times > 1}
        for times, reason in enumerate(WAITED_FOR, start=1)
    ],
    "incidents": [{**INCIDENT, "kind": kind, "until": None} for kind in IncidentKind],
    "incidentCounts": dict.fromkeys(IncidentKind, 4),
    "machine": {
        "freeBytes": 5,
        "totalBytes": 9,
        "freeSpaceFloor": 1,
        "daemonStartedAt": AT,
        "running": 1,
        "queued": 2,
        "limits": [{"window": "x", "until": AT}, {"window": "x", "until": None}],
        "freedBytes": 7,
        "freedItems": 3,
        "deadChannels": {"desk": "x"},
    },
    "notes": ["x"],
}


def shown() -> ReportView:
    """A report with something everywhere, all of whose foreign words are hostile."""
    return to_view(ReportView, REPORT, lambda text: HOSTILE if text else "")


@pytest.mark.parametrize("wanted", [ReportFormat.TEXT, ReportFormat.MARKDOWN, ReportFormat.HTML])
def test_a_report_differs_between_languages_only_in_our_words(wanted: ReportFormat) -> None:
    english, korean = (as_text(shown(), wanted, UTC, language) for language in WORDS)
    assert len(english.splitlines()) == len(korean.splitlines())
    assert "<script" not in korean or wanted is not ReportFormat.HTML
    for number in set(re.findall(r"\$[\d,.]+", english)):
        assert english.count(number) == korean.count(number)
    for heading in ("확인할 일", "끝난 작업", "실패, 막힘, 취소", "특이한 일", "지금 이 기계", "참고"):
        assert heading in korean
    assert ('<html lang="ko">' in korean) == (wanted is ReportFormat.HTML)


def test_nothing_of_ours_is_english_in_a_korean_report() -> None:
    view = to_view(ReportView, REPORT, lambda text: "한" if text else "")
    left = set(OURS.findall(as_text(view, ReportFormat.TEXT, UTC, "ko")))
    assert left == {"DESIGN", "UTC", "desk", "summary"}, "ids, paths and zones stay"


def test_hostile_words_are_shown_the_same_in_every_language() -> None:
    english, korean = (as_text(shown(), ReportFormat.TEXT, UTC, language) for language in WORDS)
    assert HOSTILE in english
    assert english.count(HOSTILE) == korean.count(HOSTILE)


def test_the_headline_has_no_english_in_korean() -> None:
    assert OURS.search(headline(shown(), "en"))
    assert not OURS.search(headline(shown(), "ko"))
