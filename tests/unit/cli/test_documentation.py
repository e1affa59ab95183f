"""README and the help pages say nothing that the program does not do: commands, options, settings, files and links."""

import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import typer
from pydantic import BaseModel
from rich.console import Console
from rich.markdown import Markdown
from rich.text import Text
from typer.core import TyperGroup

from orchestrator.cli.app import build_app
from orchestrator.cli.commands.help import heading, read_pages
from orchestrator.cli.commands_table import COMMANDS
from orchestrator.formats.front_matter import read_front_matter
from orchestrator.integrations.tickets.text.plain_text import from_text
from orchestrator.pipelines.definitions import parse_role
from orchestrator.pipelines.pipeline_file import parse_pipeline
from orchestrator.pipelines.schemas import pipeline_schema
from orchestrator.settings.settings import Settings
from tests.documents import DOCUMENTS, LINK, SPAN, block_with, blocks, text_of

LEADS = (("orchestrator",), (".venv/bin/orchestrator",), ("sudo", "-iu", "orchestrator", "orchestrator"))
"""How a command line of the program may begin."""


def arguments(command_line: str) -> list[str] | None:
    """Return what the program is given by a line of a shell; None where it is not called."""
    for part in re.split(r" && | \| ", re.sub(r"\s+#\s.*$", "", command_line.removeprefix("$ "))):
        try:
            words = shlex.split(part.removesuffix(" &"))
        except ValueError:
            continue
        for lead in LEADS:
            if tuple(words[: len(lead)]) == lead and len(words) > len(lead):
                return words[len(lead) :]
    return None


def command_lines(document: str) -> Iterator[str]:
    """Yield every command line of the program that a document quotes, in a block or in a span."""
    text = text_of(document)
    lines = [line for block in blocks(text) for line in block.splitlines()]
    yield from (line for line in (*lines, *SPAN.findall(text)) if arguments(line))


@cache
def program() -> TyperGroup:
    """Return the whole program, with commands that do nothing."""
    found = typer.main.get_command(build_app([*COMMANDS]))
    assert isinstance(found, TyperGroup)
    groups = [found]
    while groups:
        for command in groups.pop().commands.values():
            if isinstance(command, TyperGroup):
                groups.append(command)
            else:
                command.callback = lambda **_: None
    return found


def parse(words: list[str]) -> None:
    """Parse a command line as the program does. Raises TyperException for what it would refuse."""
    program().main(args=words, prog_name="orchestrator", standalone_mode=False)


def options() -> frozenset[str]:
    """Return every option of every command."""
    found = {"--help"}
    groups = [program()]
    while groups:
        group = groups.pop()
        for command in (group, *group.commands.values()):
            found.update(name for given in command.params for name in (*given.opts, *given.secondary_opts))
            if isinstance(command, TyperGroup) and command is not group:
                groups.append(command)
    return frozenset(found)


def has_setting(path: str) -> bool:
    """Whether there is a setting, or a table of settings, of that dotted name."""
    model: Any = Settings
    for key in path.split("."):
        if not (isinstance(model, type) and issubclass(model, BaseModel) and key in model.model_fields):
            return False
        model = model.model_fields[key].annotation
    return True


@pytest.mark.parametrize("topic", read_pages())
@pytest.mark.parametrize("width", [40, 120])
def test_every_page_renders_and_shows_its_heading(topic: str, width: int) -> None:
    text = read_pages()[topic]
    screen = Console(width=width, file=StringIO(), force_terminal=True, no_color=True)
    screen.print(Markdown(text))
    assert isinstance(screen.file, StringIO)
    shown = " ".join(re.sub(r"\x1b\[[0-9;]*m", "", screen.file.getvalue()).split())
    assert text.startswith("# ")
    assert heading(text) in shown


def test_every_page_is_linked_from_readme() -> None:
    links = (Path(link) for link in LINK.findall(text_of("README.md")) if link.startswith("orchestrator/help/"))
    assert {link.stem for link in links if link.suffix == ".md"} == set(read_pages())


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_relative_link_leads_to_a_file(document: str) -> None:
    there = [link for link in LINK.findall(text_of(document)) if "://" not in link]
    assert [link for link in there if not (DOCUMENTS[document].parent / link).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_topic_that_is_named_is_a_page(document: str) -> None:
    named = {
        words[1] for line in command_lines(document) if (words := arguments(line)) and words[0] == "help" and words[1:]
    }
    assert named - set(read_pages()) <= {"TOPIC"}


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(line, id=f"{document}: {line}")
        for document in DOCUMENTS
        for line in dict.fromkeys(command_lines(document))
    ],
)
def test_every_command_line_that_is_quoted_parses(line: str) -> None:
    words = arguments(line)
    assert words
    parse(words)


@pytest.mark.parametrize(
    "wrong", ["orchestrator frobnicate", "orchestrator tasks --colour", "orchestrator show", "orchestrator state got x"]
)
def test_a_command_line_that_the_program_would_refuse_does_not_parse(wrong: str) -> None:
    words = arguments(wrong)
    assert words
    with pytest.raises(typer.TyperException):
        parse(words)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_option_and_setting_that_is_named_exists(document: str) -> None:
    spans = SPAN.findall(text_of(document))
    named = {span.split()[0] for span in spans if re.match("--[a-z]", span)}
    assert named - options() == set()
    tables = [re.match(r"\[([a-z._]+)\](?: ([a-z_]+))?(?: |$)", span) for span in spans]
    settings = {".".join(filter(None, found.groups())) for found in tables if found}
    assert {name for name in settings if not has_setting(name)} <= {"claude", "sandbox"}  # the extras of these names


def test_the_guarantees_name_only_what_exists() -> None:
    section = text_of("README.md").partition("## Guarantees")[2].partition("\n## ")[0]
    spans = SPAN.findall(section)
    assert len(spans) > 3
    known_files = {"journal.jsonl", "state.json"}
    for span in spans:
        words = arguments(span)
        if words:
            parse(words)
        else:
            assert span in known_files or span.split()[0] in options() or has_setting(span), span


@pytest.mark.parametrize(
    ("document", "begins"),
    [
        ("install.md", "[agent]"),
        ("tickets.md", "[trackers.jira]"),
        ("limits.md", "[budget.task]"),
        ("delivery.md", "[forge]"),
    ],
)
def test_samples_of_settings_are_taken(document: str, begins: str) -> None:
    given: Mapping[str, Any] = tomllib.loads(block_with(document, begins))
    Settings.model_validate(given)


def test_the_sample_of_a_pipeline_is_one() -> None:
    sample = parse_pipeline(block_with("pipelines.md", "name ="), "quick.toml")
    assert list(sample.stages) == ["TICKET_INTAKE", "PLANNING", "IMPLEMENTATION", "EVALUATION", "COMPLETION"]


@pytest.mark.parametrize(("key", "heads"), [("work", "| `work` |"), ("guard", "| `guard` |")])
def test_the_page_of_pipelines_explains_every_word_of_them(key: str, heads: str) -> None:
    rows = text_of("pipelines.md").partition(heads)[2].partition("\n\n")[0].splitlines()[2:]
    explained = {name for row in rows for name in SPAN.findall(row.split("|")[1])}
    stage: Any = pipeline_schema()["properties"]["stages"]["additionalProperties"]["properties"]  # type: ignore[index, call-overload]
    words = {
        "work": lambda: set(stage["work"]["enum"]),
        "guard": lambda: {one["properties"]["guard"]["const"] for one in stage["guards"]["items"]["anyOf"]},
    }
    assert explained == words[key]()


def test_the_sample_of_a_role_is_one() -> None:
    role = parse_role(block_with("roles.md", "name: implementer"), "agents/implementer.md")
    assert role.on_permission == "deny"


def test_the_sample_of_a_ticket_is_one() -> None:
    text = block_with("tickets.md", "key: ABC-123")
    assert read_front_matter(text, "the ticket") is not None
    ticket = from_text(text)
    assert (ticket.key, ticket.type, ticket.priority) == ("ABC-123", "bugfix", "high")


def test_no_help_of_a_command_or_option_loses_words_in_brackets() -> None:
    texts = [text for command in _commands(program()) for text in (command.help, *_option_helps(command)) if text]
    assert len(texts) > 100
    lost = [text for text in texts for word in re.findall(r"(?<!\\)\[[^\]]+\]", text) if word not in _rendered(text)]
    assert not lost


def _commands(group: Any) -> Iterator[Any]:
    yield group
    for one in getattr(group, "commands", {}).values():
        yield from _commands(one)


def _option_helps(command: Any) -> Iterator[str]:
    yield from (getattr(one, "help", None) or "" for one in command.params)


def _rendered(text: str) -> str:
    return Text.from_markup(text).plain
