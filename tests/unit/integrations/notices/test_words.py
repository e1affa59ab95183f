"""What notices say in the languages of people."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import orchestrator
from orchestrator.core.events.notice import NOTICE_KINDS
from orchestrator.core.notices.sentence import Sentence
from orchestrator.core.schedule.recurring import RunResult
from orchestrator.core.task.task import TaskStatus
from orchestrator.integrations.notices.documents import compose
from orchestrator.integrations.notices.words import SENTENCES, STATUSES, WORDS, say

OTHERS = sorted(set(WORDS) - {"en"})
VALUE = re.compile(r"%\(\w+\)[rs]")


def sentences() -> Iterator[str]:
    """Yield the English of every sentence that the program makes of literals."""
    for path in Path(orchestrator.__file__).parent.rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        if "Sentence(" not in source:
            continue
        constants = {
            node.targets[0].id: node.value.value
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
            if isinstance(node.value, ast.Constant)
        }
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Sentence":
                first = node.args[0]
                if isinstance(first, ast.Constant):
                    yield str(first.value)
                elif isinstance(first, ast.Name):
                    yield str(constants[first.id])
    for result in set(RunResult) - {RunResult.SUBMITTED}:
        yield f"schedule %(name)s: 1 run was {result.value}, the last at %(due)s: %(reason)s"
    yield "schedule %(name)s: %(count)s runs were missed, the last at %(due)s: %(reason)s"


@pytest.mark.parametrize("language", OTHERS)
def test_every_sentence_is_translated_with_its_values_and_no_translation_is_unused(language: str) -> None:
    assert set(sentences()) == set(SENTENCES[language])
    for text, translated in SENTENCES[language].items():
        assert sorted(VALUE.findall(text)) == sorted(VALUE.findall(translated)) or "1 run" in text, text


@pytest.mark.parametrize("language", OTHERS)
def test_every_kind_and_status_has_a_name(language: str) -> None:
    assert set(WORDS[language]) == set(WORDS["en"]) >= {kind.value for kind in NOTICE_KINDS}
    assert set(STATUSES[language]) == {status.value for status in TaskStatus}


def test_values_are_never_read_as_a_text_of_ours() -> None:
    hostile = "%(channel)s %d <b>x</b>"
    text = Sentence("The daily backup to %(folder)s failed: %(reason)s", {"folder": "/b", "reason": hostile})
    assert str(text) == say(text, "en") == f"The daily backup to /b failed: {hostile}"
    assert say(text, "ko") == f"/b에 매일 하는 백업이 실패했습니다: {hostile}"
    assert say(hostile, "ko") == hostile


def test_a_notice_is_korean_but_for_what_the_agent_says() -> None:
    document = {"event": "question_asked", "task_id": "T-1", "title": "Add", "stage": "DESIGN", "status": "in_progress"}
    composed = compose({**document, "text": "Which colour?", "what_to_do": "orchestrator answer T-1"}, "ko")
    assert composed.subject == "[orchestrator] 질문: T-1 Add"
    assert composed.text == "Which colour?\n\n작업: T-1 Add\n단계: DESIGN (진행 중)\n실행: orchestrator answer T-1\n"
