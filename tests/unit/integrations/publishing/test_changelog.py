"""A release's version, found in texts, and its section of CHANGELOG.md."""

import pytest

from orchestrator.integrations.publishing.changelog import LONGEST_ENTRY, MOST_ENTRIES, entry_of, version_of, with_entry

OLD = "# Changelog\n\nAll that changed.\n\n## 1.2.2 - 2026-10-01\n\n- Old.\n"
ENTRY = "- New."
SECTION = "## 1.2.3 - 2026-11-21\n\n- New.\n"


@pytest.mark.parametrize(
    ("texts", "version"),
    [
        (("Release 1.2.3",), "1.2.3"),
        (("v1.2.3",), "1.2.3"),
        (("", "## Version\n2.0.0-rc.1.\n"), "2.0.0-rc.1"),
        (("1.4", "1.5"), "1.4"),
        (("next week", "soon"), None),
        ((), None),
        (("version 12",), None),
        (("1" * 7 + ".0",), None),
    ],
)
def test_the_first_version_named_in_a_text_counts(texts: tuple[str, ...], version: str | None) -> None:
    assert version_of(*texts) == version


@pytest.mark.parametrize(
    ("summary", "entry"),
    [
        ("# R\n\n## Included Changes\n\n- One\n* Two   words\n\n## Risks\n- None\n", "- One\n- Two words"),
        ("### included changes\n### A-1 First\n- Second\n# End\n- no", "- A-1 First\n- Second"),
        ("- One\n- Two", "- One\n- Two"),
        ("## Included Changes\n\nnothing to speak of\n", "- No changes are named."),
        ("", "- No changes are named."),
    ],
)
def test_an_entry_lists_the_included_changes_of_a_summary(summary: str, entry: str) -> None:
    assert entry_of(summary) == entry


def test_the_number_of_listed_changes_is_bounded() -> None:
    lines = entry_of("\n".join(f"- {number} {'x' * 1000}" for number in range(1000))).split("\n")
    assert (len(lines), max(map(len, lines))) == (MOST_ENTRIES, LONGEST_ENTRY + len("- "))


@pytest.mark.parametrize(
    ("changelog", "result"),
    [
        ("", f"# Changelog\n\n{SECTION}"),
        ("# What is new\n\n\n", f"# What is new\n\n{SECTION}"),
        (OLD, OLD.replace("## 1.2.2", f"{SECTION}\n## 1.2.2")),
    ],
)
def test_a_new_section_comes_before_all_others(changelog: str, result: str) -> None:
    assert with_entry(changelog, "1.2.3", "2026-11-21", ENTRY) == result


@pytest.mark.parametrize("heading", ["## 1.2.3 - 2026-11-20", "## [1.2.3]", "##  v1.2.3", "## [v1.2.3](link)"])
def test_an_existing_section_stays_unchanged(heading: str) -> None:
    assert with_entry(f"{heading}\n\n- Mine.\n", "1.2.3", "2026-11-21", ENTRY) == f"{heading}\n\n- Mine.\n"


@pytest.mark.parametrize("heading", ["## 1.2.3-rc.1", "## 1.2.30", "## 1.2.3.4", "## 11.2.3", "## 1x2.3"])
def test_a_version_with_the_same_prefix_is_another_version(heading: str) -> None:
    assert SECTION in with_entry(f"{heading}\n\n- Other.\n", "1.2.3", "2026-11-21", ENTRY)
