"""`metrics show|config|rules|dashboard`: what the daemon measures, and the files with which others watch it."""

from importlib.resources import files

import typer

from orchestrator.cli.context import context_of
from orchestrator.cli.output import note

FOLDER = "monitoring"
PLACEHOLDER = "127.0.0.1:8700"
"""The address that the file for Prometheus names."""

metrics = typer.Typer(no_args_is_help=True, help="Show what the daemon measures, and print files for Prometheus.")


@metrics.command(epilog="Example: [bold]orchestrator metrics show | grep health[/bold]")
def show(context: typer.Context) -> None:
    """Print the daemon's metrics as they are now, in Prometheus' text format."""
    with context_of(context).client() as client:
        found = client.metrics()
    typer.echo(found, nl=False)


@metrics.command(epilog="Example: [bold]orchestrator metrics config[/bold]")
def config(context: typer.Context) -> None:
    """Print what Prometheus needs to scrape the daemon, for prometheus.yml."""
    address = context_of(context).settings().listen
    typer.echo(_text("prometheus.yaml").replace(PLACEHOLDER, address or PLACEHOLDER), nl=False)
    if not address:
        note(f'the daemon does not listen on TCP; set listen = "{PLACEHOLDER}" in orchestrator.toml and restart it')


@metrics.command(epilog="Example: [bold]orchestrator metrics rules | less[/bold]")
def rules() -> None:
    """Print alert rules for Prometheus."""
    _print("rules.yaml")


@metrics.command(epilog="Example: [bold]orchestrator metrics dashboard | tee orchestrator.json[/bold]")
def dashboard() -> None:
    """Print a dashboard for Grafana; import it there."""
    _print("dashboard.json")


def _print(name: str) -> None:
    typer.echo(_text(name), nl=False)


def _text(name: str) -> str:
    return (files("orchestrator") / FOLDER / name).read_text("utf-8")
