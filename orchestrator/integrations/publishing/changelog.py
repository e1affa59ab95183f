"""CHANGELOG.md and what a release adds to it."""

import re

MOST_ENTRIES = 200
LONGEST_ENTRY = 300

_VERSION = re.compile(r"\bv?([0-9]{1,6}\.[0-9]{1,6}(?:\.[0-9]{1,6})?(?:-[0-9A-Za-z.-]{1,40})?)\b")
_INCLUDED = re.compile(r"^##+\s+Included Changes\s*$", re.IGNORECASE | re.MULTILINE)
_HEADING = re.compile(r"^##?\s", re.MULTILINE)
_ITEM = re.compile(r"^(?:[-*]|###+)\s+(.+)$", re.MULTILINE)
_TITLE = "# Changelog\n"


def version_of(*texts: str) -> str | None:
    """The first version that one of the texts names, without a leading v; None where none does."""
    found = (_VERSION.search(text) for text in texts)
    return next((match[1] for match in found if match), None)


def entry_of(summary: str) -> str:
    """The changes that a summary of a release names as included, as a list."""
    begin = _INCLUDED.search(summary)
    rest = summary[begin.end() :] if begin else summary
    end = _HEADING.search(rest)
    items = _ITEM.findall(rest[: end.start()] if end else rest)[:MOST_ENTRIES]
    return "\n".join(f"- {' '.join(item.split())[:LONGEST_ENTRY]}" for item in items) or "- No changes are named."


def with_entry(changelog: str, version: str, date: str, entry: str) -> str:
    """The changelog with a version's section before all others; one that is there already stays as it is."""
    if re.search(rf"^##\s+\[?v?{re.escape(version)}(?![0-9A-Za-z.+-])", changelog, re.MULTILINE):
        return changelog
    section = f"## {version} - {date}\n\n{entry}\n"
    text = changelog or _TITLE
    first = re.search(r"^##\s", text, re.MULTILINE)
    if first:
        return f"{text[: first.start()]}{section}\n{text[first.start() :]}"
    return f"{text.rstrip()}\n\n{section}"
