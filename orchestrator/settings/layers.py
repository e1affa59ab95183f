"""Where settings come from: layers of values, each from a file, from variables or from options."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.formats.table import Path as Where
from orchestrator.formats.toml import read_toml
from orchestrator.pipelines.definition_files import read_declared


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """The values set in one place; `lines` says on which lines, if it is a file."""

    source: str
    values: Mapping[str, object]
    lines: Mapping[Where, int] = field(default_factory=dict)

    def sets(self, path: Where) -> bool:
        """Return whether the value at a path of keys is set here."""
        here: object = self.values
        for key in path:
            if not isinstance(here, Mapping) or key not in here:
                return False
            here = here[key]
        return True

    def line_of(self, path: Where) -> int:
        """Return the line that sets the value at a path of keys, or a table around it; 0 if that is not known."""
        return next((self.lines[path[:end]] for end in range(len(path), 0, -1) if path[:end] in self.lines), 0)


def layer_of_file(path: Path) -> Layer:
    """Return what a settings file sets. Raises DefinitionError."""
    table = read_toml(read_declared(path), str(path))
    return Layer(source=str(path), values=table.everything(), lines=table.report.lines)


def layer_that_sets(layers: Sequence[Layer], path: Where) -> Layer | None:
    """Return the last layer that sets the value at a path of keys; None if none does."""
    return next((layer for layer in reversed(layers) if layer.sets(path)), None)


def merge(lower: Mapping[str, object], upper: Mapping[str, object]) -> dict[str, object]:
    """Return both merged: tables key by key, any other value from the upper one if it sets it."""
    merged = dict(lower)
    for key, value in upper.items():
        below = merged.get(key)
        merged[key] = merge(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return merged
