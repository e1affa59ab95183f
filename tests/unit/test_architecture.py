"""What may know what: directions of imports, purity of the core, sizes, the top of the repository."""

import ast
import subprocess
import sys
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
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

KNOWS: Mapping[str, frozenset[str]] = {
    # Beside the core, each part knows only what stands here; a part that is not listed knows the core alone.
    "__main__": frozenset({"cli"}),
    "api": frozenset(
        {
            "checkpoint_files",
            "checkpoints",
            "clock",
            "definitions",
            "files",
            "intake",
            "journal",
            "processes",
            "provisions",
            "settings",
            "store",
            "supervisor",
            "tokens",
            "trackers",
            "workspace",
        }
    ),
    "checkpoint_files": frozenset({"files", "journal"}),
    "checkpoints": frozenset({"checkpoint_files", "files", "workspace"}),
    "checks": frozenset({"bundled", "declared", "files", "git", "leaks"}),
    "cli": frozenset(
        {"api", "bundled", "client", "clock", "declared", "definitions", "drivers", "git", "installation", "intake"}
        | {"log", "operating", "recovery", "servers", "settings", "simulation", "store"}
    ),
    "client": frozenset({"api"}),
    "clone": frozenset({"git"}),
    "definitions": frozenset({"declared", "front_matter"}),
    "dispatch": frozenset(
        {"checkpoints", "checks", "clock", "files", "gates", "publisher", "running", "timers", "workspace"}
    ),
    "following": frozenset({"processes"}),
    "front_matter": frozenset({"declared"}),
    "gates": frozenset({"files", "leaks", "outbox", "workspace"}),
    "inbox": frozenset(),
    "intake": frozenset({"checks", "clock", "declared", "files", "quarantine", "repository", "settings"}),
    "journal": frozenset({"files"}),
    "last_words": frozenset({"processes"}),
    "leaks": frozenset({"git"}),
    "login": frozenset({"drivers", "installation", "settings"}),
    "notify": frozenset({"checks", "files", "processes"}),
    "operating": frozenset({"files", "gates", "git", "intake", "journal", "store", "workspace"}),
    "outbox": frozenset({"files"}),
    "outward": frozenset({"files", "forge", "repository", "settings", "trackers"}),
    "publisher": frozenset({"files", "forge", "leaks", "push", "quarantine", "release", "workspace"}),
    "push": frozenset({"clone", "forge", "git", "repository"}),
    "quarantine": frozenset({"files"}),
    "provisions": frozenset({"files", "vault"}),
    "reception": frozenset({"intake", "trackers"}),
    "recovery": frozenset({"files", "journal", "state_file", "store", "workspace"}),
    "release": frozenset({"clone", "files", "forge", "push", "repository", "workspace"}),
    "reports": frozenset({"checks", "files", "workspace"}),
    "repository": frozenset({"git"}),
    "running": frozenset({"checks", "drivers", "files", "following", "last_words", "outbox", "processes", "tokens"}),
    "servers": frozenset({"declared"}),
    "settings": frozenset({"bundled", "declared", "sections"}),
    "stalls": frozenset({"processes"}),
    "simulation": frozenset({"ports", "supervisor"}),
    "state_file": frozenset({"files", "journal"}),
    "store": frozenset({"checkpoint_files", "files", "journal", "state_file"}),
    "tokens": frozenset({"files"}),
    "supervisor": frozenset({"account", "inbox", "ports"}),
    "trackers": frozenset({"front_matter", "processes", "servers"}),
    "vault": frozenset({"files"}),
    "workspace": frozenset({"clone", "git", "repository", "worktree"}),
    "worktree": frozenset({"clone", "git"}),
}

WIRES = frozenset({"orchestrator.wiring", "orchestrator.daemon"})
"""The one module that builds everything, and so may know everything, and the life of the process around it."""

MAY_START_THE_DAEMON = frozenset({"orchestrator.cli.serve"})

SEES_THE_ENVIRONMENT = frozenset({"orchestrator.settings", "orchestrator.git", "orchestrator.processes.runs"})
"""The settings read it; the other two only hand it on to processes that they start."""

IMPURE = frozenset({
    "asyncio", "concurrent", "ctypes", "fcntl", "glob", "io", "logging", "multiprocessing", "os", "random",
    "secrets", "select", "selectors", "shutil", "signal", "socket", "sqlite3", "ssl", "subprocess", "tempfile",
    "threading", "time", "urllib",
})  # fmt: skip
IMPURE_CALLS = frozenset(
    {"open", "print", "input", "now", "utcnow", "today", "uuid1", "uuid4", "read_text", "write_text"}
)


def imports(name: str) -> Iterator[str]:
    """Every module that a module imports, wherever in it."""
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in SOURCES else str(node.module)


def ours(name: str) -> set[str]:
    return {module for module in imports(name) if module.split(".")[0] == "orchestrator"}


def part(module: str) -> str:
    """The second word of a module's name: its part of the program."""
    return module.split(".")[1] if "." in module else ""


@pytest.mark.parametrize("name", [name for name in SOURCES if part(name) == "core"])
def test_the_core_knows_only_itself_and_the_pure_part_of_the_standard_library(name: str) -> None:
    for module in imports(name):
        first = module.split(".")[0]
        assert module.startswith("orchestrator.core") or first in sys.stdlib_module_names, module
        assert first not in IMPURE, module
    calls = {
        node.func.id if isinstance(node.func, ast.Name) else node.func.attr
        for node in ast.walk(TREES[name])
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute)
    }
    assert not calls & IMPURE_CALLS


@pytest.mark.parametrize("name", [name for name in SOURCES if part(name) not in {"core", ""} and name not in WIRES])
def test_each_part_knows_the_core_and_what_it_was_granted(name: str) -> None:
    granted = {"", "core", part(name)} | KNOWS.get(part(name), frozenset())
    if name in MAY_START_THE_DAEMON:
        granted |= {"daemon"}
    assert {part(module) for module in ours(name)} <= granted


def test_no_module_knows_itself_by_way_of_others() -> None:
    try:
        TopologicalSorter({name: ours(name) - {name} for name in SOURCES}).prepare()
    except CycleError as error:
        pytest.fail(" → ".join(error.args[1]))


@pytest.mark.parametrize("name", SOURCES)
def test_imports_stand_at_the_top_and_are_absolute(name: str) -> None:
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert not [inner.lineno for inner in ast.walk(node) if isinstance(inner, ast.Import | ast.ImportFrom)]
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, node.lineno


@pytest.mark.parametrize("name", SOURCES)
def test_modules_and_functions_can_be_read_in_one_sitting(name: str) -> None:
    assert len(SOURCES[name].read_text(encoding="utf-8").splitlines()) <= 400
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert (node.end_lineno or node.lineno) - node.lineno < 60, node.name


@pytest.mark.parametrize("name", [name for name in SOURCES if name not in SEES_THE_ENVIRONMENT])
def test_only_the_settings_read_the_environment(name: str) -> None:
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os":
            assert node.attr not in {"environ", "environb", "getenv"}, node.lineno


def test_the_top_of_the_repository_holds_what_it_should_and_no_litter() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert {line.split("/")[0] for line in listed.splitlines()} == TOP_LEVEL
