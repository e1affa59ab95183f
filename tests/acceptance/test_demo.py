"""`orchestrator demo` as a newcomer runs it: one command, no settings, nothing left running."""

import json
import os
import re
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import pytest

from orchestrator.processes.spec import MARKER
from tests.acceptance.claude_roles import Roles, bash
from tests.fakes.messages_api import MessagesApi
from tests.fakes.repositories import git

LONGEST = 240  # seconds
COLUMNS, SCREENS = 60, 2
LINES = 50
"""Of a screen."""
STYLED, COLOURED = re.compile(r"\x1b\[[0-9;]*m"), re.compile(r"\x1b\[([0-9;]*;)?[349][0-9]")


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder with a short name, as a user's /tmp has: a socket's path has room for 107 bytes."""
    with TemporaryDirectory() as folder:
        yield Path(folder)


def around(place: Path, env: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a demo that keeps its folder here."""
    return {**os.environ, "TMPDIR": str(place), **(env or {})}


def demo(place: Path, *options: str, env: Mapping[str, str] | None = None) -> tuple[dict[str, object], str]:
    """What the demo answers programs, and what it tells people meanwhile."""
    command = [sys.executable, "-m", "orchestrator", "demo", "--json", *options]
    ended = subprocess.run(
        command, capture_output=True, text=True, env=around(place, env), timeout=LONGEST, check=False
    )
    assert ended.returncode == 0, ended.stderr
    answer: dict[str, object] = json.loads(ended.stdout)
    return answer, ended.stderr


def on_a_terminal(place: Path, env: Mapping[str, str]) -> tuple[int, str]:
    """The exit code, and what is seen on a terminal that is so many columns wide."""
    ours, its = os.openpty()
    termios.tcsetwinsize(its, (LINES, COLUMNS))
    command = [sys.executable, "-m", "orchestrator", "demo"]
    mine = {name: value for name, value in around(place, env).items() if name not in {"COLUMNS", "LINES"}}
    process = subprocess.Popen(command, stdin=its, stdout=its, stderr=its, env=mine)
    os.close(its)
    seen = b""
    with os.fdopen(ours, "rb", buffering=0) as screen:
        while True:
            try:
                seen += screen.read(65536)
            except OSError:  # nobody holds the other end any more
                break
    return process.wait(LONGEST), seen.decode().replace("\r\n", "\n")


def interrupted(place: Path, words: str, number: signal.Signals) -> tuple[int, str]:
    """The exit code and the whole story of a demo that gets a signal, as its whole group does, when it says this."""
    command = [sys.executable, "-m", "orchestrator", "demo"]
    told, sent = "", False
    with subprocess.Popen(
        command,
        env=around(place),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            told += line
            if words in line and not sent:
                os.killpg(process.pid, number)
                sent = True
    return process.returncode, told


def left_running(place: Path) -> list[int]:
    """Processes that belong to a run below this folder, or are told of it: agents, holders, daemons."""
    found = []
    for process in psutil.process_iter():
        try:
            marked = process.environ().get(MARKER, "").startswith(str(place))
            if marked or any(str(place) in word for word in process.cmdline()):
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def assert_the_whole_story(place: Path, answer: dict[str, object], told: str) -> None:
    assert answer["status"] == "completed"
    assert answer["checks"] == {"unit_test": "PASS"}
    assert {"pause", "kill", "review"} <= set(told_moments(answer))
    assert "paused: " in told
    assert "killed the daemon with SIGKILL; the implementer" in told
    assert left_running(place) == []


def told_moments(answer: dict[str, object]) -> list[str]:
    moments = answer["moments"]
    assert isinstance(moments, list)
    return moments


def commits(answer: dict[str, object]) -> list[str]:
    return git(Path(str(answer["repository"])), "log", "--format=%s", f"main..{answer['branch']}").splitlines()


def test_the_demo_tells_the_whole_story_and_leaves_nothing_running(place: Path) -> None:
    answer, told = demo(place)
    assert_the_whole_story(place, answer, told)
    assert told_moments(answer) == ["question", "pause", "kill", "limit", "failure", "review"]
    assert len(commits(answer)) == 5
    assert "ticked 0 times" in told
    assert "keeps working" in told
    assert "the limit is over; the same session continues" in told
    assert "unit_test: FAIL" in told
    task = answer["task"]
    for typed in (f"answer {task} 'Keep them'", f"pause {task}", f"resume {task}", f"why {task}", f"approve {task}"):
        assert f"$ orchestrator {typed}\n" in told


@pytest.mark.long
def test_a_person_reads_it_without_colours_on_a_narrow_terminal_and_no_settings_of_theirs_matter(place: Path) -> None:
    mine = place / "mine"
    (mine / "orchestrator").mkdir(parents=True)
    (mine / "orchestrator/orchestrator.toml").write_text(
        '[people]\nnotify_command = ["no-such-program"]\nnonsense = 1\n'
    )
    theirs = place / "theirs"
    env = {"NO_COLOR": "1", "TERM": "xterm", "XDG_CONFIG_HOME": str(mine), "ORCHESTRATOR_DATA_DIR": str(theirs)}
    code, seen = on_a_terminal(place, env)
    assert code == 0, seen
    assert not theirs.exists()
    assert not COLOURED.search(seen)
    lines = STYLED.sub("", seen).splitlines()
    assert len(lines) <= SCREENS * LINES
    story = [line for line in lines[: lines.index("")] if not line.lstrip().startswith("$ ")]
    assert max(map(len, story)) <= COLUMNS
    shown = [Path(line.split()[0]) for line in lines if line.startswith(f"  {place}")]
    assert {path.name for path in shown} == {"summary.md", "test-report.md", "journal.jsonl"}
    assert all(path.is_file() for path in shown)


@pytest.mark.parametrize(
    ("words", "number"),
    [
        pytest.param("submitted the ticket", signal.SIGINT, id="Ctrl-C at the beginning", marks=pytest.mark.long),
        pytest.param("paused: ", signal.SIGINT, id="Ctrl-C while the agent is frozen"),
        pytest.param(
            "killed the daemon", signal.SIGTERM, id="SIGTERM while there is no daemon", marks=pytest.mark.long
        ),
    ],
)
def test_an_interrupted_demo_leaves_nothing_running_and_says_where_it_is(
    place: Path, words: str, number: signal.Signals
) -> None:
    code, told = interrupted(place, words, number)
    assert code == 130, told
    assert "everything that the demo started has ended" in told
    assert f"its files are in {place}/orchestrator-demo-" in told
    assert left_running(place) == []


def test_a_demo_whose_daemon_does_not_start_says_why_and_ends_with_1(place: Path) -> None:
    deep = place / ("a-folder-with-a-long-name-" * 4)
    deep.mkdir()
    command = [sys.executable, "-m", "orchestrator", "demo", "--json"]
    ended = subprocess.run(command, capture_output=True, text=True, env=around(deep), timeout=LONGEST, check=False)
    assert ended.returncode == 1
    assert "the daemon did not start: " in json.loads(ended.stdout)["detail"]
    assert "the daemon did not start: " in ended.stderr
    assert left_running(place) == []


@pytest.mark.long
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
    assert len(commits(answer)) == 3
