"""Texts sent to a forge, and the hidden marker by which they are found again.

What agents write is published under a person's account. So it must not mention people (`@name`), close issues
(`fixes #1`), command the forge (a GitLab line that begins with `/merge`), hide text (HTML, definitions of links,
invisible characters), load an image from elsewhere when somebody looks at it, or write any of this with character
references (`&#64;name`). A zero-width space in the right place does that; what a person reads stays the same, except
that HTML is shown as it was written. The marker is the first thing in a text, where no agent can write.
"""

import re

from orchestrator.redaction.display import remove_disguise

LONGEST_TITLE = 250
LONGEST_BODY = 60_000
"""Characters; GitHub takes 256 and 65,536."""

_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9:._-]{0,199}")
_MARK = re.compile(r"<!-- orchestrator:([A-Za-z0-9:._-]{1,200}) -->")
_MENTION = re.compile(r"(?<!\w)@(?=[A-Za-z0-9_])")
_REFERENCE = re.compile(r"&(?=#|(?!(?:lt|gt|amp|quot);)[A-Za-z])")
_MARKUP = re.compile(r"<(?=[A-Za-z/?]|![A-Za-z\[])|!(?=\[)|\](?=:)")
"""Where HTML, an image, or the definition of a link begins, which is not shown."""
_CLOSING = re.compile(
    r"\b(clos(?:e[sd]?|ing)|fix(?:e[sd]|ing)?|resolv(?:e[sd]?|ing)|implement(?:s|ed|ing)?)(:?\s+)"
    r"(?=[\[(<*_~`\"'\\]{0,8}(?:(?:[\w.-]{1,100}/){0,20}[\w.-]{0,100}[#!]\d|GH-\d|https?://))",
    re.IGNORECASE,
)
_COMMAND = re.compile(r"^([ \t]*)/(?=[a-z])", re.MULTILINE)
_BREAK = "\u200b"
"""A zero-width space: invisible, and separates what must not be read together."""


def with_marker(key: str, text: str) -> str:
    """Return the text with the marker of its key. Raises ValueError for an invalid key."""
    if not _KEY.fullmatch(key):
        raise ValueError(f"{key!r:.80} cannot be a key: letters, digits, and : . _ - after the first")
    return f"<!-- orchestrator:{key} -->\n{neutralize(text)}"


def key_of(text: str) -> str | None:
    """Return the key of a text that was sent with a marker, None for any other text."""
    match = _MARK.match(text)
    return match[1] if match else None


def neutralize(text: str) -> str:
    """Return the text without mentions, commands, images and hidden parts, cut to its longest with a note."""
    clean = _MARKUP.sub(rf"\g<0>{_BREAK}", _without_effects(text))
    note = "\n\n[… cut here: the whole text was too long]"
    return clean if len(clean) <= LONGEST_BODY else clean[: LONGEST_BODY - len(note)] + note


def one_line(text: str, limit: int = LONGEST_TITLE) -> str:
    """Return the text on one line, as a title or the first line of a commit message."""
    line = _without_effects(" ".join(text[: 8 * limit].split()))
    return line if len(line) <= limit else line[: limit - 1] + "…"


def _without_effects(text: str) -> str:
    """Return the text without mentions, commands to the forge, and character references that could hide them."""
    clean = remove_disguise(text.encode("utf-8", "replace").decode()).replace("<!--", f"<!{_BREAK}--")
    clean = _REFERENCE.sub(f"&{_BREAK}", clean)
    return _COMMAND.sub(rf"\1{_BREAK}/", _MENTION.sub(f"@{_BREAK}", _CLOSING.sub(rf"\1\2{_BREAK}", clean)))


def same(there: str, wanted: str) -> bool:
    """Return whether two texts are equal, except for line ends, which forges change."""
    return there.replace("\r\n", "\n").strip() == wanted.strip()
