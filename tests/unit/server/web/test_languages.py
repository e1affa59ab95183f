"""The languages of the pages."""

import pytest

from orchestrator.core.task.agent import PauseReason
from orchestrator.core.task.task import TaskStatus
from orchestrator.core.task.user_requests import RequestKind, Subject
from orchestrator.server.web.languages import ENGLISH, TEXTS
from orchestrator.server.web.templates import environment

OTHERS = sorted(set(TEXTS) - {ENGLISH})


def texts_of_templates() -> set[str]:
    made = environment(ENGLISH)
    loader = made.loader
    assert loader is not None
    found: set[str] = set()
    for name in made.list_templates():
        source, _, _ = loader.get_source(made, name)
        for _, _, text in made.extract_translations(source):  # type: ignore[attr-defined]  # an extension adds it
            found.update(part for part in ([text] if isinstance(text, str) else text) if part)
    return found


@pytest.mark.parametrize("language", OTHERS)
def test_every_text_of_a_template_is_translated_and_no_translation_is_unused(language: str) -> None:
    wanted, known = texts_of_templates(), set(TEXTS[language]["text"])
    assert sorted(wanted - known) == []
    assert sorted(known - wanted) == []


@pytest.mark.parametrize("language", OTHERS)
def test_a_translation_has_the_placeholders_of_its_text(language: str) -> None:
    for text, translated in TEXTS[language]["text"].items():
        assert text.count("%(") == translated.count("%("), text


@pytest.mark.parametrize("language", OTHERS)
def test_every_status_and_kind_of_request_has_a_name(language: str) -> None:
    names = {str(one).replace("_", " ") for kind in (TaskStatus, RequestKind, Subject, PauseReason) for one in kind}
    assert sorted(names - set(TEXTS[language]["words"])) == []
