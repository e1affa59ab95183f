"""Pipelines and roles read from folders: those of the machine and the user hide bundled ones of the same name."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from orchestrator.core.task.pipeline import Pipeline
from orchestrator.errors import OrchestratorError
from orchestrator.formats.front_matter import read_front_matter
from orchestrator.formats.table import DefinitionError, Problem, definition_error
from orchestrator.pipelines.definition_files import Folders, read_declared
from orchestrator.pipelines.pipeline_file import parse_pipeline
from orchestrator.pipelines.pipeline_rules import check_children, check_roles
from orchestrator.pipelines.role import Role, read_role

T = TypeVar("T")


class UnknownRole(OrchestratorError):
    """A role that a task needs is not declared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Definitions:
    """Every pipeline and role by name; the roles that pipelines name are among them."""

    pipelines: Mapping[str, Pipeline]
    roles: Mapping[str, Role]


class DefinitionRegistry:
    """The last good definitions of some folders. Raises DefinitionError if there are none to begin with."""

    def __init__(self, folders: Folders) -> None:
        self._folders = folders
        self.now = load_definitions(folders)

    def role(self, name: str) -> Role:
        """Return a role as it is declared now. Raises UnknownRole."""
        if name not in self.now.roles:
            raise UnknownRole(f"no role {name} is declared any more; add {name}.md to one of {self._folders.roles}")
        return self.now.roles[name]

    def reload(self, folders: Folders) -> tuple[Problem, ...]:
        """Read the folders again and return what is wrong with them; then the last good definitions stay."""
        try:
            self.now, self._folders = load_definitions(folders), folders
        except DefinitionError as error:
            return tuple(error.problems)
        return ()


def load_definitions(folders: Folders) -> Definitions:
    """Return everything that the folders declare. Raises DefinitionError with every problem of every file."""
    problems: list[Problem] = []
    pipelines = _load(folders.pipelines, ".toml", _pipeline, problems)
    roles = _load(folders.roles, ".md", parse_role, problems)
    if not problems:
        problems += [problem for pipeline in pipelines.values() for problem in check_roles(pipeline, roles)]
        problems += [problem for pipeline in pipelines.values() for problem in check_children(pipeline, pipelines)]
    if problems:
        raise DefinitionError(problems)
    return Definitions(pipelines=MappingProxyType(pipelines), roles=MappingProxyType(roles))


def parse_role(text: str, source: str) -> Role:
    """Return the role that a Markdown file with front matter declares. Raises DefinitionError with every problem."""
    read = read_front_matter(text, source)
    if read is None:
        raise definition_error(
            source, "a role begins with front matter: a line ---, name, description and more, a line ---", 1
        )
    front, prompt = read
    role = read_role(front, prompt, Path(source).stem)
    if front.report.problems:
        raise DefinitionError(front.report.in_order())
    return role


def _load(
    folders: Sequence[Path], suffix: str, parse: Callable[[str, str], T], problems: list[Problem]
) -> dict[str, T]:
    """Return what the files of the folders declare, by name; the problems of a wrong file are added to `problems`."""
    files = {path.stem: path for folder in folders for path in _files(folder, suffix)}
    loaded: dict[str, T] = {}
    for name, path in sorted(files.items()):
        try:
            loaded[name] = parse(read_declared(path), str(path))
        except DefinitionError as error:
            problems += error.problems
    return loaded


def _files(folder: Path, suffix: str) -> Iterator[Path]:
    """Yield the definition files of a folder; none if it does not exist."""
    if folder.is_dir():
        yield from (path for path in folder.iterdir() if path.suffix == suffix and not path.name.startswith("."))


def _pipeline(text: str, source: str) -> Pipeline:
    pipeline = parse_pipeline(text, source)
    if pipeline.name != Path(source).stem:
        raise definition_error(
            source, f"name is {pipeline.name!r} in a file called {Path(source).stem!r}: make them the same"
        )
    return pipeline
