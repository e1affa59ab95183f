"""Markdown that takes long to render: it is shown as text before it takes too long."""

from time import process_time

import pytest

from orchestrator.server.web.content.markdown import LONGEST, MOST_CELLS, markdown

MOST_SECONDS = 0.5 * 3
"""Half a second, with room for a slow machine."""


def filled(piece: str, width: int = 4_000) -> str:
    """As many lines of the piece as are still rendered."""
    line = piece * (width // len(piece))
    return "\n".join([line] * (LONGEST // (len(line) + 1)))


def table(columns: int, rows: int) -> str:
    return f"|{'a|' * columns}\n|{'-|' * columns}\n" + "|\n" * rows


def test_a_text_beyond_the_bound_is_shown_as_it_is() -> None:
    longest = "*a*\n" * (LONGEST // 4)
    assert "<em>" in markdown(longest)
    assert markdown(f"{longest}b").startswith("<pre>*a*\n")
    assert LONGEST <= 20_000


@pytest.mark.parametrize("columns", [1, 20, 700])
def test_a_table_of_too_many_cells_is_shown_as_text(columns: int) -> None:
    rows = MOST_CELLS // columns
    assert "<table>" in markdown(table(columns, rows - 3))
    shown = markdown(f"# Title\n\n{table(columns, rows + 3)}\n*after*")
    assert "<table>" not in shown
    assert (shown.count("|") > columns, "<em>after</em>" in shown) == (True, True)


def test_the_cells_of_all_tables_are_counted_together() -> None:
    shown = markdown("\n".join([table(10, 100)] * 30))
    assert 1 < shown.count("<table>") < 6
    assert shown.count("<td>") + shown.count("<th>") <= MOST_CELLS


@pytest.mark.parametrize(
    "text",
    [
        *(filled(piece) for piece in ("[", "![", "![[", "![a](", "*a_ ", "[ ]", "* * a\n")),
        *(table(columns, LONGEST)[:LONGEST] for columns in (5, 30, 1_000, 2_400)),
        *(("- a\n" * LONGEST)[:LONGEST], ("|a\n|-\n" * LONGEST)[:LONGEST], ("> " * 9 + "|a\n") * 800),
    ],
)
def test_no_text_costs_more_than_half_a_second(text: str) -> None:
    begun = process_time()
    markdown(text)
    assert process_time() - begun < MOST_SECONDS
