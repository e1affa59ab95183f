"""Texts made harmless to read: what would display otherwise than it is becomes visible, or is left out."""

import re

from orchestrator.redaction.display import remove_disguise

_ODD = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff"
    r"\U000e0000-\U000e0fff]"
)
_BROKEN = re.compile("[\ud800-\udfff]")


def marked(text: str) -> str:
    """Return code with each invisible or misleading character replaced by its number, as ⟨U+202E⟩."""
    return _ODD.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", text)


def plain(text: str) -> str:
    """Return prose or the output of a program without colours, control characters and disguises."""
    return _BROKEN.sub("\ufffd", remove_disguise(text))
