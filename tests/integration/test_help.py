"""`orchestrator help` as its users meet it, and the pages that a running daemon can prove."""

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.cli.commands.help import read_pages
from orchestrator.server.app import create_app
from orchestrator.workspaces.evaluation.resolve import resolve
from orchestrator.workspaces.git import Git
from tests.documents import SPAN, block_with
from tests.fakes.in_process_daemon import create_daemon
from tests.fakes.repositories import commit, repository
from tests.fakes.shell import Shell, only_error

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def orchestrator(tmp_path: Path) -> Shell:
    """The program, in the user's repository."""
    repository(tmp_path / "repo")
    return Shell(tmp_path)


async def test_without_a_topic_every_page_is_listed_with_what_it_is_about(orchestrator: Shell) -> None:
    done = await orchestrator("help")
    lines = done.out.splitlines()[1:]
    assert [line.split()[0] for line in lines] == list(read_pages())
    assert "the commands that decide whether a change works" in done.out
    listed = json.loads((await orchestrator("help", "--json")).out)
    assert [one["topic"] for one in listed["topics"]] == list(read_pages())
    assert all(one["about"] for one in listed["topics"])


async def test_into_a_pipe_a_page_is_the_text_as_it_was_written(orchestrator: Shell) -> None:
    assert (await orchestrator("help", "checks")).out == read_pages()["checks"]
    done = await orchestrator("help", "checks", "--json")
    assert json.loads(done.out) == {"topic": "checks", "text": read_pages()["checks"]}


async def test_an_unknown_topic_ends_with_4_and_the_nearest_name(orchestrator: Shell) -> None:
    assert "did you mean 'checks'?" in only_error(await orchestrator("help", "chekcs"), 4)
    assert "known: api, backup" in only_error(await orchestrator("help", "nights"), 4)


@pytest.mark.parametrize(("topic", "rows", "paged"), [("simulate", 200, False), ("simulate", 10, True)])
def test_on_a_terminal_a_page_is_rendered_and_only_a_long_one_goes_through_the_pager(
    tmp_path: Path, topic: str, rows: int, paged: bool
) -> None:
    ours, theirs = pty.openpty()
    pager = tmp_path / "pager"
    pager.write_text("#!/bin/sh\necho LESS=$LESS\nexec cat\n")
    pager.chmod(0o700)
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "PYTHONPATH": str(ROOT),
        "PAGER": str(pager),
        "TERM": "xterm",
        "LINES": str(rows),
        "COLUMNS": "100",
    }
    argv = [sys.executable, "-m", "orchestrator", "help", topic]
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        process = subprocess.Popen(argv, stdin=theirs, stdout=theirs, stderr=theirs, env=env)
        os.close(theirs)
        shown = _all_of(terminal.fileno())
        assert process.wait() == 0
    assert "\x1b[" in shown
    assert "# Simulate" not in shown
    assert "Simulate: see how days would go with your settings" in shown
    assert ("LESS=FRX" in shown) is paged


def _all_of(terminal: int) -> str:
    """Read all that is written to a terminal until the last writer is gone, which Linux reports as EIO."""
    shown = b""
    while True:
        try:
            chunk = os.read(terminal, 65536)
        except OSError:
            return shown.decode()
        if not chunk:
            return shown.decode()
        shown += chunk


def test_the_sample_of_checks_is_accepted(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    repository(repo)
    head = commit(repo, {".orchestrator.toml": block_with("checks.md", "[checks.unit_test]")})
    found = {check.name: check for check in resolve(Git.foreign(repo), head, {})}
    assert list(found) == ["unit_test", "lint", "coverage", "integration_probe", "integration", "security"]
    assert (found["coverage"].floor, found["integration"].cleanup) == (80.0, "./down.sh")
    assert not found["lint"].required


async def test_the_page_of_the_api_names_every_route_and_no_other(tmp_path: Path) -> None:
    daemon = create_daemon(tmp_path / "data")
    there = {
        f"{verb.upper()} {re.sub('{[a-z]+}', '{}', path)}"
        for path, verbs in create_app(daemon.service).openapi()["paths"].items()
        for verb in verbs
    }
    daemon.store.close()
    named: set[str] = set()
    for row in read_pages()["api"].splitlines():
        if not row.startswith("| `"):
            continue
        first, second = (SPAN.findall(cell) for cell in row.split("|")[1:3])
        for route in first:
            plain = re.sub("{[a-z]+}", "{}", route)
            named.update([plain.replace("…", word) for word in second] if "…" in plain else [plain])
    assert named == there
