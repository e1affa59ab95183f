"""What `--help` shows of each command: names that a stranger understands, each explained, in 80 columns."""

import re
from collections.abc import Iterator

import pytest
import typer
from typer.core import TyperGroup

from orchestrator.cli.app import build_app, run
from orchestrator.cli.commands_table import COMMANDS

TAKEN = re.compile(r"COMMAND|\[ARGS\]\.\.\.|[A-Z|]+(\.\.\.)?|\[[A-Z]+(\.\.\.)?\]|bash\|zsh\|fish|\[verify\|list\]")
"""A word in a line of usage."""


def every_command() -> Iterator[tuple[str, ...]]:
    """Yield the words of every command, and of those in groups."""
    program = typer.main.get_command(build_app([*COMMANDS]))
    assert isinstance(program, TyperGroup)
    for name, command in program.commands.items():
        yield (name,)
        if isinstance(command, TyperGroup):
            yield from ((name, under) for under in command.commands)


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.usefixtures("narrow")
def test_help_names_what_is_typed_and_explains_each_name(capsys: pytest.CaptureFixture[str]) -> None:
    for words in every_command():
        assert run([*words, "--help"]) == 0
        page = capsys.readouterr().out
        assert max(map(len, page.splitlines())) <= 80, page
        assert "Example: " in page, page
        usage = next(line.strip() for line in page.splitlines() if "Usage: " in line)
        lead = f"Usage: orchestrator {' '.join(words)} [OPTIONS]"
        assert usage.startswith(lead), page
        assert all(TAKEN.fullmatch(word) for word in usage.removeprefix(lead).split()), usage
        assert not re.search(r"<(bool|str|int|float|path|list)|\[\[", page), page
        assert not re.search(r"│ [ *]{,5}(--)?[A-Za-z.-]+ +│", page), f"a name without an explanation:\n{page}"


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ("submit", "The type of work: feature, bugfix, code_review, release; default: what"),
        ("prune", "Usage: orchestrator prune [OPTIONS] [TASK...]"),
        ("backup", "Usage: orchestrator backup [OPTIONS] [verify|list] FILE"),
        ("service upgrade", "orchestrator service upgrade '.[claude,sandbox]'"),
        ("limits", "changing the account, use --forget, and tasks try again."),
        ("graph", "--format text|mermaid|dot The output format."),
    ],
)
def test_help_is_whole(capsys: pytest.CaptureFixture[str], typed: str, says: str) -> None:
    assert run([*typed.split(), "-h"]) == 0
    assert says in " ".join(capsys.readouterr().out.replace("│", " ").split())


@pytest.mark.parametrize("typed", ["backup", "show", "cancel", "schedule pause", "state step", "schema"])
def test_an_error_names_a_missing_argument_as_help_does(capsys: pytest.CaptureFixture[str], typed: str) -> None:
    assert run(typed.split()) == 2
    assert re.match(
        r"error: Missing argument '?(\[verify\|list\] )?[A-Z]+(\.\.\.)?'?[.;][^\n]*\n$", capsys.readouterr().err
    )
