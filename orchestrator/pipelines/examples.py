"""Examples of files in the text of a role: below a heading that names the file, indented or fenced.

An agent learns from them what to leave, so tests and the demo give them to the same readers that gates use.
"""

import re
from collections.abc import Iterator, Mapping

_NAMED = re.compile(r"`?(?P<name>[A-Za-z0-9_<>*-]+\.[a-z]{2,5})(?![\w-]).*")
_FENCE = re.compile(r"(?P<marks>`{3,}|~{3,})[^`~]*")
_INDENT = " " * 4


def examples_in(text: str) -> Mapping[str, str]:
    """Return the first code block below each line that begins with a file's name, by that name.

    Such a line is a heading (`## solution.json`) or a paragraph that begins with the name in backticks.
    """
    found: dict[str, str] = {}
    name = ""
    lines = iter(text.splitlines())
    for line in lines:
        if named := _NAMED.fullmatch(line.removeprefix("## ").strip()) if line[:1] in "#`" and line else None:
            name = named["name"]
        elif name and (fence := _FENCE.fullmatch(line.strip())):
            found.setdefault(name, "\n".join(_until(lines, fence["marks"])) + "\n")
            name = ""
        elif name and line.startswith(_INDENT) and line.strip():
            found.setdefault(name, "\n".join(_indented(line, lines)).rstrip() + "\n")
            name = ""
        elif line.startswith("#"):
            name = ""
    return found


def _until(lines: Iterator[str], marks: str) -> Iterator[str]:
    """Yield the lines up to the end of a fence."""
    for line in lines:
        if line.strip().startswith(marks) and not line.strip().strip(marks[0]):
            return
        yield line


def _indented(first: str, lines: Iterator[str]) -> Iterator[str]:
    """Yield the lines of an indented block, without the indent."""
    yield first[len(_INDENT) :]
    for line in lines:
        if line.strip() and not line.startswith(_INDENT):
            return
        yield line[len(_INDENT) :]
