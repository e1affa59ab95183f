"""A program whose commands are listed from a table, and imported only when they are asked for."""

import importlib
from collections.abc import Callable
from keyword import iskeyword
from typing import Any

import typer
from typer.core import TyperGroup, TyperOption

from orchestrator.cli.commands_table import COMMANDS, Entry
from orchestrator.cli.parsing.options import commands_in, take_everywhere
from orchestrator.cli.parsing.usage import flowing, show_plainly

COMPLETION = frozenset({"install_completion", "show_completion"})
"""Options of the library."""


class LazyGroup(TyperGroup):
    """The program; a command that is only listed becomes the real one when it is asked for."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        take_everywhere(self, self.commands.values())

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the name of the command that arguments name, the command, loaded, and the rest of the arguments."""
        name, found, rest = super().resolve_command(ctx, args)
        if name is not None and getattr(getattr(found, "callback", None), "__wrapped__", None) is _unloaded:
            app = typer.Typer(rich_markup_mode="rich")
            app.callback()(_unloaded)
            add_command(app, name, COMMANDS[name], load=True)
            found = self.commands[name] = typer.main.get_group(app).commands[name]
            take_everywhere(self, [found])
        for command in commands_in([found]):
            show_plainly(command.get_params(ctx))
            command.help = flowing(command.help or "")
        return name, found, rest

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options before a command, as help shows them."""
        params = super().get_params(ctx)
        show_plainly(params)
        return params


def hide_completion(program: object) -> None:
    """Leave the library's options for completion out of the help; `orchestrator completion` stands for them."""
    if isinstance(program, TyperGroup):
        for param in program.params:
            if isinstance(param, TyperOption) and param.name in COMPLETION:
                param.hidden = True


def add_command(app: typer.Typer, name: str, entry: Entry, *, load: bool) -> None:
    """Add a command, or a group of commands, to the program."""
    example = f"Example: [bold]{entry.example}[/bold]"
    found = _loaded(name, entry) if load else _unloaded
    if isinstance(found, typer.Typer):
        app.add_typer(found, name=name, short_help=entry.summary, epilog=example, rich_help_panel=entry.panel)
    else:
        app.command(
            name, short_help=entry.summary, epilog=example, rich_help_panel=entry.panel, hidden=not entry.panel
        )(found)


def _loaded(name: str, entry: Entry) -> Callable[..., object] | typer.Typer:
    """Return the function of a command, or its group of commands."""
    function = f"{name}_" if iskeyword(name) else name.replace("-", "_")
    module = importlib.import_module(f"orchestrator.cli.{entry.module}")
    found: Callable[..., object] | typer.Typer = getattr(module, function)
    return found


def _unloaded() -> None:
    """A placeholder in the list for a command that is not asked for."""
