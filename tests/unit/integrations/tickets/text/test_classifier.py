"""Types and priorities from the words of trackers and users."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.task.task import Priority
from orchestrator.core.task.ticket import TicketType
from orchestrator.integrations.tickets.text.classifier import priority_of, type_of

BUGFIX, FEATURE, REVIEW, RELEASE = TicketType.BUGFIX, TicketType.FEATURE, TicketType.CODE_REVIEW, TicketType.RELEASE


@pytest.mark.parametrize(
    ("kinds", "labels", "title", "kind"),
    [
        (["Bug"], ["feature"], "Add it", BUGFIX),
        (["New Feature"], ["bug"], "", FEATURE),
        (["Sub-task"], [], "", FEATURE),
        (["버그"], [], "", BUGFIX),
        (["기능 추가"], [], "", FEATURE),
        (["코드 리뷰"], [], "", REVIEW),
        (["릴리스"], [], "", RELEASE),
        (["Widget"], ["kind/bug"], "", BUGFIX),
        ([], ["type: feature"], "", FEATURE),
        ([], ["Type::Bug 🐛"], "", BUGFIX),
        ([], ["유형: 버그"], "", BUGFIX),
        ([], ["enhancement", "bug"], "", BUGFIX),
        ([], ["needs-review", "release-blocker", "not a bug"], "", None),
        ([], [], "fix(auth): stay logged in", BUGFIX),
        ([], [], "[Bug] Login", BUGFIX),
        ([], [], "It crashes on start", BUGFIX),
        ([], [], "로그인 오류", BUGFIX),
        ([], [], "Code review of the parser", REVIEW),
        ([], [], "파서 코드 리뷰", REVIEW),
        ([], [], "Release v1.2.0", RELEASE),
        ([], [], "1.2.0 릴리즈", RELEASE),
        ([], [], "Add a --json flag", FEATURE),
        ([], [], "로그인 기능 추가", FEATURE),
        ([], [], "Prefix the release notes of reviewers", None),
        ([], [], "", None),
    ],
)
def test_the_trackers_type_takes_precedence_over_labels_and_labels_over_the_title(
    kinds: list[str], labels: list[str], title: str, kind: TicketType | None
) -> None:
    assert type_of(kinds, labels, title) is kind


@pytest.mark.parametrize(
    ("words", "priority"),
    [
        (["Highest"], Priority.CRITICAL),
        (["priority: high", "p3"], Priority.HIGH),
        (["Medium"], Priority.NORMAL),
        (["Trivial"], Priority.LOW),
        (["긴급"], Priority.CRITICAL),
        (["매우 낮음"], Priority.LOW),
        (["highlight", ""], None),
    ],
)
def test_the_most_urgent_word_counts(words: list[str], priority: Priority | None) -> None:
    assert priority_of(words) is priority


@given(st.lists(st.text()), st.lists(st.text()), st.text())
def test_any_words_can_be_classified(kinds: list[str], labels: list[str], title: str) -> None:
    assert type_of(kinds, labels, title) in {None, *TicketType}
    assert priority_of(labels) in {None, *Priority}
