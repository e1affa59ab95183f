"""Pipelines and roles read from folders: the bundled ones, hidden by those of the machine and of the user, by name.

YAML is read no further than its node tree: anchors, aliases and tags are refused there, so nothing in a role file can
grow or construct anything.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

import yaml

from orchestrator.core.errors import OrchestratorError
from orchestrator.core.pipeline import Pipeline
from orchestrator.core.pipeline_file import parse_pipeline
from orchestrator.core.pipeline_rules import check_roles
from orchestrator.core.role import Role, read_role
from orchestrator.core.table import DefinitionError, Problem, Report, Table
from orchestrator.core.table import Path as Where
from orchestrator.declared import Folders, read_declared, refusal

LARGEST_FRONT_MATTER = 64 * 1024
"""Characters between the two lines of dashes."""

T = TypeVar("T")


class UnknownRole(OrchestratorError):
    """A role that a task needs is not declared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Definitions:
    """Every pipeline and role there is, by name; each pipeline's roles are known to be among them."""

    pipelines: Mapping[str, Pipeline]
    roles: Mapping[str, Role]


class Declared:
    """The last good definitions of some folders; raises DefinitionError if there are none to begin with."""

    def __init__(self, folders: Folders) -> None:
        self._folders = folders
        self.now = load_definitions(folders)

    def role(self, name: str) -> Role:
        """A role as it is declared now; raises UnknownRole."""
        if name not in self.now.roles:
            raise UnknownRole(f"no role {name} is declared any more; add {name}.md to one of {self._folders.roles}")
        return self.now.roles[name]

    def reload(self, folders: Folders) -> tuple[Problem, ...]:
        """Take over what these folders declare; what is wrong with it, and then the last good definitions stay."""
        try:
            self.now, self._folders = load_definitions(folders), folders
        except DefinitionError as error:
            return tuple(error.problems)
        return ()


def load_definitions(folders: Folders) -> Definitions:
    """All that the folders declare; raises DefinitionError with every problem of every file."""
    problems: list[Problem] = []
    pipelines = _load(folders.pipelines, ".toml", _pipeline, problems)
    roles = _load(folders.roles, ".md", parse_role, problems)
    if not problems:
        problems += [problem for pipeline in pipelines.values() for problem in check_roles(pipeline, roles)]
    if problems:
        raise DefinitionError(problems)
    return Definitions(pipelines=MappingProxyType(pipelines), roles=MappingProxyType(roles))


def parse_role(text: str, source: str) -> Role:
    """The role that a Markdown file with front matter declares; raises DefinitionError with every problem found."""
    lines = text.removeprefix("\ufeff").splitlines()
    end = next((number for number, line in enumerate(lines[1:], start=1) if line.rstrip() == "---"), 0)
    if not end or lines[0].rstrip() != "---":
        raise refusal(source, "a role begins with front matter: a line ---, name, description and more, a line ---", 1)
    front = _front_matter("\n".join(lines[1:end]), source)
    role = read_role(front, "\n".join(lines[end + 1 :]), Path(source).stem)
    if front.report.problems:
        raise DefinitionError(front.report.in_order())
    return role


def _load(
    folders: Sequence[Path], suffix: str, parse: Callable[[str, str], T], problems: list[Problem]
) -> dict[str, T]:
    """What the files of the folders declare, by name; a file that is wrong adds its problems instead."""
    files = {path.stem: path for folder in folders for path in _files(folder, suffix)}
    loaded: dict[str, T] = {}
    for name, path in sorted(files.items()):
        try:
            loaded[name] = parse(read_declared(path), str(path))
        except DefinitionError as error:
            problems += error.problems
    return loaded


def _files(folder: Path, suffix: str) -> Iterator[Path]:
    """Definition files of a folder; a folder that does not exist has none."""
    if folder.is_dir():
        yield from (path for path in folder.iterdir() if path.suffix == suffix and not path.name.startswith("."))


def _pipeline(text: str, source: str) -> Pipeline:
    pipeline = parse_pipeline(text, source)
    if pipeline.name != Path(source).stem:
        raise refusal(source, f"name is {pipeline.name!r} in a file called {Path(source).stem!r}: make them the same")
    return pipeline


def _front_matter(text: str, source: str) -> Table:
    """The front matter as a table of texts, whole numbers and lists of texts, with the line of each key.

    Raises DefinitionError if it is no plain YAML mapping.
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
    """Key and value of each entry of the front matter, as nodes that nothing was constructed from."""
    if len(text) > LARGEST_FRONT_MATTER:
        raise refusal(source, f"the front matter is longer than {LARGEST_FRONT_MATTER // 1024} KiB", 1)
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            if isinstance(event, yaml.NodeEvent) and (event.anchor or getattr(event, "tag", None)):
                said = "anchors (&), aliases (*) and tags (!) have no place in front matter; put the text in quotes"
                raise refusal(source, said, event.start_mark.line + 2 if event.start_mark else 1)
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 2 if error.problem_mark else 1
        raise refusal(source, f"this is not YAML: {error.problem}; put the text in quotes", line) from error
    except yaml.YAMLError as error:
        raise refusal(source, f"this is not YAML: {error}", 1) from error
    except RecursionError as error:
        raise refusal(source, "the front matter is nested too deeply", 1) from error
    if root is None:
        return []
    if not isinstance(root, yaml.MappingNode):
        raise refusal(source, "the front matter must be lines of the form key: value", 1)
    return list(root.value)


def _plain(node: yaml.Node) -> object:
    """A text, a whole number, a list of texts, or None where nothing is said; {} is what no key takes."""
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
