"""`doctor`: what would stop an unattended night."""

import typer
from pydantic import BaseModel
from rich.text import Text

from orchestrator.cli.context import Json, context_of
from orchestrator.cli.doctor_checks import Finding, Level, findings
from orchestrator.cli.output import console, plain, print_json
from orchestrator.settings import environment

MARKS = {
    Level.OK: Text("✓", style="green"),
    Level.WARN: Text("!", style="bold yellow"),
    Level.BAD: Text("✗", style="bold red"),
}


class Report(BaseModel):
    """Everything that was looked at; `ok` means that nothing would stop the night."""

    ok: bool
    findings: tuple[Finding, ...]


def doctor(context: typer.Context, json: Json = False) -> int:
    """Say what would stop an unattended night, each with the command that mends it; exit 1 if anything would."""
    found = tuple(findings(context_of(context).settings(), environment()))
    ok = all(one.level is not Level.BAD for one in found)
    if json:
        print_json(Report(ok=ok, findings=found))
        return int(not ok)
    screen = console()
    for one in found:
        screen.print(MARKS[one.level], Text(f"{one.name:<12}", style="bold"), Text(plain(one.text)))
        if one.mend:
            screen.print(Text(f"  → {one.mend}", style="cyan"))
    return int(not ok)
