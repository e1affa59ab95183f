"""The line protocol: what is a message, what only looks like one, and the response to a malformed one."""

import json
import time
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.agents.markers import LARGEST_MESSAGE, Markers, outside_messages
from orchestrator.agents.messages import LARGEST_FIELD, MOST_DOCUMENTS, MOST_OPTIONS
from orchestrator.core.events.agent_messages import (
    AgentError,
    AgentMessage,
    Category,
    Criterion,
    DependencyRequest,
    DependencyType,
    Malformed,
    PhaseComplete,
    Question,
    Recovery,
    TaskComplete,
    Verification,
    in_order,
)

QUESTION = """\
I have to ask.

[USER_QUESTION]
category: choice
question: Which database
  shall it be?\\nBoth would do.
options:
- PostgreSQL
- SQLite
default: sqlite
required: false
[/USER_QUESTION]
"""
ASKED = Question(
    category=Category.CHOICE,
    question="Which database\n  shall it be?\nBoth would do.",
    options=("PostgreSQL", "SQLite"),
    default="SQLite",
    required=False,
)
DEPENDENCY = """\
[DEPENDENCY_REQUEST]
type: api_key
name: STRIPE_KEY
description: The tests pay with it.
required: true
[/DEPENDENCY_REQUEST]
"""
WANTED = DependencyRequest(
    type=DependencyType.API_KEY,
    name="STRIPE_KEY",
    description="The tests pay with it.",
    required=True,
    default=None,
)
ERROR = """\
[ERROR]
type: recoverable
message: The build server is down.
details: connection refused
recovery: pause_and_retry
[/ERROR]
"""
TROUBLED = AgentError(
    fatal=False,
    recovery=Recovery.PAUSE_AND_RETRY,
    message="The build server is down.",
    details="connection refused",
)
PHASE = """\
=== PHASE 2 COMPLETE ===
Completed: Phase 2 (Design)

**Documents created:**
- `docs/design.md` - the design
* docs/api.md

Ready for review.
"""
DESIGNED = PhaseComplete(number=2, documents=("docs/design.md", "docs/api.md"))
TASK = """\
=== CUSTOM TASK COMPLETE ===

Task: Rename the module
Summary: Renamed.
All is green.

By the way, it rains.
"""
RENAMED = TaskComplete(task="Rename the module", summary="Renamed.\nAll is green.")
CRITERION = {
    "id": "P1_CONS_01",
    "status": "failed",
    "details": "a } in a text",
    "suggestion": "drop it",
    "affectedDocuments": ["docs/design.md", 7],
}
VERIFICATION = f"=== VERIFICATION_RESULT ===\n\n```json\n{json.dumps({'criteria': [CRITERION]}, indent=2)}\n```\n"
VERIFIED = Verification(
    criteria=(
        Criterion(
            id="P1_CONS_01",
            passed=False,
            details="a } in a text",
            suggestion="drop it",
            affected_documents=("docs/design.md",),
        ),
    )
)
EVERY_FORM = (
    (QUESTION, ASKED),
    (DEPENDENCY, WANTED),
    (ERROR, TROUBLED),
    (PHASE, DESIGNED),
    (TASK, RENAMED),
    (VERIFICATION, VERIFIED),
)


def said_in(*pieces: str) -> tuple[AgentMessage, ...]:
    markers = Markers()
    return (*(said for piece in pieces for said in markers.push(piece)), *markers.flush())


def question(**fields: object) -> AgentMessage:
    (said,) = said_in(f"[USER_QUESTION_JSON]\n{json.dumps({'question': 'Why?', **fields})}\n[/USER_QUESTION_JSON]\n")
    return said


def reason(text: str) -> str:
    (said,) = said_in(text)
    assert isinstance(said, Malformed)
    return said.reason


@pytest.mark.parametrize(("text", "said"), EVERY_FORM, ids=lambda value: type(value).__name__)
def test_every_form_is_parsed_whole_and_byte_by_byte_and_with_windows_line_ends(text: str, said: AgentMessage) -> None:
    assert said_in(text) == (said,)
    assert said_in(*text) == (said,)
    assert said_in(*text.replace("\n", "\r\n")) == (said,)
    assert said_in(text.rstrip("\n")) == (said,)


def test_messages_come_in_the_order_of_the_text() -> None:
    assert said_in("".join(text for text, _ in EVERY_FORM)) == tuple(said for _, said in EVERY_FORM)


@pytest.mark.parametrize(
    ("name", "fields", "said"),
    [
        ("DEPENDENCY_REQUEST", {"type": "file", "name": "a.pem", "description": "The key"}, "a.pem"),
        ("ERROR", {"type": "fatal", "message": "No compiler", "recovery": "checkpoint_and_fail"}, "No compiler"),
        ("USER_QUESTION", {"category": "business", "question": "Which\nprice?"}, "Which\nprice?"),
    ],
)
def test_a_message_in_json_is_the_same_with_or_without_a_code_fence(
    name: str, fields: dict[str, str], said: str
) -> None:
    body = json.dumps(fields, indent=1)
    bare = said_in(f"[{name}_JSON]\n{body}\n[/{name}_JSON]\n")
    assert bare == said_in(f"[{name}_JSON]\n```json\n{body}\n```\n[/{name}_JSON]\n")
    assert repr(said) in repr(bare)


def test_options_may_be_on_one_line() -> None:
    text = "[USER_QUESTION]\nquestion: Which?\noptions: [one, \"two, or more\", 'three']\n[/USER_QUESTION]\n"
    assert (
        said_in(text)
        == said_in(text.replace(" [one", "\n[one"))
        == (
            Question(
                category=Category.CHOICE,
                question="Which?",
                options=("one", "two, or more", "three"),
                default=None,
                required=True,
            ),
        )
    )


def test_an_option_may_continue_on_the_next_line() -> None:
    (said,) = said_in("[USER_QUESTION]\nquestion: Which?\noptions:\n1. one\n   or so\n2) two\n[/USER_QUESTION]\n")
    assert isinstance(said, Question)
    assert said.options == ("one\n   or so", "two")


def test_an_unknown_category_is_guessed_and_no_question_is_lost() -> None:
    plain, choice = question(category="technical"), question(category="technical", options=["a", "b"])
    assert isinstance(plain, Question)
    assert isinstance(choice, Question)
    assert (plain.category, choice.category) == (Category.CLARIFICATION, Category.CHOICE)


def test_only_an_explicitly_fatal_error_is_fatal_and_an_unknown_recovery_notifies_a_user() -> None:
    (said,) = said_in("[ERROR]\ntype: execution_failed\nmessage: no\nrecovery: pray\n[/ERROR]\n")
    assert said == AgentError(fatal=False, recovery=Recovery.NOTIFY_USER, message="no", details="")


@pytest.mark.parametrize(
    "text",
    [
        "Then I print [USER_QUESTION] and wait.\n",
        "> [USER_QUESTION]\n> question: quoted\n",
        "    [USER_QUESTION]\n    category: business\n",
        "\t=== PHASE 1 COMPLETE ===\n",
        "=== PHASE N COMPLETE ===\n",
        "=== PHASE 0 COMPLETE ===\n",
        "=== PHASE \u0661 COMPLETE ===\n",
        "== PHASE 1 COMPLETE ==\n",
        "`=== PHASE 1 COMPLETE ===`\n",
        "**=== PHASE 1 COMPLETE ===**\n",
        "[ERROR] Failed to execute goal\n[ERROR] \n[ERROR] To see the full stack trace\n",
        "[ERROR]\nFailed to execute goal\nmessage: see above\n",
        "[ERROR]\n[ERROR]\n\n",
        f"```\n{QUESTION}{PHASE}```\n",
        f"~~~~ text\n{QUESTION}~~~\n{PHASE}```\n~~~~~\n",
        f"````markdown\n```\n{QUESTION}```\n{PHASE}````\n",
        f"- ```\n  {PHASE}  ```\n",
        f"1. Look:\n   ```json\n{VERIFICATION.replace('```', '')}\n   ```\n",
        f"``` never closed\n{PHASE}",
    ],
    ids=lambda text: repr(text[:24]),
)
def test_a_mention_of_a_marker_is_not_a_message(text: str) -> None:
    assert said_in(text) == ()


def test_a_message_after_a_closed_fence_is_a_message() -> None:
    assert said_in(f"- ```py\n  x = 1\n  ```\n\n```inline``` code\n{PHASE}") == (DESIGNED,)


def test_a_marker_quoted_within_a_message_neither_ends_it_nor_starts_another() -> None:
    text = (
        "[USER_QUESTION]\nquestion: Is this right?\n```\n[/USER_QUESTION]\ndefault: no\n```\n"
        "default: yes\n[/USER_QUESTION]\n"
    )
    (said,) = said_in(text)
    assert isinstance(said, Question)
    assert said.question == "Is this right?\n```\n[/USER_QUESTION]\ndefault: no\n```"
    assert said.default == "yes"


def test_a_fence_does_not_extend_into_the_next_turn() -> None:
    markers = Markers()
    assert (*markers.push("```\n"), *markers.flush()) == ()
    assert (*markers.push(PHASE), *markers.flush()) == (DESIGNED,)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("[USER_QUESTION]\ncategory: business\n[/USER_QUESTION]", "question is missing"),
        ("[USER_QUESTION]\nquestion: Why?\n", "[/USER_QUESTION] is missing"),
        ("[USER_QUESTION_JSON]\n{}\n", "[/USER_QUESTION_JSON] is missing"),
        ("[USER_QUESTION]\nWhy?\n[/USER_QUESTION]", "first line is no field"),
        ("[USER_QUESTION]\nquestion: a\nquestion: b\n[/USER_QUESTION]", "question is given twice"),
        ("[USER_QUESTION]\ncategory: choice\nquestion: a\noptions: [b]\n[/USER_QUESTION]", "at least two options"),
        ("[USER_QUESTION]\nquestion: a\noptions: b or c\n[/USER_QUESTION]", "options must be lines"),
        ("[USER_QUESTION]\nquestion: a\noptions: [b, c]\ndefault: d\n[/USER_QUESTION]", "none of the options"),
        ("[USER_QUESTION]\nquestion: a\nrequired: maybe\n[/USER_QUESTION]", "required is true or false"),
        ("[USER_QUESTION_JSON]\n{question: a}\n[/USER_QUESTION_JSON]", "its body is no JSON"),
        ("[USER_QUESTION_JSON]\n[7]\n[/USER_QUESTION_JSON]", "its body is JSON, but no object"),
        ("[DEPENDENCY_REQUEST]\ntype: money\nname: A\ndescription: b\n[/DEPENDENCY_REQUEST]", "there is no type"),
        ("[DEPENDENCY_REQUEST]\ntype: api_key\nname: MY-KEY\ndescription: b\n[/DEPENDENCY_REQUEST]", "variable's name"),
        (
            "[DEPENDENCY_REQUEST]\ntype: env_variable\nname: 1A\ndescription: b\n[/DEPENDENCY_REQUEST]",
            "variable's name",
        ),
        (
            f"[DEPENDENCY_REQUEST]\ntype: file\nname: {'a' * 256}\ndescription: b\n[/DEPENDENCY_REQUEST]",
            "at most 255 characters",
        ),
        ("[ERROR]\ntype: fatal\n[/ERROR]", "message is missing"),
        ("[/ERROR]", "was never begun"),
        ("[ERROR]\nThe compiler is gone.\n[/ERROR]", "was never begun"),
        ("[ERROR]\n[/ERROR]", "message is missing"),
        (f"[ERROR_JSON]\n{'[' * 50_000}\n[/ERROR_JSON]", "its body is no JSON"),
        ("=== VERIFICATION_RESULT ===\nAll is well.", "no JSON object follows"),
        ('=== VERIFICATION_RESULT ===\n{"criteria": []}', "a list of 1 to"),
        ('=== VERIFICATION_RESULT ===\n{"criteria": [{"id": "a", "status": "meh"}]}', "passed or failed"),
        ('=== VERIFICATION_RESULT ===\n{"criteria": [7]}', "status is missing"),
        ('=== VERIFICATION_RESULT ===\n{"criteria": ', "its body is no JSON"),
    ],
)
def test_a_malformed_message_is_answered_with_the_error_and_the_correct_form(text: str, wrong: str) -> None:
    told = reason(text)
    assert wrong in told
    assert "must look like this: " in told
    assert len(told) < 1000


def test_an_unclosed_message_does_not_swallow_the_next() -> None:
    unclosed, done = said_in(f"[USER_QUESTION]\nquestion: Why?\n{PHASE}")
    assert isinstance(unclosed, Malformed)
    assert done == DESIGNED
    first, second = said_in(f"[USER_QUESTION]\nquestion: Why?\n{QUESTION}")
    assert isinstance(first, Malformed)
    assert second == ASKED
    assert "[/USER_QUESTION] is missing" in reason("[USER_QUESTION]\nquestion: Why?\n[/ERROR]\n")


def test_a_field_has_a_maximum_length() -> None:
    assert isinstance(question(question="é" * LARGEST_FIELD), Question)
    assert "question is longer than 10,000 characters" in reason(
        f"[USER_QUESTION]\nquestion: {'é' * (LARGEST_FIELD + 1)}\n[/USER_QUESTION]\n"
    )
    assert isinstance(question(options=["x" * (LARGEST_FIELD + 1), "y"]), Malformed)
    assert isinstance(question(options=[str(n) for n in range(MOST_OPTIONS + 1)]), Malformed)
    assert isinstance(question(options=[1, 2]), Malformed)
    assert isinstance(question(question=["why"]), Malformed)
    assert isinstance(question(question=7), Question)


@pytest.mark.parametrize("form", ["USER_QUESTION", "USER_QUESTION_JSON"])
@pytest.mark.parametrize("line", ["x" * 99, "é" * (LARGEST_MESSAGE // 2 + 1)])
def test_a_message_that_grows_too_large_is_dropped_and_the_next_one_is_parsed(form: str, line: str) -> None:
    text = f"[{form}]\nquestion: Why?\n" + f"{line}\n" * (LARGEST_MESSAGE // len(line) + 1) + f"[/{form}]\n"
    large, asked = said_in(text, QUESTION)
    assert isinstance(large, Malformed)
    assert "larger than 100 KiB" in large.reason
    assert asked == ASKED


def test_an_endless_line_is_skipped() -> None:
    assert said_in(*["x" * 1000] * 1000, "\n", PHASE) == (DESIGNED,)
    assert said_in("=== PHASE 1 COMPLETE ===" + " " * LARGEST_MESSAGE, "\n", PHASE)[-1] == DESIGNED


@pytest.mark.parametrize("text", [text for text, _ in EVERY_FORM], ids=lambda text: text.split()[0])
def test_floods_with_or_without_line_ends_are_not_kept_in_memory(text: str) -> None:
    beginning = text[: text.rindex("\n", 0, -1)].removesuffix("Ready for review.")
    tracemalloc.start()
    try:
        for flood in ("x" * 50_000, f"- {'a' * 97}\n" * 500):
            markers = Markers()
            markers.push(beginning)
            for _ in range(40):
                markers.push(flood)
            assert tracemalloc.get_traced_memory()[0] < 5 * LARGEST_MESSAGE
    finally:
        tracemalloc.stop()


def test_deceptive_characters_are_removed() -> None:
    said = question(question="Pay\u202e\x1b[2J 5\u0000?", default="cafe\u0301\r\n")
    assert isinstance(said, Question)
    assert (said.question, said.default) == ("Pay[2J 5?", "caf\u00e9")
    crowned = question(question="a" + "\u0323\u0301" * 4000)
    assert isinstance(crowned, Question)
    assert len(crowned.question) < 40


def test_a_list_of_documents_is_bounded() -> None:
    text = "=== PHASE 1 COMPLETE ===\nFiles created:\n" + "".join(f"- {n}.md\n" for n in range(MOST_DOCUMENTS + 1))
    (said,) = said_in(text)
    assert isinstance(said, PhaseComplete)
    assert len(said.documents) == MOST_DOCUMENTS
    assert said_in("=== PHASE 1 COMPLETE ===\n```\nFiles created:\n```\n") == (PhaseComplete(number=1, documents=()),)
    assert said_in("=== PHASE 1 COMPLETE ===\nNext I look at it.\nFiles created:\n- a.md\n") == (
        PhaseComplete(number=1, documents=()),
    )


def test_a_question_after_a_completed_phase_comes_before_it_and_errors_before_both() -> None:
    wrong = Malformed(block="ERROR", reason="…")
    assert in_order([DESIGNED, ASKED, TROUBLED, VERIFIED, wrong, WANTED]) == (
        TROUBLED, ASKED, wrong, WANTED, DESIGNED, VERIFIED,
    )  # fmt: skip
    assert in_order([]) == ()


def test_a_fatal_error_overrides_everything_else() -> None:
    fatal = AgentError(fatal=True, recovery=Recovery.NOTIFY_USER, message="no compiler", details="")
    assert in_order([ASKED, TROUBLED, DESIGNED, fatal]) == (fatal,)


LINES = st.sampled_from([
    *(line for text, _ in EVERY_FORM for line in text.splitlines()),
    "[USER_QUESTION_JSON]", "[/USER_QUESTION_JSON]", "[ERROR_JSON]", "[/ERROR_JSON]", '{"question": "Why?"}', "~~~~",
    "````", "  ```", "- ```", "options: [a, b", "\ud800\x00", "[ERROR] x", "{", "}", '{"a": "', "question: \\n\\n",
])  # fmt: skip
TEXTS = st.lists(LINES | st.text(max_size=20), max_size=40).flatmap(
    lambda lines: st.sampled_from(["\n", "\r\n"]).map(lambda end: end.join(lines))
)


@given(TEXTS, st.data())
def test_chunk_boundaries_do_not_change_the_result(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert said_in(*pieces) == said_in(*text) == said_in(text)


@pytest.mark.parametrize("filling", ["`" * 3 + "\n" * 90_000 + "x", "`" * 90_000 + "x`", "* " + " " * 90_000 + "x"])
def test_a_message_that_provokes_backtracking_is_read_at_once(filling: str) -> None:
    """These took from ten seconds to minutes, during which the daemon did nothing else."""
    before = time.thread_time()
    Markers().push(f"[USER_QUESTION_JSON]\n{filling}\n[/USER_QUESTION_JSON]\n=== PHASE 1 COMPLETE ===\n{filling}\n")
    assert time.thread_time() - before < 2


def test_what_is_outside_of_messages_is_left_without_their_markers() -> None:
    asked = '[USER_QUESTION_JSON]\n{"question": "Which?"}\n[/USER_QUESTION_JSON]'
    done = "=== PHASE 2 COMPLETE ===\nDocuments created:\n- design.md"
    assert outside_messages(f"before\n{asked}\nbetween\n{done}\nafter\n[/ERROR]") == ("before", "between", "after")
    assert outside_messages("```\n[ERROR]\n```") == ("```", "[ERROR]", "```")
