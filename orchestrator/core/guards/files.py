"""Guards that judge the artifacts which a stage left."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import ClassVar

from orchestrator.core.task.guards import Evidence, FileFacts, Guard
from orchestrator.core.task.task import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class _FileGuard(Guard):
    """A guard of one artifact, which must exist."""

    file_keys: ClassVar[tuple[str, ...]] = ("file",)
    file: str

    def missing(self, task: Task, evidence: Evidence) -> tuple[str, ...]:
        """Return what the file lacks, or that it was not found."""
        name = task.fill(self.file)
        facts = evidence.files.get(name)
        lack = "not found" if facts is None else self._lack(facts)
        return (f"{name} {lack}",) if lack else ()

    @abstractmethod
    def _lack(self, facts: FileFacts) -> str:
        """Return what the file lacks, to be read after its name; empty if nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileExists(_FileGuard):
    """An artifact exists."""

    def _lack(self, facts: FileFacts) -> str:
        del facts
        return ""

    def describe(self) -> str:
        return f"{self.file} is there"

    def sample_files(self) -> Mapping[str, FileFacts]:
        """Return a short file."""
        return {self.file: FileFacts(chars=100)}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileMinChars(_FileGuard):
    """An artifact holds more than so many characters."""

    more_than: int

    def _lack(self, facts: FileFacts) -> str:
        enough = facts.chars > self.more_than
        return "" if enough else _too_short(facts, self.more_than)

    def describe(self) -> str:
        return f"{self.file} has more than {self.more_than} characters"

    def sample_files(self) -> Mapping[str, FileFacts]:
        """Return a file that is just long enough."""
        return {self.file: FileFacts(chars=self.more_than + 1)}


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadingCount(_FileGuard):
    """So many headings of an artifact begin with `prefix`."""

    prefix: str
    at_least: int = field(default=1, metadata={"minimum": 1})

    def _lack(self, facts: FileFacts) -> str:
        found = sum(heading.startswith(self.prefix) for heading in facts.headings)
        enough = found >= self.at_least
        return "" if enough else f"has {found} of {self.at_least} lines beginning '{self.prefix}'"

    def describe(self) -> str:
        return f'{self.file} has {_at_least(self.at_least, "line")} beginning "{self.prefix}"'

    def sample_files(self) -> Mapping[str, FileFacts]:
        """Return a file with as many headings as needed."""
        headings = tuple(f"{self.prefix} {number}" for number in range(1, self.at_least + 1))
        return {self.file: FileFacts(chars=1000, headings=headings)}


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonNonempty(_FileGuard):
    """An artifact is a JSON object in which at least one of these keys has a value."""

    any_of: tuple[str, ...]

    def _lack(self, facts: FileFacts) -> str:
        if facts.json_filled is None:
            return "is not a JSON object"
        filled = set(self.any_of) & set(facts.json_filled)
        return "" if filled else f"is empty: fill at least one of {', '.join(self.any_of)}"

    def describe(self) -> str:
        return f"{self.file} has one of {', '.join(self.any_of)}"

    def sample_files(self) -> Mapping[str, FileFacts]:
        """Return a JSON file with one key filled."""
        return {self.file: FileFacts(chars=100, json_filled=self.any_of[:1])}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSays(_FileGuard):
    """An artifact contains a text, letter for letter."""

    text: str

    def _lack(self, facts: FileFacts) -> str:
        return "" if self.text in facts.found else f"does not say {self.text!r}"

    def describe(self) -> str:
        return f'{self.file} says "{self.text}"'

    def sought(self) -> tuple[str, ...]:
        """Return the text."""
        return (self.text,)

    def sample_files(self) -> Mapping[str, FileFacts]:
        """Return a file with the text."""
        return {self.file: FileFacts(chars=100, found=(self.text,))}


@dataclass(frozen=True, slots=True, kw_only=True)
class _PatternGuard(Guard):
    """A guard of the artifacts and documents whose name matches `pattern`."""

    file_keys: ClassVar[tuple[str, ...]] = ("pattern",)
    pattern: str

    def _matching(self, task: Task, evidence: Evidence) -> dict[str, FileFacts]:
        pattern = task.fill(self.pattern)
        return {name: facts for name, facts in evidence.files.items() if fnmatchcase(name, pattern)}


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobCount(_PatternGuard):
    """So many files have a name that matches `pattern`."""

    at_least: int = field(default=1, metadata={"minimum": 1})

    def missing(self, task: Task, evidence: Evidence) -> tuple[str, ...]:
        """Return how many of the files were found."""
        found = len(self._matching(task, evidence))
        return () if found >= self.at_least else (f"{self.pattern}: {found} of {self.at_least} files found",)

    def describe(self) -> str:
        return f"{_at_least(self.at_least, 'file')} {self.pattern} {'is' if self.at_least == 1 else 'are'} there"

    def sample_files(self) -> Mapping[str, FileFacts]:
        """Return as many files as needed, numbered from one."""
        numbers = range(1, self.at_least + 1)
        return {self.pattern.replace("*", str(number)): FileFacts(chars=300) for number in numbers}


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesMinChars(_PatternGuard):
    """Every file whose name matches `pattern` holds more than so many characters."""

    more_than: int

    def missing(self, task: Task, evidence: Evidence) -> tuple[str, ...]:
        """Return the files that are too short."""
        found = self._matching(task, evidence)
        short = {name: facts for name, facts in found.items() if facts.chars <= self.more_than}
        return tuple(f"{name} {_too_short(facts, self.more_than)}" for name, facts in sorted(short.items()))

    def describe(self) -> str:
        return f"{self.pattern} have more than {self.more_than} characters each"

    def sample_files(self) -> Mapping[str, FileFacts]:
        """Return a file that is just long enough."""
        return {self.pattern.replace("*", "1"): FileFacts(chars=self.more_than + 1)}


@dataclass(frozen=True, slots=True, kw_only=True)
class NoPlaceholders(_PatternGuard):
    """No file whose name matches `pattern` holds one of these words, letter for letter."""

    words: tuple[str, ...] = ("TODO", "TBD", "FIXME", "[insert", "[Insert", "Coming soon", "coming soon", "Lorem ipsum")

    def missing(self, task: Task, evidence: Evidence) -> tuple[str, ...]:
        """Return the files with such words, and which ones."""
        found = {
            name: [word for word in self.words if word in facts.found]
            for name, facts in sorted(self._matching(task, evidence).items())
        }
        return tuple(f"{name} still says {', '.join(words)}" for name, words in found.items() if words)

    def describe(self) -> str:
        return f"{self.pattern} have no placeholders"

    def sought(self) -> tuple[str, ...]:
        """Return the words."""
        return self.words


def _too_short(facts: FileFacts, more_than: int) -> str:
    return f"has {facts.chars} characters, more than {more_than} needed"


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesValid(_PatternGuard):
    """Every file whose name matches `pattern` is what the family of the pipeline expects of it."""

    def missing(self, task: Task, evidence: Evidence) -> tuple[str, ...]:
        """Return what is wrong with these files."""
        found = sorted(self._matching(task, evidence).items())
        return tuple(f"{name}: {problem}" for name, facts in found for problem in facts.problems[:10])

    def describe(self) -> str:
        return f"{self.pattern} is valid"


def _at_least(count: int, what: str) -> str:
    return f"a {what}" if count == 1 else f"{count} or more {what}s"
