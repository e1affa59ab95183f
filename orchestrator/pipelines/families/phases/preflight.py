"""What must be there before an application can be modified: the preflight of Claude Code Server, with its codes."""

from collections.abc import Sequence
from pathlib import PurePosixPath

from orchestrator.core.family.family import Files

MOST_LISTED = 1000
"""Names of files that can be seen; a repository with more of them has sources."""

_SUFFIXES = """
.bash .c .cc .clj .cljs .cpp .cs .css .cts .cxx .dart .elm .erl .ex .exs .f90 .fs .go .gradle .groovy .h .hpp .hs .htm
.html .ipynb .java .jl .js .jsx .kt .kts .lua .m .mjs .ml .mm .mts .nim .nix .php .pl .pm .ps1 .py .r .rb .rs .sass
.scala .scss .sh .sol .sql .svelte .swift .tf .ts .tsx .vb .vue .xaml .zig
"""
SOURCE_SUFFIXES = frozenset(_SUFFIXES.split())
SOURCE_NAMES = frozenset({"Dockerfile", "Makefile", "Rakefile", "Jenkinsfile", "Justfile"})


def require_sources(files: Files) -> None:
    """Raise ValueError, beginning with the code of the original system, if there is nothing to modify."""
    names = files.names(".")
    if not names:
        raise ValueError("EMPTY_DIRECTORY: the repository has no files to modify; for something new use create_app")
    if len(names) < MOST_LISTED and not any(map(is_source, names)):
        shown = ", ".join(_shortened(names))
        raise ValueError(f"NO_SOURCE_FILES: the repository has no source code, only {shown}; commit the code first")


def is_source(path: str) -> bool:
    """Return whether a file is source code, by its name."""
    found = PurePosixPath(path)
    return found.suffix.lower() in SOURCE_SUFFIXES or found.name in SOURCE_NAMES


def _shortened(names: Sequence[str]) -> list[str]:
    shown = ["".join(letter if letter.isprintable() else "?" for letter in name[:80]) for name in names[:5]]
    return [*shown, "…"] if len(names) > len(shown) else shown
