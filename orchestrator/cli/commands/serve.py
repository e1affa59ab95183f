"""`serve`: the daemon in the foreground."""

import typer

from orchestrator.bootstrap.process import serve as live
from orchestrator.cli.context import context_of
from orchestrator.errors import InvalidTransition, NotPossibleNow, OrchestratorError
from orchestrator.storage.folder.format import UnfinishedRestore, UnfitFolder


def serve(context: typer.Context) -> int:
    """Run the daemon until it is stopped (Ctrl-C or SIGTERM).

    Agents keep running under their holders, and the next `serve` takes them over.
    """
    options = context_of(context)
    try:
        return live(options.settings, options.config)
    except (InvalidTransition, NotPossibleNow) as error:
        if isinstance(error, UnfitFolder) and not isinstance(error, UnfinishedRestore):
            raise
        # The exit code of what is refused says to systemd that to start again is in vain.
        raise OrchestratorError(str(error)) from error
