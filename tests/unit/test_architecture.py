"""The structure of the source: purity of the core, sizes of rooms, modules and functions, the top of the repository.

import-linter checks which room may import which; see pyproject.toml.
"""

import ast
import subprocess
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted((ROOT / "orchestrator").rglob("*.py"))
    if "_bundled" not in path.parts
}
TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in SOURCES.items()}

TOP_LEVEL = {
    ".ci",
    ".gitignore",
    "LICENSE",
    "README.md",
    "agents",
    "config",
    "orchestrator",
    "pyproject.toml",
    "systemd",
    "tests",
}

SEES_THE_ENVIRONMENT = frozenset({
    "orchestrator.settings.environment",
    "orchestrator.settings.loading",
    "orchestrator.settings.settings",
    "orchestrator.workspaces.git",
    "orchestrator.processes.runs",
    "orchestrator.agents.tools.server",
})  # fmt: skip
"""The settings read it; two more pass it on to processes that they start; the last is a program that an agent starts,
and learns there whose it is."""

MOST_MODULES = 15

IMPURE_CALLS = frozenset(
    {"open", "print", "input", "now", "utcnow", "today", "uuid1", "uuid4", "read_text", "write_text"}
)


@pytest.mark.parametrize("name", [name for name in SOURCES if name.startswith("orchestrator.core")])
def test_the_core_reads_no_clock_no_file_and_no_randomness(name: str) -> None:
    calls = {
        node.func.id if isinstance(node.func, ast.Name) else node.func.attr
        for node in ast.walk(TREES[name])
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute)
    }
    assert not calls & IMPURE_CALLS


def test_no_folder_has_more_than_fifteen_modules() -> None:
    rooms = Counter(path.parent for path in SOURCES.values() if path.name != "__init__.py")
    assert {str(room.relative_to(ROOT)): count for room, count in rooms.items() if count > MOST_MODULES} == {}


def test_unit_tests_are_in_folders_named_like_the_rooms() -> None:
    folders = {path.parent.relative_to(ROOT / "tests/unit") for path in (ROOT / "tests/unit").rglob("test_*.py")}
    assert [str(folder) for folder in folders if not (ROOT / "orchestrator" / folder / "__init__.py").is_file()] == []


@pytest.mark.parametrize("name", SOURCES)
def test_imports_are_absolute_and_at_the_top(name: str) -> None:
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert not [inner.lineno for inner in ast.walk(node) if isinstance(inner, ast.Import | ast.ImportFrom)]
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, node.lineno


@pytest.mark.parametrize("name", SOURCES)
def test_modules_and_functions_have_bounded_sizes(name: str) -> None:
    assert len(SOURCES[name].read_text(encoding="utf-8").splitlines()) <= 400
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert (node.end_lineno or node.lineno) - node.lineno < 60, node.name


@pytest.mark.parametrize("name", [name for name in SOURCES if name not in SEES_THE_ENVIRONMENT])
def test_only_the_settings_read_the_environment(name: str) -> None:
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os":
            assert node.attr not in {"environ", "environb", "getenv"}, node.lineno


def test_the_top_of_the_repository_contains_exactly_the_expected_entries() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert {line.split("/")[0] for line in listed.splitlines()} == TOP_LEVEL


def test_the_map_of_the_code_names_every_room() -> None:
    code = ROOT / "orchestrator"
    text = ast.get_docstring(TREES["orchestrator"]) or ""
    rooms = [folder for folder in (*code.iterdir(), *(code / "core").iterdir()) if any(folder.glob("*.py"))]
    assert [str(one.relative_to(code)) for one in rooms if f"{one.name}/ " not in text] == []
