"""Code in colours: which part of which line is a keyword, a text, a comment …, found by Pygments.

Only languages of the list below are read: their lexers take time in proportion to the text, whatever it is (a test
tries to slow each of them down). Beyond the bounds code stays without colours.
"""

from collections.abc import Mapping
from functools import lru_cache
from math import inf
from time import monotonic

from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.token import (
    Comment,
    Generic,
    Keyword,
    Literal,
    Name,
    Operator,
    String,
    _TokenType,
)

MOST_LETTERS, LONGEST_LINE = 100_000, 1_000
"""Characters of a text, and of its longest line, beyond which it stays without colours."""
LONGEST_TIME = 0.5
"""Seconds."""

Span = tuple[str, str]
"""A class of the style sheet, "" for none, and a text."""

_ENDINGS: Mapping[str, str] = {
    "python": "py pyi",
    "javascript": "js mjs cjs jsx",
    "typescript": "ts tsx mts",
    "c": "c h",
    "cpp": "cc cpp cxx hpp hh",
    "bash": "sh bash zsh",
    "yaml": "yml yaml",
    "ini": "ini cfg service",
    "kotlin": "kt kts",
    "rust": "rs",
    "ruby": "rb",
    "csharp": "cs",
    "diff": "diff patch",
    "json": "json jsonl",
    "xml": "xml svg",
    "html": "html",
    "toml": "toml",
    "css": "css",
    "go": "go",
    "java": "java",
    "sql": "sql",
    "swift": "swift",
    "lua": "lua",
    "php": "php",
    "docker": "dockerfile",
    "make": "makefile",
}
LANGUAGES: Mapping[str, str] = {ending: name for name, endings in _ENDINGS.items() for ending in endings.split()}
"""The lexer for the ending of a file name, or for the whole name."""
_NAMES = frozenset(LANGUAGES.values())

_CLASSES: Mapping[_TokenType, str] = {
    Comment: "t-comment",
    Keyword: "t-keyword",
    Operator.Word: "t-keyword",
    Literal: "t-number",
    String: "t-text",
    Name.Function: "t-name",
    Name.Class: "t-name",
    Name.Decorator: "t-name",
    Name.Attribute: "t-name",
    Name.Tag: "t-keyword",
    Name.Builtin: "t-builtin",
    Generic.Inserted: "t-text",
    Generic.Deleted: "t-keyword",
    Generic.Heading: "t-name",
    Generic.Subheading: "t-name",
}
CLASSES = frozenset(_CLASSES.values())


def language_of(name: str) -> str:
    """Return the language that a file name or a word after ``` stands for; "" for one that is not known."""
    last = name.rpartition("/")[2].lower()
    ending = last.rpartition(".")[2]
    return LANGUAGES.get(ending) or (ending if ending in _NAMES else "")


def coloured(language: str, text: str, until: float | None = None) -> list[list[Span]] | None:
    """Return the spans of each line of a text; None where it stays without colours.

    `until` is when whoever asks must be done with all of its texts, as `time.monotonic` counts.
    """
    if not language or len(text) > MOST_LETTERS or max(map(len, text.split("\n"))) > LONGEST_LINE:
        return None
    lines: list[list[Span]] = [[]]
    lexer = _lexer(language)
    last = min(monotonic() + LONGEST_TIME, until or inf)
    for _, kind, value in lexer.get_tokens_unprocessed(text + "\n"):
        if monotonic() > last:
            return None
        name = _class(kind)
        first, *others = value.split("\n")
        _append(lines[-1], name, first)
        for other in others:
            lines.append([])
            _append(lines[-1], name, other)
    wanted = text.count("\n") + 1
    return lines[:wanted] if len(lines) > wanted else None


def _append(line: list[Span], name: str, text: str) -> None:
    """Add a text to a line; neighbours of one class become one span."""
    if text and line and line[-1][0] == name:
        line[-1] = (name, line[-1][1] + text)
    elif text:
        line.append((name, text))


@lru_cache(maxsize=1024)
def _class(kind: _TokenType) -> str:
    """Return the class of a kind of token, or of the nearest kind above it that has one."""
    at: _TokenType | None = kind
    while at is not None:
        if at in _CLASSES:
            return _CLASSES[at]
        at = at.parent
    return ""


@lru_cache(maxsize=64)
def _lexer(language: str) -> Lexer:
    return get_lexer_by_name(language)
