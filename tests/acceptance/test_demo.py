"""`orchestrator demo` as a newcomer runs it: one command, no settings, nothing left running."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import pytest

from orchestrator.processes.spec import MARKER
from tests.acceptance.claude_roles import Roles, bash
from tests.fakes.messages_api import MessagesApi
from tests.fakes.repositories import git

LONGEST = 100  # seconds


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder with a short name, as a user's /tmp has: a socket's path has room for 107 bytes."""
    with TemporaryDirectory() as folder:
        yield Path(folder)


def demo(place: Path, *options: str, env: Mapping[str, str] | None = None) -> tuple[dict[str, object], str]:
    """What the demo answers programs, and what it tells people meanwhile."""
    command = [sys.executable, "-m", "orchestrator", "demo", "--json", *options]
    around = {**os.environ, "TMPDIR": str(place), **(env or {})}
    ended = subprocess.run(command, capture_output=True, text=True, env=around, timeout=LONGEST, check=False)
    assert ended.returncode == 0, ended.stderr
    answer: dict[str, object] = json.loads(ended.stdout)
    return answer, ended.stderr


def left_running(place: Path) -> list[int]:
    """Processes that belong to a run below this folder."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARKER, "").startswith(str(place)):
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def assert_the_whole_story(place: Path, answer: dict[str, object], told: str) -> None:
    assert answer["status"] == "completed"
    assert answer["checks"] == {"unit_test": "PASS"}
    branch, repository = str(answer["branch"]), Path(str(answer["repository"]))
    assert len(git(repository, "log", "--format=%s", f"main..{branch}").splitlines()) == 3
    assert "paused: " in told
    assert "killed -9 the daemon; the implementer" in told
    assert left_running(place) == []


def test_the_demo_tells_the_whole_story_and_leaves_nothing_running(place: Path) -> None:
    answer, told = demo(place)
    assert_the_whole_story(place, answer, told)
    assert "a usage limit is reached" in told
    assert "the limit is over" in told
    assert "ticked 0 times" in told
    assert "works on" in told


@pytest.mark.claude
def test_the_demo_tells_it_with_the_real_claude_too(place: Path, claude: Path) -> None:
    slow = {f"IMPLEMENTATION {step}": bash("sleep 2") for step in (1, 2)}
    (place / "home").mkdir()
    with MessagesApi(Roles(before=slow)) as api:
        env = {
            **api.env,
            "PATH": f"{claude.parent}:{os.environ['PATH']}",
            "HOME": str(place / "home"),
            "CLAUDE_CODE_OAUTH_TOKEN": "sk-ant-oat01-anything",
        }
        answer, told = demo(place, "--claude", env=env)
    assert_the_whole_story(place, answer, told)
