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
        del task
        facts = evidence.files.get(self.file)
        lack = f"{self.file} not found" if facts is None else self._lack(facts)
        return (lack,) if lack else ()

    @abstractmethod
    def _lack(self, facts: FileFacts) -> str:
        """Return what the file lacks; empty if nothing."""


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
        return "" if enough else f"{self.file} has {facts.chars} characters, more than {self.more_than} needed"

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
        return "" if enough else f"{self.file} has {found} of {self.at_least} lines beginning '{self.prefix}'"

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
            return f"{self.file} is not a JSON object"
        filled = set(self.any_of) & set(facts.json_filled)
        return "" if filled else f"{self.file} is empty: fill at least one of {', '.join(self.any_of)}"

    def describe(self) -> str:
        return f"{self.file} has one of {', '.join(self.any_of)}"

    def sample_files(self) -> Mapping[str, FileFacts]:
        """Return a JSON file with one key filled."""
        return {self.file: FileFacts(chars=100, json_filled=self.any_of[:1])}


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobCount(Guard):
    """So many artifacts have a name that matches `pattern`."""

    file_keys: ClassVar[tuple[str, ...]] = ("pattern",)
    pattern: str
    at_least: int = field(default=1, metadata={"minimum": 1})

    def missing(self, task: Task, evidence: Evidence) -> tuple[str, ...]:
        """Return how many of the files were found."""
        del task
        found = sum(fnmatchcase(name, self.pattern) for name in evidence.files)
        return () if found >= self.at_least else (f"{self.pattern}: {found} of {self.at_least} files found",)

    def describe(self) -> str:
        return f"{_at_least(self.at_least, 'file')} {self.pattern} {'is' if self.at_least == 1 else 'are'} there"

    def sample_files(self) -> Mapping[str, FileFacts]:
        """Return as many files as needed, numbered from one."""
        numbers = range(1, self.at_least + 1)
        return {self.pattern.replace("*", str(number)): FileFacts(chars=300) for number in numbers}


def _at_least(count: int, what: str) -> str:
    return f"a {what}" if count == 1 else f"{count} or more {what}s"
