"""How help names what a command takes: `TASK...`, `PATH`, `text|mermaid|dot`, without the types of the program."""

from collections.abc import Iterable
from typing import Any

from typer.core import TyperArgument, TyperOption

LONGEST_CHOICES = 16
"""Characters of alternatives that stand in the column of values; longer ones go into the explanation."""
PLACEHOLDERS: dict[object, str] = {int: "N", float: "N", str: "TEXT"}


class PlainArgument(TyperArgument):
    """An argument that is shown by its name alone, in capitals, with brackets only if it may be left out."""

    def get_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ARG002 - the library's signature
        """Return how a line of usage shows it."""
        name = self.display_name_raw
        if self.hidden:
            return []
        return [name if self.required else f"[{name}]"]

    def display_type(self, ctx: Any) -> str:  # noqa: ARG002 - the library's signature
        """Return no type: its name and its explanation say what it is."""
        return ""

    def get_error_hint(self) -> str:
        """Return how an error names it."""
        return self.display_name_raw


def show_plainly(params: Iterable[object]) -> None:
    """Let help show arguments and options by names and values instead of types."""
    for param in params:
        if isinstance(param, TyperArgument) and not isinstance(param, PlainArgument):
            param.metavar = param.metavar or param.name.upper()
            param.help = _explained(param)
            param.__class__ = PlainArgument  # the library makes arguments of its own class only
        elif isinstance(param, TyperOption) and param.metavar is None:
            param.metavar = _value(param)
            param.help = _explained(param)


def flowing(text: str) -> str:
    """Return a text whose paragraphs are one line each, so that they fill the width of a terminal."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


def _value(option: TyperOption) -> str:
    """Return what stands for an option's value; "" for a flag."""
    if option.is_flag:
        return ""
    if alternatives := _alternatives(option):
        return alternatives if len(alternatives) <= LONGEST_CHOICES else option.name.strip("_").upper()
    kind = option.type_descriptor
    return "PATH" if kind.is_path else PLACEHOLDERS.get(kind.annotation, "TEXT")


def _explained(param: TyperArgument | TyperOption) -> str:
    """Return the explanation, with the alternatives if they stand nowhere else."""
    alternatives, told = _alternatives(param), param.help or ""
    if not alternatives or param.metavar == alternatives or alternatives.partition("|")[0] in told:
        return told
    what, _, more = told.rstrip(".").partition("; ")
    return f"{what}: {', '.join(alternatives.split('|'))}{'; ' if more else ''}{more}."


def _alternatives(param: TyperArgument | TyperOption) -> str:
    return "|".join(str(one.value) for one in param.type_descriptor.choices or ())
