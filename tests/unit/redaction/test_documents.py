"""Masking secrets in JSON string by string."""

import json

import pytest

from orchestrator.redaction.documents import mask_document


def masked(text: str) -> str:
    """Mask a text as the rules do: one that holds a key is withheld as a whole."""
    return "[WITHHELD]" if "KEY" in text else text.replace("hunter2", "[REDACTED]")


def test_json_stays_json_whatever_is_withheld() -> None:
    text = json.dumps({"a": ["hunter2", 1, None], "b": {"KEY": "a KEY"}})
    assert json.loads(mask_document(text, masked)) == {"a": ["[REDACTED]", 1, None], "b": {"[WITHHELD]": "[WITHHELD]"}}


def test_json_lines_are_masked_line_by_line() -> None:
    text = '{"id": "A", "title": "hunter2"}\n\n{"id": "B", "title": "KEY"}\n'
    assert mask_document(text, masked) == '{"id":"A","title":"[REDACTED]"}\n\n{"id":"B","title":"[WITHHELD]"}\n'


@pytest.mark.parametrize("depth", [255, 300, 1000, 5000])
def test_json_that_is_nested_too_deeply_is_masked_as_a_whole(depth: int) -> None:
    deep = "[" * depth + '"hunter2"' + "]" * depth
    assert mask_document(deep, masked) == deep.replace("hunter2", "[REDACTED]")
    assert mask_document(f'{{"a": 1}}\n{deep}', masked) == f'{{"a": 1}}\n{deep}'.replace("hunter2", "[REDACTED]")


def test_another_text_is_masked_as_a_whole() -> None:
    assert mask_document("it is hunter2\nKEY", masked) == "[WITHHELD]"
    assert mask_document("", masked) == ""
    assert mask_document('{"half": ', masked) == '{"half": '
