"""Markdown written by strangers: what a person sees of it on a tracker's page, and where code begins and ends.

Anybody who can write to a tracker can write to an agent through it. So an agent gets what a person sees and little
else: no control characters, no bidirectional overrides, no invisible characters, no comments. Code is found line by
line, so a page that is built to mislead may be parsed differently from what is displayed.
"""

import re
from collections.abc import Iterator

_LINE_ENDS = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_INVISIBLE = re.compile(
    "[\0-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ud800-\udfff"
    "\U000e0000-\U000e0fff]"
)
_OPENING = re.compile(r"(?P<indent>[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]{1,4})*)(?P<mark>`{3,}|~{3,})(?P<rest>.*)")
_CLOSING = re.compile(r"[ \t]*(?P<mark>`{3,}|~{3,})[ \t]*")
_WIKI_CODE = re.compile(r"\{(?:code|noformat)(?:[:|][^}\n]{0,200})?\}")
_UNSEEN_LINE = re.compile(r" {0,3}\[[^\]]{1,200}\]:[ \t]*(?:<>|#\S*)(?:[ \t].*)?")
"""The other way to write a comment, a link definition that leads nowhere: [//]: # (like this)."""
_CODE_OR_HIDDEN = re.compile(r"\\[`<]|(?<!`)(?P<ticks>`++)[^`]++(?P=ticks)(?!`)|(?P<hidden><!--)")


def cleaned(text: str) -> str:
    """Return the text with plain line ends and without invisible characters."""
    return _INVISIBLE.sub("", _LINE_ENDS.sub("\n", text))


def visible(markdown: str) -> str:
    """Return the text as its page shows it: without comments, except those in code."""
    return "\n".join(_visible_lines(cleaned(markdown))).strip("\n")


def open_fence(line: str, fence: str) -> str:
    """Return the mark of the code block that is open after a line, "" if none is; `fence` is the one open before it.

    A block that is indented, as below a list item, ends where the indentation ends; its mark begins with a space.
    Jira's {code} and {noformat} count as fences.
    """
    if fence.startswith(" ") and line[:1].strip():
        fence = ""
    if not fence and (mark := _OPENING.match(line)):
        if mark["mark"][0] == "`" and "`" in mark["rest"]:
            return ""
        return f" {mark['mark']}" if mark["indent"] else mark["mark"]
    if (mark := _CLOSING.fullmatch(line)) and fence and mark["mark"].startswith(fence.lstrip()):
        return ""
    if fence == "{" or (not fence and _WIKI_CODE.match(line.lstrip())):  # amid a line it may be part of an address
        odd = len(_WIKI_CODE.findall(line)) % 2
        return ("" if fence else "{") if odd else fence
    return fence


def _visible_lines(text: str) -> Iterator[str]:
    fence, hidden = "", False
    for line in text.split("\n"):
        was_hidden = hidden
        if not hidden and (fence := open_fence(line, fence)):
            yield line
            continue
        if not hidden and _UNSEEN_LINE.fullmatch(line):
            continue
        left, hidden = _without_comments(line, hidden=hidden)
        if left.strip() or (left == line and not was_hidden):
            yield left


def _without_comments(line: str, *, hidden: bool) -> tuple[str, bool]:
    """Return the visible part of a line, and whether a comment is open at its end."""
    seen: list[str] = []
    at = 0
    while at < len(line):
        if hidden:
            end = line.find("-->", at)
            if end < 0:
                return "".join(seen), True
            at, hidden = end + len("-->"), False
            continue
        found = (match.start() for match in _CODE_OR_HIDDEN.finditer(line, at) if match["hidden"])
        begin = next(found, len(line))
        seen.append(line[at:begin])
        at, hidden = begin + len("<!--"), begin < len(line)
    return "".join(seen), hidden
