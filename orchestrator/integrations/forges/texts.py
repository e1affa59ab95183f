"""Texts on their way to a forge, and the hidden mark by which they are found again.

What agents write is published under a person's account. So nothing in it may call people (`@name`), close issues
(`fixes #1`), command the forge (a GitLab line that begins with `/merge`) or hide (HTML comments, and what disguise.py
takes out). A mark stands first in its text, where no agent's words can.
"""

import re

from orchestrator.redaction.display import remove_disguise

LONGEST_TITLE = 250
LONGEST_BODY = 60_000
"""Characters; GitHub takes 256 and 65,536."""

_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9:._-]{0,199}")
_MARK = re.compile(r"<!-- orchestrator:([A-Za-z0-9:._-]{1,200}) -->")
_MENTION = re.compile(r"(?<![\w`])@(?=[A-Za-z0-9_])")
_CLOSING = re.compile(
    r"\b(clos(?:e[sd]?|ing)|fix(?:e[sd]|ing)?|resolv(?:e[sd]?|ing)|implement(?:s|ed|ing)?)(:?\s+)"
    r"(?=(?:[\w.-]+/)*[\w.-]*[#!]\d|GH-\d|https?://)",
    re.IGNORECASE,
)
_COMMAND = re.compile(r"^([ \t]*)/(?=[a-z])", re.MULTILINE)
_BREAK = "\u200b"
"""A space of no width: looks like nothing, and parts what belonged together."""


def with_marker(key: str, text: str) -> str:
    """The text as it is sent, under the mark of its key; ValueError for a key that no mark can hold."""
    if not _KEY.fullmatch(key):
        raise ValueError(f"{key!r:.80} cannot be a key: letters, digits, and : . _ - after the first")
    return f"<!-- orchestrator:{key} -->\n{neutralize(text)}"


def key_of(text: str) -> str | None:
    """The key that a text was sent under, None where it is not ours."""
    match = _MARK.match(text)
    return match[1] if match else None


def neutralize(text: str, limit: int = LONGEST_BODY) -> str:
    """The text without hidden or effective parts, cut to `limit` characters with a note."""
    clean = remove_disguise(text.encode("utf-8", "replace").decode()).replace("<!--", f"<!{_BREAK}--")
    clean = _COMMAND.sub(rf"\1{_BREAK}/", _MENTION.sub(f"@{_BREAK}", _CLOSING.sub(rf"\1\2{_BREAK}", clean)))
    note = "\n\n[… cut here: the whole text was too long]"
    return clean if len(clean) <= limit else clean[: limit - len(note)] + note


def one_line(text: str, limit: int = LONGEST_TITLE) -> str:
    """The text as a title, or as the first line of a commit message."""
    line = neutralize(" ".join(text.split()), 4 * limit)
    return line if len(line) <= limit else line[: limit - 1] + "…"


def same(there: str, wanted: str) -> bool:
    """Whether a text is there as it was sent; forges change ends of lines."""
    return there.replace("\r\n", "\n").strip() == wanted.strip()
