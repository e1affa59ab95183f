"""`serve`: the daemon in the foreground."""

import typer

from orchestrator.bootstrap.process import serve as live
from orchestrator.cli.context import context_of


def serve(context: typer.Context) -> int:
    """Run the daemon until it is stopped (Ctrl-C or SIGTERM).

    Agents keep running under their holders, and the next `serve` takes them over.
    """
    options = context_of(context)
    return live(options.settings, options.config)
