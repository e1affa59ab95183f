"""`serve`: the daemon in the foreground."""

import typer

from orchestrator.cli.place import place_of
from orchestrator.daemon import serve as live


def serve(context: typer.Context) -> int:
    """Run the daemon until it is told to stop (Ctrl-C or SIGTERM).

    Agents run on under their holders when it ends, and the next `serve` takes them up again.
    """
    place = place_of(context)
    return live(place.settings, place.config)
