"""Ticket templates: the sections under their headings, and missing sections."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.task.ticket import TicketType
from orchestrator.integrations.tickets.text.template import (
    Boxes,
    Items,
    Pairs,
    Prose,
    Section,
    Value,
    Variant,
    document,
    parse_template,
)

WIDE = "\uff1a"
"""The full-width colon of Korean keyboards."""
KOREAN = f"""# 로그인 오류

## 작업 유형: 버그 수정

## 요약 (Summary)
로그인이 안 된다

### 재현 방법
1. 연다
2. 누른다
   계속

**기대 결과{WIDE}** 들어간다
**실제 결과**: 멈춘다

## 범위
- 모듈: `auth`, web
- **예상 파일**:
  - a.py
  - b.py

## ✅ 인수 조건
- [ ] 들어간다
- [x] 시험이 있다
  - [ ] 안쪽

## 기타
남는다
"""

ENGLISH = """**Work Type:** feature

h2. Background
People script against it.

h3. Why now
They asked.

{code:sh}
h2. Scope
# Not a heading either
{code}

h2. Scope
* Affected modules: cli
* Depth: deep

h1. Comments
h2. Notes
> ## Summary
> quoted
"""


def fields(text: str) -> dict[Section, Value]:
    return dict(parse_template(text).fields)


def test_a_korean_ticket_is_parsed_completely() -> None:
    parsed = parse_template(KOREAN)
    assert (parsed.type, parsed.variant, parsed.missing, parsed.warnings) == (TicketType.BUGFIX, Variant.FULL, (), ())
    assert parsed.fields == {
        Section.SUMMARY: Prose("로그인이 안 된다"),
        Section.STEPS_TO_REPRODUCE: Items(("연다", "누른다 계속")),
        Section.EXPECTED: Prose("들어간다"),
        Section.ACTUAL: Prose("멈춘다"),
        Section.SCOPE: Pairs((("modules", ("auth", "web")), ("expected_files", ("a.py", "b.py")))),
        Section.ACCEPTANCE_CRITERIA: Boxes((("들어간다", False), ("시험이 있다", True), ("안쪽", False))),
    }


def test_an_english_ticket_in_jira_markup_is_parsed_completely() -> None:
    parsed = parse_template(ENGLISH)
    assert parsed.type is TicketType.FEATURE
    assert parsed.missing == ("summary",)
    background = parsed.fields[Section.BACKGROUND]
    assert isinstance(background, Prose)
    assert background.text.startswith("People script against it.\n\nh3. Why now\nThey asked.")
    assert background.text.endswith("# Not a heading either\n{code}")
    assert parsed.fields[Section.SCOPE] == Pairs((("modules", ("cli",)), ("Depth", ("deep",))))
    assert parsed.fields.keys() == {Section.BACKGROUND, Section.SCOPE}


@pytest.mark.parametrize(
    ("heading", "section"),
    [
        ("## Acceptance Criteria", Section.ACCEPTANCE_CRITERIA),
        ("# 3. steps-to-reproduce:", Section.STEPS_TO_REPRODUCE),
        ("###### EXPECTED_BEHAVIOUR ##", Section.EXPECTED),
        ("## 배경 / Background", Section.BACKGROUND),
        ("## Hintergrund (Background)", Section.BACKGROUND),
        ("## 목표", Section.GOAL),
        ("h4. 참고 자료", Section.REFERENCES),
        ("**Severity**", Section.SEVERITY),
        ("**리뷰 대상:**", Section.REVIEW_TARGET),
        ("## 🔍 리뷰 기준", Section.REVIEW_CRITERIA),
        ("## TL;DR", Section.SUMMARY),
        ("## 체크리스트", Section.CHECKLIST),
        ("## 재현방법", Section.STEPS_TO_REPRODUCE),
        ("## 요구 사항", Section.REQUIREMENTS),
    ],
)
def test_a_heading_is_recognised_in_any_decoration(heading: str, section: Section) -> None:
    assert fields(f"{heading}\n\ntext\n") == {section: Prose("text")}


@pytest.mark.parametrize(
    "text",
    [
        "Background\ntext",
        "#Background\ntext",
        "    ## Background\ntext",
        "```\n## Background\ntext\n```",
        "> ## Background\n> text",
        "**Background** is what this is about",
        "## Background noise\ntext",
        "## Background",
        "## Background\n\n_No response_\n",
        "## Background\n\n## Other\ntext",
        "x" * 500 + "\n## " + "Background " * 100,
    ],
)
def test_no_section_is_invented(text: str) -> None:
    assert fields(text) == {}


def test_a_section_ends_at_a_heading_of_its_level_and_includes_lower_ones() -> None:
    found = fields("## Scope\none\n### Detail\ntwo\n#### Background\nthree\n## Other\nfour\n## Scope\nfive\n")
    assert found == {Section.SCOPE: Prose("one\n### Detail\ntwo\n\nfive"), Section.BACKGROUND: Prose("three")}


@pytest.mark.parametrize(
    ("body", "value"),
    [
        ("- a\n\n* b\n+ c", Items(("a", "b", "c"))),
        ("- a\n  - b\n  - c\n- d", Items(("a\n- b\n- c", "d"))),
        ("- a: b\n- c: d", Items(("a: b", "c: d"))),
        ("- a\ntext", Prose("- a\ntext")),
        ("- a\n  ```\n  code\n  ```", Prose("- a\n  ```\n  code\n  ```")),
        ("- [ ] a\n- b", Items(("[ ] a", "b"))),
        ("- [X] a", Boxes((("a", True),))),
    ],
)
def test_a_list_is_a_list_only_if_nothing_else_is_there(body: str, value: Value) -> None:
    assert fields(f"## Requirements\n{body}\n") == {Section.REQUIREMENTS: value}


@pytest.mark.parametrize(
    ("body", "value"),
    [
        ("- modules: a, `b`\n- files:\n  - c", Pairs((("modules", ("a", "b")), ("files", ("c",))))),
        (f"- 모듈{WIDE}인증", Pairs((("modules", ("인증",)),))),
        ("- see https://a.example", Items(("see https://a.example",))),
        ("- https://a.example", Items(("https://a.example",))),
        ("- modules:", Items(("modules:",))),
        ("- modules: a\n- b", Items(("modules: a", "b"))),
        ("Modules: a, b\nDepth: deep", Pairs((("modules", ("a", "b")), ("Depth", ("deep",))))),
        ("### 대상 모듈\n- a\n- b\n**Files:** c", Pairs((("modules", ("a", "b")), ("files", ("c",))))),
        ("### Files\na.py\n\nb.py", Pairs((("files", ("a.py", "b.py")),))),
        ("Note: all of it", Prose("Note: all of it")),
    ],
)
def test_key_value_pairs_are_parsed_only_where_they_belong(body: str, value: Value) -> None:
    assert fields(f"## Scope\n{body}\n") == {Section.SCOPE: value}


def test_numbered_lists_of_jira_markup_are_not_headings() -> None:
    found = fields("h2. Steps to reproduce\n# open it\n# close it\nh2. Expected\nnothing")
    assert found == {Section.STEPS_TO_REPRODUCE: Items(("open it", "close it")), Section.EXPECTED: Prose("nothing")}


@pytest.mark.parametrize("item", ["ABC-1: one: two", "ABC-1 one: two", "[ABC-1] one: two", "ABC-1 - one: two"])
def test_a_change_names_its_ticket_in_any_notation(item: str) -> None:
    assert fields(f"## Changes\n- {item}\n- #7 three") == {
        Section.CHANGES: Pairs((("ABC-1", ("one: two",)), ("#7", ("three",))))
    }


@pytest.mark.parametrize(
    ("text", "kind", "variant"),
    [
        ("## 작업 유형: 기능", TicketType.FEATURE, Variant.FULL),
        ("## Type\n\nBug\n\n## Type\n\nfeature", TicketType.BUGFIX, Variant.FULL),
        ("**타입**: 코드 리뷰 (code_review)", TicketType.CODE_REVIEW, Variant.REVIEW_ONLY),
        ("**Type:** `release`", TicketType.RELEASE, Variant.RELEASE),
        (f"## Work Type{WIDE}기능/feature", TicketType.FEATURE, Variant.FULL),
        ("## 작업유형: 버그 수정", TicketType.BUGFIX, Variant.FULL),
    ],
)
def test_a_line_names_the_type(text: str, kind: TicketType, variant: Variant) -> None:
    parsed = parse_template(text, "Fix it")
    assert (parsed.type, parsed.variant, parsed.warnings) == (kind, variant, ())


def test_without_such_a_line_only_the_title_can_determine_the_type() -> None:
    for text in ("text", "## Type: dance", "## Type\n\n## Other"):
        parsed = parse_template(text, "Fix it")
        assert (parsed.type, parsed.warnings) == (TicketType.BUGFIX, ("the ticket names no type that is known",))
        assert parse_template(text).type is None


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("", ("summary", "requirements or background", "scope.modules")),
        ("## 요약\nx\n## 배경\ny\n## 범위\n- 모듈: a", ()),
        ("## Scope\n- everything", ("summary", "requirements or background", "scope.modules")),
        ("## Type: bug", ("summary", "steps_to_reproduce", "expected", "actual", "scope.modules")),
        ("## Type: review", ("summary", "review_target.files_or_modules")),
        ("## Type: review\n## Summary\nx\n## Review target\n- files: a", ()),
        ("## Type: release", ("version", "changes[].ticket and summary")),
        ("## Type: release\n## Version\nv1\n## Changes\n- ABC-1: one", ()),
    ],
)
def test_missing_sections_are_named(text: str, missing: tuple[str, ...]) -> None:
    assert parse_template(text).missing == missing


def test_the_document_has_the_documented_names() -> None:
    changes = "## Changes\n- ABC-1: one\n- ABC-2: two, three\n"
    text = f"## Type: release\n## Version\nv1.2\n{changes}## Checklist\n- [x] a\n## References\n- b"
    assert document(parse_template(text), "Release") == {
        "work_type": "release",
        "summary": "Release",
        "pipeline_variant": "release",
        "fields": {
            "version": "v1.2",
            "changes": [{"ticket": "ABC-1", "summary": "one"}, {"ticket": "ABC-2", "summary": "two, three"}],
            "checklist": [{"text": "a", "checked": True}],
            "references": ["b"],
        },
        "missing_fields": [],
        "warnings": [],
    }
    scope = document(parse_template("## Scope\n- modules: a\n- depth: 1\n- kinds:\n  - x\n  - y"), "S")
    assert scope["fields"] == {"scope": {"modules": ["a"], "depth": "1", "kinds": ["x", "y"]}}
    assert scope["work_type"] == "unknown"


LINES = st.sampled_from(
    [
        "## Type: bug",
        "## 범위",
        "# Scope",
        "h2. Changes",
        "**Expected:** x",
        "```",
        "{code}",
        "- a: b",
        "  - [x] c",
        "1. d",
    ]
)


@given(st.lists(LINES | st.text(), max_size=30).map("\n".join), st.text())
def test_no_text_raises(text: str, title: str) -> None:
    parsed = parse_template(text, title)
    orjson.dumps(document(parsed, ""))
    for value in parsed.fields.values():
        if isinstance(value, Prose):
            assert all(line.strip() in text for line in value.text.splitlines())


@pytest.mark.parametrize(
    "hostile",
    [
        "## scope\n- a\n" + " b\n" * 100_000,
        "**" * 200_000,
        "{code:" * 60_000,
        "## type\n" + "/" * 400_000,
        "- " * 200_000,
    ],
)
@pytest.mark.timeout(20)
def test_no_text_takes_too_long(hostile: str) -> None:
    parse_template(hostile)
