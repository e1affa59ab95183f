"""Read tables that a person wrote: typed values, and all problems at once, with lines and the nearest known names."""

import difflib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from orchestrator.errors import OrchestratorError

T = TypeVar("T")

Path = tuple[str | int, ...]
"""The keys and indexes that lead to a value in a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One problem in one place of a file; `line` counts from 1, 0 means the file as a whole."""

    source: str
    line: int = 0
    text: str

    def __str__(self) -> str:
        return f"{self.source}:{self.line}: {self.text}" if self.line else f"{self.source}: {self.text}"


class DefinitionError(OrchestratorError):
    """Something declared in files cannot be used; `problems` lists everything found, in reading order."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


def definition_error(source: object, text: str, line: int = 0) -> DefinitionError:
    """Return an error about one place of a file."""
    return DefinitionError([Problem(source=str(source), line=line, text=text)])


def nearest(word: str, known: Collection[str]) -> str:
    """Return the hint that ends a message about an unknown word: the nearest known word, else all of them."""
    close = difflib.get_close_matches(word.lower(), [name.lower() for name in known], n=1, cutoff=0.6)
    for name in known:
        if close and name.lower() == close[0]:
            return f"did you mean {name!r}?"
    return f"known: {', '.join(sorted(known)) or 'none'}"


@dataclass(slots=True, kw_only=True)
class Report:
    """The problems of one file, collected while it is read."""

    source: str
    lines: Mapping[Path, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def note(self, path: Path, text: str) -> None:
        """Add a problem at the line of `path`, or of the nearest enclosing table."""
        self.problems.append(Problem(source=self.source, line=self.line(path), text=text))

    def line(self, path: Path) -> int:
        """Return the line of a key, 0 if nothing around it is known."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 0)

    def in_order(self) -> tuple[Problem, ...]:
        """Return the problems in the order of their lines."""
        return tuple(sorted(self.problems, key=lambda problem: problem.line))


class Table:
    """One table of a file: returns checked values by name and records which names were asked for.

    A value that is missing or of the wrong type is reported and replaced by an empty one, so that reading continues.
    """

    def __init__(self, values: Mapping[str, object], report: Report, path: Path = ()) -> None:
        self._values, self.report, self.path = values, report, path
        self._asked: set[str] = set()

    def note(self, name: str, text: str) -> None:
        """Report a problem with the value called `name`."""
        self.report.note((*self.path, name), text)

    def has(self, name: str) -> bool:
        """Return whether the file gives this value."""
        self._asked.add(name)
        return name in self._values

    def is_text(self, name: str) -> bool:
        """Return whether the file gives this value as a string."""
        return self.has(name) and isinstance(self._values[name], str)

    def text(self, name: str) -> str:
        """Return a required string."""
        value = self._value(name, "text in quotes")
        return value if isinstance(value, str) else self._wrong(name, value, "text in quotes", "")

    def maybe_text(self, name: str) -> str | None:
        """Return a string, or None if the file has none."""
        return self.text(name) if self.has(name) else None

    def choice(self, name: str, known: Mapping[str, T], what: str) -> T | None:
        """Return what a word stands for; None if the word is missing, or unknown, which is reported."""
        word = self.maybe_text(name)
        if word is not None and word not in known and self.is_text(name):
            self.note(name, f"unknown {what} {word!r:.80}; {nearest(word, known)}")
        return None if word is None else known.get(word)

    def whole(self, name: str, *, at_least: int = 0, default: int | None = None) -> int:
        """Return an integer of at least `at_least`."""
        if default is not None and not self.has(name):
            return default
        expected = f"a whole number, {at_least} or more"
        value = self._value(name, expected)
        if isinstance(value, int) and not isinstance(value, bool) and value >= at_least:
            return value
        return self._wrong(name, value, expected, at_least)

    def flag(self, name: str, *, default: bool) -> bool:
        """Return a boolean."""
        value = self._values.get(name, default) if self.has(name) else default
        return value if isinstance(value, bool) else self._wrong(name, value, "true or false", default)

    def number(self, name: str, *, default: float) -> float:
        """Return a number, 0 or more."""
        value = self._values.get(name, default) if self.has(name) else default
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf"):
            return value
        return self._wrong(name, value, "a number, 0 or more", default)

    def texts(self, name: str, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
        """Return a list of strings."""
        if default is not None and not self.has(name):
            return default
        expected = "a list of texts"
        value = self._value(name, expected)
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return tuple(value)
        return self._wrong(name, value, expected, ())

    def table(self, name: str) -> "Table":
        """Return a table inside this one; an empty one if the file has none."""
        value = self._values.get(name, {})
        self._asked.add(name)
        if not isinstance(value, dict):
            value = self._wrong(name, value, "a table", {})
        return Table(value, self.report, (*self.path, name))

    def tables(self, name: str) -> "tuple[Table, ...]":
        """Return a list of tables; an empty one if the file has none."""
        value = self._values.get(name, [])
        self._asked.add(name)
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            value = self._wrong(name, value, "a list of tables { … }", [])
        return tuple(Table(item, self.report, (*self.path, name, index)) for index, item in enumerate(value))

    def names(self) -> tuple[str, ...]:
        """Return every key, for tables whose keys are free."""
        self._asked.update(self._values)
        return tuple(self._values)

    def everything(self) -> Mapping[str, object]:
        """Return the unchecked values, for a reader with checks of its own."""
        return self._values

    def done(self) -> None:
        """Report the keys that nobody asked for."""
        for name in self._values.keys() - self._asked:
            self.note(name, f"unknown key {name!r}; {nearest(name, self._asked)}")

    def _value(self, name: str, expected: str) -> object:
        if not self.has(name):
            self.report.note(self.path, f"{name!r} is missing: {expected}")
        return self._values.get(name)

    def _wrong(self, name: str, value: object, expected: str, instead: T) -> T:
        if name in self._values:
            self.note(name, f"{name} = {value!r:.80} must be {expected}")
        return instead
