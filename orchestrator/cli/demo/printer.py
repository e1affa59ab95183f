"""How the demo speaks: a line of the story with its second, and below it what a person would type for the same."""

import time

from rich.console import Console
from rich.text import Text

from orchestrator.cli.output import PIPE_WIDTH, plain

INDENT = 9
"""Columns before what is told: the seconds since the beginning stand there."""
LEAST_WIDTH = 20
"""Columns for what is told, however narrow the terminal is."""


class Printer:
    """Tells on standard output, or `aside` on standard error; everything is as wide as the terminal."""

    def __init__(self, *, aside: bool) -> None:
        """Time begins to run."""
        self._began = time.monotonic()
        found = Console(stderr=aside)
        width = None if found.is_terminal else PIPE_WIDTH
        self._console = Console(stderr=aside, highlight=False, markup=False, emoji=False, width=width)

    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._began

    def say(self, text: str, *more: str) -> None:
        """Something that happened, now."""
        self._row(f"{self.elapsed():5.1f} s", Text("\n".join(plain(line) for line in (text, *more))))

    def command(self, text: str) -> None:
        """What a person types to do or see the same; never broken, so that it can be copied."""
        self._console.print(Text(f"{'':{INDENT}}$ {plain(text)}", "cyan"), soft_wrap=True)

    def detail(self, *lines: str) -> None:
        """What a command says."""
        self._row("", Text("\n".join(plain(line) for line in lines), "dim"))

    def heading(self, text: str) -> None:
        """What the lines that follow are about."""
        self._console.print(Text(plain(text), "bold"), soft_wrap=True)

    def lines(self, *lines: str) -> None:
        """Paths and commands, never broken."""
        for line in lines:
            self._console.print(Text(f"  {plain(line)}"), soft_wrap=True)

    def blank(self) -> None:
        """A gap."""
        self._console.print()

    def _row(self, left: str, right: Text) -> None:
        width = max(LEAST_WIDTH, self._console.width - INDENT)
        for line in right.wrap(self._console, width):
            line.rstrip()
            self._console.print(Text.assemble((f"{left:{INDENT}}", "dim"), line), soft_wrap=True)
            left = ""
