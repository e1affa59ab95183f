"""Real git repositories for tests, including one that tries to run a program wherever possible."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path


def git(folder: Path, *args: str) -> str:
    """Return the output of the user's own git, with hooks and configuration."""
    who = {f"GIT_{role}_{part}": value for role in ("AUTHOR", "COMMITTER") for part, value in _PERSON.items()}
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", **who}
    done = subprocess.run(["git", "-C", folder, *args], check=True, capture_output=True, text=True, env=environment)
    return done.stdout.strip()


def repository(folder: Path, files: Mapping[str, str] | None = None) -> str:
    """Create a repository with one commit on `main`, and return that commit."""
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet", "--initial-branch=main")
    return commit(folder, files or {"a.txt": "one\n"})


def commit(folder: Path, files: Mapping[str, str], message: str = "a change") -> str:
    """Write files, commit everything, and return the commit."""
    for name, body in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(body)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", message)
    return git(folder, "rev-parse", "HEAD")


class Trap:
    """A program that leaves a mark when it runs, configured wherever git looks for a program."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._mark = folder / "sprung"
        self._program = folder / "program"
        self._program.write_text(f'#!/bin/sh\necho "$0 $*" >>"{self._mark}"\ncat\n')
        self._program.chmod(0o755)

    @property
    def sprung(self) -> str:
        """Return which programs ran; empty if none did."""
        return self._mark.read_text() if self._mark.exists() else ""

    def set_in(self, git_dir: Path) -> None:
        """Return hooks and configuration of a repository that must never run."""
        program = self._program
        for hook in _HOOKS:
            (git_dir / "hooks").mkdir(exist_ok=True)
            (git_dir / "hooks" / hook).unlink(missing_ok=True)
            (git_dir / "hooks" / hook).symlink_to(program)
        lines = [f'[{section}]\n\t{key} = "{program}"\n' for section, key in _PROGRAM_KEYS]
        lines.append(
            '[filter "trap"]\n\trequired = true\n[submodule]\n\trecurse = true\n[protocol "ext"]\n\tallow = always\n'
        )
        with (git_dir / "config").open("a") as config:
            config.writelines(lines)
        (git_dir / "info").mkdir(exist_ok=True)
        (git_dir / "info/attributes").write_text("* filter=trap diff=trap merge=trap\n")


_PERSON = {"NAME": "A Person", "EMAIL": "person@example.org"}
_HOOKS = (
    "pre-commit",
    "post-commit",
    "post-checkout",
    "post-merge",
    "reference-transaction",
    "post-index-change",
    "pre-auto-gc",
    "pre-push",
    "pre-receive",
    "update",
    "post-update",
    "post-receive",
)
_PROGRAM_KEYS = (
    ("core", "fsmonitor"),
    ("core", "sshCommand"),
    ("core", "pager"),
    ("core", "editor"),
    ("core", "askPass"),
    ("core", "gitProxy"),
    ("core", "alternateRefsCommand"),
    ("credential", "helper"),
    ("uploadpack", "packObjectsHook"),
    ("diff", "external"),
    ('diff "trap"', "command"),
    ('diff "trap"', "textconv"),
    ('merge "trap"', "driver"),
    ('filter "trap"', "clean"),
    ('filter "trap"', "smudge"),
    ('filter "trap"', "process"),
    ("gpg", "program"),
    ("alias", "log"),
    ('remote "origin"', "uploadpack"),
    ("pager", "log"),
)
