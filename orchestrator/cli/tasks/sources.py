"""A repository elsewhere as `--repo`: the daemon clones it, and the task begins from that copy."""

import time
from functools import partial
from pathlib import Path

import typer

from orchestrator.cli.context import UsageError, context_of, retry_while_down
from orchestrator.cli.output import note
from orchestrator.daemon.sources.address import AddressRefused, is_address, parse_address
from orchestrator.daemon.sources.state import SourceState
from orchestrator.formats.units import size
from orchestrator.server.client import Client

TELL_EVERY = 5.0
"""Seconds between two lines about a clone that is under way."""


def repository_of(context: typer.Context, text: str) -> Path:
    """Return the folder of a repository, for an address that of the daemon's copy once it is up to date.

    Raises UsageError for an address from which nothing can be cloned.
    """
    if not is_address(text):
        return Path(text).expanduser().absolute()
    try:
        address = parse_address(text)
    except AddressRefused as error:
        raise UsageError(str(error)) from error
    with context_of(context).client() as client:
        return _fetched(client, address)


def _fetched(client: Client, address: str) -> Path:
    told_at = 0.0
    try:
        while (found := retry_while_down(partial(client.fetch_source, address))).state is not SourceState.READY:
            if time.monotonic() - told_at > TELL_EVERY:
                note(f"cloning {address}: {size(found.size)} so far")
                told_at = time.monotonic()
    except KeyboardInterrupt:
        note("nothing is submitted; the clone goes on, and the same command continues with it")
        raise
    note(f"its result will be a branch of {found.path}, and of {address} if it is published")
    return Path(found.path)
