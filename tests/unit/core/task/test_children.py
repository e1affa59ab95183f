"""Plans of children: how they are read, and which cannot be made."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.task.children import MOST_CHILDREN, ChildPlan, problems_of, read_children


def plan(key: str, *after: str) -> ChildPlan:
    return ChildPlan(key=key, title=key, after=after)


def test_a_plan_names_keys_titles_texts_and_what_each_waits_for() -> None:
    a = {"key": "A", "title": "First", "text": "Do it."}
    b = {"key": "B", "title": "Then", "text": "", "after": ["A"]}
    first, then = read_children(json.dumps({"children": [a, b]}))
    assert (first.key, first.title, first.text, first.after) == ("A", "First", "Do it.", ())
    assert (then.key, then.after) == ("B", ("A",))
    changed = read_children(json.dumps({"children": [{**a, "text": "Do more."}]}))[0]
    assert changed.plan.digest != first.plan.digest


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"children": 1}', '{"children": [{"key": 1, "title": "", "text": ""}]}']
)
def test_what_is_no_plan_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="it must be a JSON object"):
        read_children(text)


@pytest.mark.parametrize(
    ("plans", "problem"),
    [
        ([plan("A"), plan("A")], "it names A 2 times"),
        ([plan("A", "B")], "A depends on B, which it does not name"),
        ([plan("A", "A")], "these depend on each other in a circle: A"),
        (
            [plan("A", "C"), plan("B", "A"), plan("C", "B"), plan("D")],
            "these depend on each other in a circle: A, B, C",
        ),
        ([plan("../x")], "'../x' is not a key: letters, digits and dashes, at most 40"),
        (
            [plan(f"K{number}") for number in range(MOST_CHILDREN + 1)],
            "it names 1001 children; at most 1000 are allowed",
        ),
    ],
)
def test_a_plan_that_cannot_be_carried_out_says_why(plans: list[ChildPlan], problem: str) -> None:
    assert problems_of(plans) == (problem,)


@given(st.data())
def test_a_plan_whose_children_wait_for_earlier_ones_only_can_be_carried_out_in_any_order(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 30))
    plans = [
        plan(
            f"K{number}",
            *(f"K{other}" for other in data.draw(st.sets(st.integers(0, max(0, number - 1))))) if number else (),
        )
        for number in range(count)
    ]
    assert problems_of(data.draw(st.permutations(plans))) == ()


def test_a_thousand_children_in_a_row_are_examined_without_recursion() -> None:
    chain = [plan(f"K{number}", *([f"K{number - 1}"] if number else [])) for number in range(MOST_CHILDREN)]
    assert problems_of(chain) == ()
    assert problems_of([*chain[1:], plan("K0", f"K{MOST_CHILDREN - 1}")]) != ()
