"""The options that every command takes, before or after its name."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption


class Format(StrEnum):
    """How what is listed is printed."""

    TEXT = "text"
    JSON = "json"
    WIDE = "wide"
    NAME = "name"


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalOptions:
    """Which daemon is meant; None leaves a choice to the settings."""

    data_dir: Path | None = None
    config: Path | None = None
    socket: Path | None = None


PLACES = frozenset({"data_dir", "config", "socket"})
OUTPUT = "output"


def take_everywhere(program: TyperGroup, commands: Iterable[object]) -> None:
    """Let commands take the global options after their names too, and `-o json` where they take --json."""
    shared = [param for param in program.params if isinstance(param, TyperOption) and param.name in {*PLACES, OUTPUT}]
    for command in commands_in(commands):
        if isinstance(command, TyperGroup):
            continue
        taken = {option for param in command.params for option in param.opts}
        prints_json = any(param.name == "json" for param in command.params)
        for param in shared:
            if taken.isdisjoint(param.opts) and (param.name in PLACES or prints_json):
                own = copy(param)
                own.hidden, own.expose_value, own.is_eager = True, False, True
                own.callback = _chosen
                command.params.append(own)


def json_everywhere(program: TyperGroup) -> dict[str, object]:
    """Return the defaults that make every command print JSON, for a --json before its name."""
    return {
        name: json_everywhere(command) if isinstance(command, TyperGroup) else {"json": True}
        for name, command in program.commands.items()
    }


def commands_in(commands: Iterable[object]) -> Iterator[TyperCommand | TyperGroup]:
    """Yield commands and groups, and the commands in those."""
    for command in commands:
        if isinstance(command, TyperCommand | TyperGroup):
            yield command
        if isinstance(command, TyperGroup):
            yield from commands_in(command.commands.values())


def wants_json(arguments: Sequence[str]) -> bool:
    """Return whether the arguments ask for JSON, whatever else is wrong with them."""
    given = arguments[: arguments.index("--")] if "--" in arguments else arguments
    pairs = itertools.pairwise(given)
    return not {"--json", "-ojson", "-o=json", "--output=json"}.isdisjoint(given) or any(
        pair in {("-o", "json"), ("--output", "json")} for pair in pairs
    )


def _chosen(context: Any, param: Any, value: Path | Format | None) -> None:
    """Let an option after the command count as one before it."""
    if value in {Format.WIDE, Format.NAME}:
        raise typer.BadParameter(f"only `orchestrator tasks` prints {value}; here it is json or text")
    if value is Format.JSON:
        context.default_map = {**(context.default_map or {}), "json": True}
    elif isinstance(value, Path):
        context.obj = replace(context.obj or GlobalOptions(), **{param.name: value})
