"""Find the checks of a repository by its files, with what config/checks.toml knows of languages."""

import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from itertools import groupby

from orchestrator.core.task.checks import Check, CheckKind, ResultSource
from orchestrator.formats.table import DefinitionError, Table, nearest
from orchestrator.formats.toml import read_toml
from orchestrator.pipelines.bundled import Kind, bundled
from orchestrator.pipelines.definition_files import read_declared
from orchestrator.workspaces.evaluation.tree import Tree

INSPECTING_SECONDS = 20.0
LOOK_AT_CHANGE = Check(
    name="security",
    command="",
    source="built in: secrets in what was changed",
    kind=CheckKind.SECURITY,
    reads=ResultSource.CHANGE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sign:
    """A file that identifies a check: its whole path matches `path`, and it contains a text or an npm script."""

    path: re.Pattern[str]
    holds: re.Pattern[str] | None = None
    script: str = ""

    def is_in(self, tree: Tree) -> bool:
        """Return whether a commit has such a file."""
        found = (path for path in tree.paths if self.path.fullmatch(path))
        if self.holds is None and not self.script:
            return any(found)
        return any(self._fits(tree.text(path) or "") for path in found)

    def _fits(self, text: str) -> bool:
        if self.holds is not None and not self.holds.search(text):
            return False
        return not self.script or _has_script(text, self.script)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownCheck:
    """A check that a language may have: it needs any sign of `signs`, every one of `also`, and its tools.

    `programs` are searched on PATH, `modules` by python3. A check that must `stay` is listed without its tools too: it
    then fails and says what is missing, so that untested code does not go unnoticed. A check with `alone` is dropped if
    another language has a check of the same name.
    """

    language: str
    name: str
    command: str
    reads: ResultSource
    signs: tuple[Sign, ...]
    also: tuple[Sign, ...]
    programs: tuple[str, ...]
    modules: tuple[str, ...]
    required: bool
    stay: bool
    alone: bool

    def fits(self, tree: Tree, path: str | None) -> bool:
        """Return whether the commit needs this check and `path`, where programs are searched, has its tools."""
        if not any(sign.is_in(tree) for sign in self.signs) or not all(sign.is_in(tree) for sign in self.also):
            return False
        return self.stay or self._is_there(path)

    def _is_there(self, path: str | None) -> bool:
        programs = all(shutil.which(program, path=path) for program in self.programs)
        return programs and all(_has_module(module, path) for module in self.modules)


def detect_checks(tree: Tree, timeout: float, path: str | None = None) -> tuple[Check, ...]:
    """Return the checks that a commit needs; those of a second language carry its name, as in `lint_go`."""
    listed: list[Check] = []
    known = [one for one in known_checks() if one.fits(tree, path)]
    for name, group in groupby(sorted(known, key=lambda one: _ORDER.index(one.name)), key=lambda one: one.name):
        of_language: dict[str, KnownCheck] = {}
        for one in group:
            of_language.setdefault(one.language, one)
        chosen = [one for one in of_language.values() if not one.alone or len(of_language) == 1]
        listed += [
            _check(one, f"{name}_{one.language}" if number else name, timeout) for number, one in enumerate(chosen)
        ]
    return tuple(listed) if any(one.kind is CheckKind.SECURITY for one in listed) else (*listed, LOOK_AT_CHANGE)


@cache
def known_checks() -> tuple[KnownCheck, ...]:
    """Return the checks that ship in config/checks.toml. Raises DefinitionError."""
    path = bundled(Kind.CONFIG) / "checks.toml"
    return parse_known(read_declared(path), str(path))


def parse_known(text: str, source: str) -> tuple[KnownCheck, ...]:
    """Return the checks that such a text declares. Raises DefinitionError with every problem."""
    table = read_toml(text, source)
    known = tuple(_known(inner) for inner in table.tables("checks"))
    table.done()
    if table.report.problems:
        raise DefinitionError(table.report.in_order())
    return known


_ORDER = [kind.value for kind in CheckKind]


def _check(known: KnownCheck, name: str, timeout: float) -> Check:
    return Check(
        name=name,
        command=known.command,
        required=known.required,
        timeout=timeout,
        source=f"detected: {known.language}",
        kind=CheckKind(known.name),
        reads=known.reads,
    )


def _known(table: Table) -> KnownCheck:
    name = table.text("name")
    if name not in _ORDER:
        table.note("name", f"unknown check {name!r:.80}; {nearest(name, _ORDER)}")
    known = KnownCheck(
        language=table.text("language"),
        name=name if name in _ORDER else CheckKind.OTHER.value,
        command=table.maybe_text("command") or "",
        reads=table.choice("reads", {one.value: one for one in ResultSource}, "reads") or ResultSource.EXIT_CODE,
        signs=tuple(_sign(inner) for inner in table.tables("signs")),
        also=tuple(_sign(inner) for inner in table.tables("also")),
        programs=table.texts("programs", default=()),
        modules=table.texts("modules", default=()),
        required=table.flag("required", default=True),
        stay=table.flag("stay", default=False),
        alone=table.flag("alone", default=False),
    )
    if not known.command and not known.reads.by_daemon:
        table.note("command", "a command is missing, and nothing that the daemon could read without one")
    table.done()
    return known


def _sign(table: Table) -> Sign:
    path = _expression(table, "path")
    holds = _expression(table, "holds") if table.has("holds") else None
    sign = Sign(path=path, holds=holds, script=table.maybe_text("script") or "")
    table.done()
    return sign


def _expression(table: Table, name: str) -> re.Pattern[str]:
    text = table.text(name)
    try:
        return re.compile(text, re.MULTILINE)
    except re.error as error:
        table.note(name, f"{name} is not a regular expression: {error}")
        return re.compile("")


def _has_script(text: str, script: str) -> bool:
    """Return whether a package.json has a script of that name that does something."""
    try:
        package: object = json.loads(text)
    except (ValueError, RecursionError):
        return False
    scripts = package.get("scripts") if isinstance(package, dict) else None
    line = scripts.get(script) if isinstance(scripts, dict) else None
    return isinstance(line, str) and bool(line.strip()) and "no test specified" not in line


def _has_module(module: str, path: str | None) -> bool:
    """Return whether python3, as checks find it, could import a module; no folder of a repository is searched."""
    python = shutil.which("python3", path=path)
    if python is None:
        return False
    code = f"import importlib.util as u; raise SystemExit(u.find_spec({module!r}) is None)"
    try:
        done = subprocess.run(
            [python, "-c", code], cwd="/", capture_output=True, timeout=INSPECTING_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
