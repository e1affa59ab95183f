"""README and the help pages, and what tests read in them."""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HELP = ROOT / "orchestrator/help"
DOCUMENTS = {"README.md": ROOT / "README.md"} | {path.name: path for path in sorted(HELP.glob("*.md"))}
LINK = re.compile(r"\]\(([^)#\s]+)\)")
SPAN = re.compile(r"`([^`\n]+)`")


def text_of(document: str) -> str:
    """Return the Markdown of README or of a page."""
    return DOCUMENTS[document].read_text("utf-8")


def blocks(text: str) -> Iterator[str]:
    """Yield each indented code block, without its indentation."""
    for found in re.findall(r"(?:^ {4}.*\n|^\n(?= {4}))+", text + "\n", re.MULTILINE):
        yield re.sub(r"^ {4}", "", found, flags=re.MULTILINE).strip("\n")


def block_with(document: str, begins: str) -> str:
    """Return the one code block of a document that has a line beginning so."""
    (found,) = (block for block in blocks(text_of(document)) if re.search(f"^{re.escape(begins)}", block, re.MULTILINE))
    return found
