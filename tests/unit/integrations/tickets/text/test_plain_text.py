"""Tickets submitted as texts, with and without front matter."""

import pytest

from orchestrator.core.task.task import Priority
from orchestrator.core.task.ticket import TicketType
from orchestrator.formats.table import DefinitionError
from orchestrator.integrations.errors import NoTicket
from orchestrator.integrations.tickets.text.plain_text import from_text
from orchestrator.integrations.tickets.text.ticket import Requirement

WHOLE = """---
key: ABC-7
title: Stay logged in
type: bugfix
priority: high
labels: [auth, "web"]
---
## 요약
Text
"""


def test_front_matter_sets_the_fields_of_the_ticket() -> None:
    assert from_text(WHOLE) == Requirement(
        key="ABC-7",
        title="Stay logged in",
        text="## 요약\nText",
        type=TicketType.BUGFIX,
        priority=Priority.HIGH,
        labels=("auth", "web"),
    )


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("# Fix the login", TicketType.BUGFIX),
        ("Something\n\n## Type: release", TicketType.RELEASE),
        ("---\nlabels: [bug]\n---\nAdd it", TicketType.BUGFIX),
        ("---\ntitle: Code review of it\n---\nAdd it", TicketType.CODE_REVIEW),
        ("Something", None),
    ],
)
def test_without_a_type_the_text_may_determine_it(text: str, kind: TicketType | None) -> None:
    assert from_text(text).type is kind


@pytest.mark.parametrize(
    "text", ["---\n\nA rule above a text", "---\nnote: never closed", "- - -\na: b", "--- a\nb: c\n---"]
)
def test_a_line_of_dashes_alone_is_not_front_matter(text: str) -> None:
    assert from_text(text).text == text


@pytest.mark.parametrize(
    ("front", "problems"),
    [
        ("tpye: bugfix", ["it:2: unknown key 'tpye'; did you mean 'type'?"]),
        (
            "title: x\ntype: bug\npriority: hihg\nkey: abc",
            [
                "it:3: type cannot be 'bug'; did you mean 'bugfix'?",
                "it:4: priority cannot be 'hihg'; did you mean 'high'?",
                "it:5: 'abc' is no ticket key; write it like ABC-123, or leave it out",
            ],
        ),
        ("key: [ABC-7]", ["it:2: key = ['ABC-7'] must be text in quotes"]),
        ("labels: one", ["it:2: labels = 'one' must be a list of texts"]),
        ("title: &a x", ["it:2: anchors"]),
        ("title: [", ["it:2: this is not YAML"]),
        ("title: x\nlabels: " + "[" * 2000 + "]" * 2000, ["it:3: the front matter is nested too deeply"]),
        ("title: " + "x" * 9000, ["it:1: the front matter is longer than 8 KiB"]),
        ("<<: {title: x}", ["it:2: unknown key '<<'"]),
        ("<<: *other", ["it:2: anchors"]),
    ],
)
def test_invalid_front_matter_is_refused_line_by_line(front: str, problems: list[str]) -> None:
    with pytest.raises(DefinitionError) as refused:
        from_text(f"---\n{front}\n---\ntext", "it")
    said = [str(problem) for problem in refused.value.problems]
    assert len(said) == len(problems)
    assert all(one.startswith(problem) for one, problem in zip(said, problems, strict=True))


def test_front_matter_without_a_text_is_not_a_ticket() -> None:
    with pytest.raises(NoTicket, match="it, below its front matter, is empty"):
        from_text("---\ntitle: x\n---\n", "it")
