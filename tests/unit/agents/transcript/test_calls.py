"""The calls and results in a line of output: what a person wants to see, whatever stands in the line."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.agents.transcript.calls import MOST, MOST_EDITS, ToolCall, ToolResult, calls_and_results

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=12,
)


def line(block: object) -> bytes:
    return orjson.dumps({"type": "assistant", "message": {"content": [block]}})


def call(given: object) -> ToolCall:
    found = calls_and_results(line({"type": "tool_use", "id": "t", "name": "Edit", "input": given}))["t"]
    assert isinstance(found, ToolCall)
    return found


def result(content: object) -> ToolResult:
    found = calls_and_results(line({"type": "tool_result", "tool_use_id": "t", "content": content}))["t"]
    assert isinstance(found, ToolResult)
    return found


def test_an_edit_is_known_by_its_inputs_and_not_by_the_name_of_its_tool() -> None:
    (edit,) = call({"file_path": "/a", "old_string": "x", "new_string": "y"}).edits
    assert (edit.path, edit.old, edit.new, edit.cut) == ("/a", "x", "y", False)
    (whole,) = call({"file_path": "/a", "content": "all"}).edits
    assert (whole.old, whole.new) == ("", "all")
    (cell,) = call({"notebook_path": "/n", "new_source": "1"}).edits
    assert (cell.path, cell.new) == ("/n", "1")
    assert call({"file_path": "/a", "limit": 5}).edits == ()


def test_what_is_long_is_cut_and_says_so() -> None:
    (edit,) = call({"file_path": "/a", "old_string": "x", "new_string": "y" * (MOST + 1)}).edits
    assert (len(edit.new), edit.cut) == (MOST, True)
    assert len(call({"file_path": "/a", "edits": [{"new_string": "x"}] * 500}).edits) == MOST_EDITS
    assert len(call({"text": "x" * 10 * MOST}).input) == MOST
    assert (len(result("x" * (MOST + 1)).text), result("x" * (MOST + 1)).cut, result("x" * MOST).cut) == (
        MOST,
        True,
        False,
    )


def test_a_result_of_parts_has_their_texts_and_names_the_others() -> None:
    assert result([{"type": "text", "text": "a"}, {"type": "image", "source": {}}, "odd"]).text == "a\n[image]\n[]"
    assert result(None).text == ""


@pytest.mark.parametrize(
    "body", [b"", b"tool_use", b'"tool_use"', b'{"tool_use":', b"[" * 100_000 + b'"tool_use"', b"\xff"]
)
def test_a_line_that_is_no_json_has_none(body: bytes) -> None:
    assert calls_and_results(body) == {}


def test_an_input_that_is_nested_too_deeply_to_be_written_leaves_the_line_without_calls() -> None:
    deep = b'{"a":' * 900 + b"1" + b"}" * 900
    body = b'{"message":{"content":[{"type":"tool_use","id":"t","input":' + deep + b"}]}}"
    assert set(calls_and_results(body)) <= {"t"}


@given(ANYTHING, st.sampled_from(["tool_use", "tool_result", "server_tool_use"]))
def test_nothing_in_a_block_is_an_error(value: object, kind: str) -> None:
    block = {"type": kind, "id": value, "tool_use_id": value, "name": value, "input": value, "content": value}
    for one in (
        block,
        {**block, "input": {"file_path": "/a", "edits": value, "new_string": value, "old_string": value}},
    ):
        assert len(calls_and_results(line(one))) <= 1
