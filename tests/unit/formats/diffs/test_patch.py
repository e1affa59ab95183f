"""The change between two documents, and its application."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.formats.codec import Json
from orchestrator.formats.diffs.patch import applied, difference

KEYS = st.sampled_from(["a", "b", "a/b", "~", "~1", "-", ""])
VALUES: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.integers(0, 3) | st.text("xy", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
DOCUMENTS = st.dictionaries(KEYS, VALUES, max_size=4)


@given(DOCUMENTS, DOCUMENTS)
def test_any_document_can_be_patched_into_any_other(old: dict[str, Json], new: dict[str, Json]) -> None:
    before = repr(old)
    assert applied(old, difference(old, new)) == new
    assert repr(old) == before


def test_a_patch_has_only_the_changes_and_appends_to_a_list_that_grew() -> None:
    old: dict[str, Json] = {"same": {"x": 1}, "gone": 1, "deep": {"n": 1, "kept": 2}, "list": [1], "other": [1, 2]}
    new: dict[str, Json] = {"same": {"x": 1}, "deep": {"n": 2, "kept": 2}, "list": [1, 2, 3], "other": [2], "new": None}
    assert difference(old, new) == [
        {"op": "remove", "path": "/gone"},
        {"op": "replace", "path": "/deep/n", "value": 2},
        {"op": "add", "path": "/list/-", "value": 2},
        {"op": "add", "path": "/list/-", "value": 3},
        {"op": "replace", "path": "/other", "value": [2]},
        {"op": "add", "path": "/new", "value": None},
    ]
    assert applied(old, difference(old, new)) == new


@pytest.mark.parametrize("path", ["/nowhere/a", "/text/a", "/list/0"])
def test_an_invalid_path_is_refused(path: str) -> None:
    document: dict[str, Json] = {"text": "x", "list": [1]}
    with pytest.raises(ValueError, match="leads nowhere"):
        applied(document, [{"op": "add", "path": path, "value": 1}])
