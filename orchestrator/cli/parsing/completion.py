"""`completion` and `version`: what shells and scripts want to know of the program itself."""

from enum import StrEnum
from typing import Annotated

import typer
from pydantic import BaseModel
from typer.completion import shell_complete

from orchestrator import __version__
from orchestrator.cli.context import Json
from orchestrator.cli.output import print_json

VARIABLE = "_ORCHESTRATOR_COMPLETE"
"""By which the scripts ask the program for words, as the library wants it."""


class Shell(StrEnum):
    """A shell whose words can be completed."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


class Version(BaseModel):
    """The version of this program."""

    version: str


def completion(
    context: typer.Context,
    shell: Annotated[Shell, typer.Argument(metavar="bash|zsh|fish", help="The shell that you use.")],
) -> int:
    """Print the script that completes commands, options and the ids of tasks.

    bash: add `eval "$(orchestrator completion bash)"` to ~/.bashrc; zsh: the same with zsh in ~/.zshrc; fish: write it
    to ~/.config/fish/completions/orchestrator.fish.
    """
    program = context.find_root().command
    return shell_complete(program, {}, "orchestrator", VARIABLE, f"source_{shell}")


def version(json: Json = False) -> None:
    """Print the version of this program; `orchestrator status` has that of the daemon."""
    if json:
        print_json(Version(version=__version__))
    else:
        typer.echo(f"orchestrator {__version__}")
