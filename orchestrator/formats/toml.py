"""TOML with the line of each table, key and array element.

`tomllib` gives values without positions. So the text is scanned a second time after `tomllib` accepted it; the scan
needs only a stack of open brackets, the key being read and the current header. Its result is used to name a line in a
message, never to read a value.
"""

import re
import tomllib

from orchestrator.formats.table import DefinitionError, Path, Problem, Report, Table

_TOKEN = re.compile(
    r"""(?P<comment>\#[^\n]*)
      | (?P<newline>\n)
      | (?P<word>\"{3}(?:\\.|[^\\])*?\"{3,5} | '{3}.*?'{3,5} | "(?:\\.|[^"\\\n])*" | '[^'\n]*' | [^\s\[\]{},=."'#]+)
      | (?P<mark>[\[\]{},=.])""",
    re.DOTALL | re.VERBOSE,
)


def read_toml(text: str, source: str) -> Table:
    """Return the whole text as one table. Raises DefinitionError with the line if it is not TOML."""
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        at = re.search(r"\(at line (\d+), column \d+\)$", str(error))
        raise DefinitionError(
            [Problem(source=source, line=int(at[1]) if at else 0, text=f"this is not TOML: {error}")]
        ) from error
    except RecursionError as error:
        raise DefinitionError([Problem(source=source, text="lists or tables are nested too deeply")]) from error
    return Table(values, Report(source=source, lines=line_numbers(text)))


def line_numbers(text: str) -> dict[Path, int]:
    """Return the line, from 1, of every table, key and array element of a text that `tomllib` accepted."""
    walk = _Walk()
    for token in _TOKEN.finditer(text):
        match token.lastgroup:
            case "word":
                walk.word(token[0])
            case "mark":
                walk.mark(token[0])
            case "newline":
                walk.newline()
        walk.line += token[0].count("\n")
    return walk.lines


class _Walk:
    """The position in the text: `key` is read until `=`, `open` holds the unclosed brackets of the value after it."""

    def __init__(self) -> None:
        self.line = 1
        self.lines: dict[Path, int] = {}
        self.header: Path = ()
        self.heading = 0
        self.key: list[str] = []
        self.in_value = False
        self.open: list[tuple[str, Path]] = []
        self.elements: dict[Path, int] = {}

    def word(self, word: str) -> None:
        """Take in part of a key, or a plain value."""
        if self.in_value:
            self._element()
        else:
            self.key.append(word.strip("\"'"))

    def newline(self) -> None:
        """Take in the end of a header or of a plain value; inside brackets it means nothing."""
        if not self.open:
            self.in_value, self.heading, self.key = False, 0, []

    def mark(self, mark: str) -> None:
        """Take in a character that structures the text."""
        if not self.in_value and not self.open and mark in "[]":
            self._heading(mark)
        elif mark == "=":
            self.in_value = True
            self._note(self._path())
        elif mark in "[{":
            self._element()
            self.open.append((mark, self._path()))
            self.key, self.in_value = [], mark == "["
        elif mark in "]}":
            _, path = self.open.pop()
            self.in_value = True
            self.key = []
            self.elements.pop(path, None)
        elif mark == "," and self.open:
            bracket, path = self.open[-1]
            self.key, self.in_value = [], bracket == "["
            self.elements[path] = self.elements.get(path, 0) + 1

    def _heading(self, mark: str) -> None:
        if mark == "[":
            self.heading += 1
            self.key = []
        elif self.key:
            array = self.heading == 2
            self.header = self._numbered(tuple(self.key), array)
            self.key = []
            self._note(self.header)

    def _numbered(self, parts: tuple[str, ...], array: bool) -> Path:
        """The header's path with the index of the current element after every array of tables in it."""
        path: Path = ()
        for number, part in enumerate(parts, start=1):
            path = (*path, part)
            if array and number == len(parts):
                self.elements[path] = self.elements.get(path, -1) + 1
            if path in self.elements:
                path = (*path, self.elements[path])
        return path

    def _path(self) -> Path:
        """The path of the key or element being read."""
        if not self.open:
            return (*self.header, *self.key)
        bracket, path = self.open[-1]
        return (*path, *self.key) if bracket == "{" else (*path, self.elements.get(path, 0))

    def _element(self) -> None:
        if self.open and self.open[-1][0] == "[":
            self._note(self._path())

    def _note(self, path: Path) -> None:
        for length in range(1, len(path) + 1):
            self.lines.setdefault(path[:length], self.line)
