"""`metrics show|config|rules|dashboard`: what the daemon measures, and the files with which others watch it."""

from importlib.resources import files

import typer

from orchestrator.cli.context import context_of

FOLDER = "monitoring"

metrics = typer.Typer(no_args_is_help=True, help="Show what the daemon measures, and print files for Prometheus.")


@metrics.command(epilog="Example: [bold]orchestrator metrics show | grep health[/bold]")
def show(context: typer.Context) -> None:
    """Print the daemon's metrics as they are now, in Prometheus' text format."""
    with context_of(context).client() as client:
        found = client.metrics()
    typer.echo(found, nl=False)


@metrics.command(epilog="Example: [bold]orchestrator metrics config[/bold]")
def config() -> None:
    """Print what Prometheus needs to scrape the daemon, for prometheus.yml."""
    _print("prometheus.yaml")


@metrics.command(epilog="Example: [bold]orchestrator metrics rules | less[/bold]")
def rules() -> None:
    """Print alert rules for Prometheus."""
    _print("rules.yaml")


@metrics.command(epilog="Example: [bold]orchestrator metrics dashboard | tee orchestrator.json[/bold]")
def dashboard() -> None:
    """Print a dashboard for Grafana; import it there."""
    _print("dashboard.json")


def _print(name: str) -> None:
    typer.echo((files("orchestrator") / FOLDER / name).read_text("utf-8"), nl=False)
