"""Lines on standard output and standard error. Foreign text is escaped, so it cannot control the terminal."""

from rich.console import Console
from rich.text import Text

PIPE_WIDTH = 10_000
"""Characters; no table is wider."""

_KEPT = {"\n", "\t"}


def console() -> Console:
    """Return a console for standard output."""
    found = Console(highlight=False, markup=False, emoji=False)
    return found if found.is_terminal else Console(highlight=False, markup=False, emoji=False, width=PIPE_WIDTH)


def complain(*lines: str) -> None:
    """Print errors on standard error, one for each line."""
    screen = Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)
    for line in lines:
        screen.print(Text("error: ", style="bold red") + Text(plain(line), style="red"))


def note(line: str) -> None:
    """Print a remark on standard error."""
    Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True).print(Text(plain(line), "dim"))


def plain(text: str) -> str:
    """Return the text with everything escaped that a terminal would interpret."""
    return "".join(
        c if c.isprintable() or c in _KEPT else c.encode("unicode_escape", "surrogatepass").decode() for c in text
    )


def line(text: str) -> Text:
    """Return foreign text on one line."""
    return Text(" ".join(plain(text).split()), overflow="ellipsis", no_wrap=True)
