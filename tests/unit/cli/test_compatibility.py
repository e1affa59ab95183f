"""The page of compatibility names only tests that there are, and each row says something that can be looked up."""

import re
from pathlib import Path

from orchestrator.cli.commands.help import read_pages
from tests.documents import SPAN

ROOT = Path(__file__).parents[2]
FILES = [*ROOT.rglob("test_*.py")]
TEXT = "\n".join(path.read_text(encoding="utf-8") for path in FILES)
KNOWN = {path.name for path in FILES} | set(re.findall(r"^(?:async )?def test_(\w+)", TEXT, re.MULTILINE))


def rows() -> list[list[str]]:
    page = read_pages()["compatibility"]
    return [line.strip("|").split("|") for line in page.splitlines() if line.startswith("| ") and "---" not in line]


def test_every_test_that_is_named_exists() -> None:
    named = [name for row in rows() for name in SPAN.findall(row[2])]
    assert [name for name in named if name not in KNOWN] == []


def test_every_row_names_a_test_unless_it_is_missing_here() -> None:
    body = [row for row in rows() if "what it says" not in row[0]]
    assert len(body) > 60
    assert [row[0] for row in body if not SPAN.findall(row[2]) and "**missing**" not in row[1]] == []
