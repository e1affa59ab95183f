"""`serve`: the daemon in the foreground."""

import typer

from orchestrator.bootstrap import serve as live
from orchestrator.cli.context import context_of


def serve(context: typer.Context) -> int:
    """Run the daemon until it is told to stop (Ctrl-C or SIGTERM).

    Agents run on under their holders when it ends, and the next `serve` takes them up again.
    """
    place = context_of(context)
    return live(place.settings, place.config)
