"""Output as it is rendered on a terminal."""

import pytest

from orchestrator.cli.output import console, table

ID = "LOCAL-20261121_042526-12"
HEADINGS = ("ID", "STATUS", "STAGE", "DONE", "AGE", "TITLE")
ROW = (ID, "in_progress", "IMPLEMENTATION", "40%", "3m10s", "a title that is rather longer than that")


def rendered(columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    for name, value in (("FORCE_COLOR", "1"), ("TERM", "dumb"), ("COLUMNS", str(columns)), ("LINES", "25")):
        monkeypatch.setenv(name, value)
    console().print(table(HEADINGS, [ROW]))
    return capsys.readouterr().out


@pytest.mark.parametrize(("columns", "missing"), [(120, set()), (84, {"AGE"}), (76, {"AGE", "DONE"})])
def test_a_narrow_terminal_hides_the_age_and_then_the_progress(
    columns: int, missing: set[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = rendered(columns, monkeypatch, capsys)
    assert {heading for heading in HEADINGS if heading not in out.split()} == missing
    assert all(word in out for word in (ID, "in_progress", "IMPLEMENTATION"))


def test_an_id_is_complete_in_a_terminal_of_any_width(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ID in rendered(30, monkeypatch, capsys)


def test_a_table_without_rows_has_its_headings(capsys: pytest.CaptureFixture[str]) -> None:
    console().print(table(HEADINGS, []))
    assert capsys.readouterr().out.split() == list(HEADINGS)
