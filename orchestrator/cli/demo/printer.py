"""Output of the demo: what happens, with the seconds since the start, and the command that does the same."""

import time

from rich.console import Console
from rich.text import Text

from orchestrator.cli.terminal import PIPE_WIDTH, plain

INDENT = 9
"""Columns on the left, for the seconds since the start."""
LEAST_WIDTH = 20
"""Columns for the text, however narrow the terminal is."""


class Printer:
    """Prints on standard output, or on standard error if `aside`; its clock starts when it is created."""

    def __init__(self, *, aside: bool) -> None:
        self._began = time.monotonic()
        found = Console(stderr=aside)
        width = None if found.is_terminal else PIPE_WIDTH
        self._console = Console(stderr=aside, highlight=False, markup=False, emoji=False, width=width)

    def elapsed(self) -> float:
        """Return the seconds since the start."""
        return time.monotonic() - self._began

    def tell(self, text: str, *more: str) -> None:
        """Print something that has just happened."""
        self._row(f"{self.elapsed():5.1f} s", Text("\n".join(plain(line) for line in (text, *more))))

    def command(self, text: str) -> None:
        """Print the command for it, never wrapped, so that it can be copied."""
        self._console.print(Text(f"{'':{INDENT}}$ {plain(text)}", "cyan"), soft_wrap=True)

    def detail(self, *lines: str) -> None:
        """Print what a command answers."""
        self._row("", Text("\n".join(plain(line) for line in lines), "dim"))

    def heading(self, text: str) -> None:
        """Print the heading of the lines that follow."""
        self._console.print(Text(plain(text), "bold"), soft_wrap=True)

    def lines(self, *lines: str) -> None:
        """Print paths and commands, never wrapped."""
        for line in lines:
            self._console.print(Text(f"  {plain(line)}"), soft_wrap=True)

    def blank(self) -> None:
        """Print an empty line."""
        self._console.print()

    def _row(self, left: str, right: Text) -> None:
        width = max(LEAST_WIDTH, self._console.width - INDENT)
        for line in right.wrap(self._console, width):
            line.rstrip()
            self._console.print(Text.assemble((f"{left:{INDENT}}", "dim"), line), soft_wrap=True)
            left = ""
