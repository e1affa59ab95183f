"""Front matter: the YAML between two lines of dashes at the beginning of a Markdown file.

YAML is parsed only as far as its node tree. Anchors, aliases and tags are refused there, so that nothing in a file can
expand or construct anything.
"""

import re
from collections.abc import Iterable

import yaml

from orchestrator.formats.table import Path as Where
from orchestrator.formats.table import Problem, Report, Table, definition_error

LARGEST_FRONT_MATTER = 8 * 1024
"""Characters between the two lines of dashes."""
_OPENING = re.compile(r"---[^\S\n\r]*(?=[\n\r])")
_CLOSING = re.compile(r"[\n\r]---[^\S\n\r]*(?=[\n\r]|\Z)")
DEEPEST = 8
"""Levels of nested lists and mappings; the parser's work grows with the square of it."""


def read_front_matter(text: str, source: str) -> tuple[Table, str] | None:
    """Return the front matter of a text as a table, and the text below it; None if there is no front matter.

    Raises DefinitionError if it is not a plain YAML mapping.
    """
    text = text.removeprefix("\ufeff")
    opening = _OPENING.match(text)
    closing = _CLOSING.search(text, opening.end()) if opening else None
    if opening is None or closing is None:
        return None
    front = text[opening.end() : closing.start()]
    if len(front) > LARGEST_FRONT_MATTER + 2:  # with the line break above it
        raise definition_error(source, f"the front matter is longer than {LARGEST_FRONT_MATTER // 1024} KiB", 1)
    return _table("\n".join(front.splitlines()[1:]), source), "\n".join(text[closing.end() :].splitlines()[1:])


def _table(text: str, source: str) -> Table:
    """Return the front matter as a table of strings, integers and lists of strings, with the line of each key.

    Raises DefinitionError if it is not a plain YAML mapping.
    """
    report = Report(source=source)
    values: dict[str, object] = {}
    lines: dict[Where, int] = {}
    for key, node in _nodes(text, source):
        name = str(key.value)
        lines[name,] = key.start_mark.line + 2  # from 0, and below the first dashes
        value = _plain(node)
        if name in values:
            report.problems.append(Problem(source=source, line=lines[name,], text=f"{name} is said twice"))
        if value is not None:
            values[name] = value
    report.lines = lines
    return Table(values, report)


def _nodes(text: str, source: str) -> list[tuple[yaml.Node, yaml.Node]]:
    """Return key and value of each entry as YAML nodes, from which nothing has been constructed."""
    try:
        _must_be_plain(yaml.parse(text, Loader=yaml.SafeLoader), source)
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 2 if error.problem_mark else 1
        raise definition_error(source, f"this is not YAML: {error.problem}; put the text in quotes", line) from error
    except yaml.YAMLError as error:
        raise definition_error(source, f"this is not YAML: {error}", 1) from error
    if root is None:
        return []
    if not isinstance(root, yaml.MappingNode):
        raise definition_error(source, "the front matter must be lines of the form key: value", 1)
    return list(root.value)


def _must_be_plain(events: Iterable[yaml.Event], source: str) -> None:
    """Refuse anchors, aliases, tags and deep nesting at their beginning, before anything after them is parsed."""
    depth = 0
    for event in events:
        line = event.start_mark.line + 2 if event.start_mark else 1
        if isinstance(event, yaml.NodeEvent) and (event.anchor or getattr(event, "tag", None)):
            said = "anchors (&), aliases (*) and tags (!) have no place in front matter; put the text in quotes"
            raise definition_error(source, said, line)
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise definition_error(source, "the front matter is nested too deeply; put the text in quotes", line)


def _plain(node: yaml.Node) -> object:
    """Return a string, an integer, a list of strings, or None if empty; {} for anything else, which no key accepts."""
    match node:
        case yaml.ScalarNode(tag="tag:yaml.org,2002:null"):
            return None
        case yaml.ScalarNode(tag="tag:yaml.org,2002:int", value=value) if value.isascii() and value.isdecimal():
            return int(value[:18])
        case yaml.ScalarNode(value=value):
            return value
        case yaml.SequenceNode(value=items) if all(isinstance(item, yaml.ScalarNode) for item in items):
            return [item.value for item in items]
        case _:
            return {}
