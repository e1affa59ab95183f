"""A text for people whose values are apart from it, so that it can be said in their language."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Sentence:
    """A text in English with the values that go into it, by their names; as a string it is in English."""

    english: str
    values: Mapping[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.english % self.values
