"""The live screen on a real terminal."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from rich.cells import cell_len

from tests.acceptance.harness import PATIENCE, DaemonHarness
from tests.acceptance.test_queue import held_by

HOME = "\x1b[H"
CONTROL = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
ENTERED, LEFT = "\x1b[?1049h", "\x1b[?1049l"


class Terminal:
    """A terminal of so many columns and rows, on which `orchestrator watch` runs."""

    def __init__(self, harness: DaemonHarness, columns: int, rows: int) -> None:
        self._ours, self.theirs = pty.openpty()
        self.columns, self.rows, self.text = columns, rows, ""
        self.resize(columns, rows)
        self.before = termios.tcgetattr(self.theirs)
        self.process = harness.begin("watch", stdin=self.theirs, out=self.theirs, err=self.theirs)

    def resize(self, columns: int, rows: int) -> None:
        """Make the window another size."""
        self.columns, self.rows = columns, rows
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def press(self, keys: str) -> None:
        """Press keys."""
        os.write(self._ours, keys.encode())

    def picture(self) -> list[str]:
        """The lines of the newest picture that is whole."""
        self._take_in()
        *_, whole, _ = ["", "", *self.text.split(HOME)]
        return [CONTROL.sub("", line) for line in whole.replace("\r", "").split("\n")]

    def shows(self, harness: DaemonHarness, *words: str) -> list[str]:
        """Wait for a picture that has all these words; its lines."""

        def look() -> list[str]:
            lines = self.picture()
            assert self.process.poll() is None, self.text[-2000:]
            return lines if all(word in "\n".join(lines) for word in words) else []

        return harness.wait_for(f"{words} on the screen", look)

    def ended(self) -> int:
        """Wait for the end of the program; its exit code."""
        deadline = time.monotonic() + PATIENCE
        while self.process.poll() is None and time.monotonic() < deadline:
            self._take_in()
        self._take_in()
        return self.process.wait(0)

    def close(self) -> None:
        """Put it away."""
        self.process.kill()
        self.process.wait()
        os.close(self._ours)
        os.close(self.theirs)

    def _take_in(self) -> None:
        """Read what is there, and wait a little for it."""
        while select.select([self._ours], [], [], 0.05)[0]:
            self.text += os.read(self._ours, 65536).decode("utf-8", "replace")


@contextmanager
def terminal(harness: DaemonHarness, columns: int = 200, rows: int = 40) -> Iterator[Terminal]:
    made = Terminal(harness, columns, rows)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(autouse=True)
def an_ordinary_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    for name in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)


def test_the_screen_shows_who_works_who_waits_and_what_happens(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with DaemonHarness(tmp_path, scenario=held_by(gate)) as harness, terminal(harness) as screen:
        screen.shows(harness, "no active tasks", "slots taken")
        first = harness.submit("First\n\ntext")
        harness.wait_until_it_works(first, "ANALYSIS")
        second = harness.submit("Second \x1b[31m red \x07")
        lines = screen.shows(harness, first, second, "1 of 1 slots taken", "1 waiting", "submitted by")
        working = next(line for line in lines if line.startswith(first))
        waiting = next(line for line in lines if line.startswith(second))
        assert "ANALYSIS" in working
        assert "1 of 1 slots are taken" in waiting
        assert "\\x1b[31m red \\x07" in waiting
        assert "\x07" not in screen.text
        harness.client.request(first, "pause")
        screen.shows(harness, "paused", "a person paused it")
        harness.client.request(first, "cancel")
        screen.shows(harness, "1 cancelled", f"{first}  cancelled by")
        screen.press("xyz")
        screen.press("q")
        assert screen.ended() == 0


def test_a_task_is_selected_looked_at_paused_and_cancelled_with_keys(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path, scenario=held_by(tmp_path / "gate")) as harness:
        tasks = [harness.submit(f"Number {number}") for number in range(8)]
        harness.wait_until_it_works(tasks[0], "ANALYSIS")
        with terminal(harness, 60, 16) as screen:
            screen.shows(harness, tasks[0], "? help", "more tasks")
            screen.press("?")
            screen.shows(harness, "retry it, if it is blocked")
            screen.press("qp")
            screen.shows(harness, "select a task first", tasks[0])
            screen.press("\x1b[Bp")
            screen.shows(harness, f"{tasks[0]}: pause is done")
            harness.wait_until(tasks[0], lambda now: now.paused)
            screen.press("\x1b[F")
            screen.shows(harness, tasks[0])
            screen.press("\x1b[H\r")
            screen.shows(harness, "because ", "next: ")
            screen.press("qc")
            screen.shows(harness, "? (y/n)")
            screen.press("y")
            screen.shows(harness, "cancel is done")
            screen.press("q")
            assert screen.ended() == 0
            assert "every task goes on" in screen.text
        statuses = [harness.client.task(task).status.value for task in tasks]
        assert statuses.count("cancelled") == 1


def test_the_screen_outlives_the_daemon_and_says_that_it_is_away(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path, scenario=held_by(tmp_path / "gate")) as harness, terminal(harness) as screen:
        task = harness.submit("First")
        screen.shows(harness, task)
        harness.kill()
        lines = screen.shows(harness, "daemon not reachable: ", task)
        assert lines[0].startswith("daemon not reachable: ")
        harness.start()
        screen.shows(harness, "resumed by a new daemon")
        harness.wait_for("the end of the warning", lambda: "daemon not reachable: " not in "\n".join(screen.picture()))


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long), signal.SIGHUP])
def test_whoever_ends_it_finds_the_terminal_as_it_was(tmp_path: Path, number: signal.Signals) -> None:
    with DaemonHarness(tmp_path) as harness, terminal(harness) as screen:
        screen.shows(harness, "q quits")
        assert termios.tcgetattr(screen.theirs) != screen.before
        screen.process.send_signal(number)
        assert screen.ended() == (0 if number is signal.SIGINT else 128 + number)
        assert termios.tcgetattr(screen.theirs) == screen.before
        assert (screen.text.count(ENTERED), screen.text.count(LEFT)) == (1, 1)
        assert "Traceback" not in screen.text


@pytest.mark.parametrize(
    ("columns", "rows"),
    [pytest.param(40, 12, marks=pytest.mark.long), (80, 24), pytest.param(200, 30, marks=pytest.mark.long)],
)
def test_many_tasks_fit_on_any_screen(tmp_path: Path, columns: int, rows: int) -> None:
    with DaemonHarness(tmp_path, scenario=held_by(tmp_path / "gate")) as harness:
        tasks = [harness.submit(f"Number {number} 你好 {'x' * 200}") for number in range(30)]
        with terminal(harness, columns, rows) as screen:
            lines = screen.shows(harness, "more tasks", "q quits", tasks[0])
            assert len(lines) <= rows
            assert max(cell_len(line.rstrip("\n")) for line in lines) <= columns
            screen.resize(120, 30)
            assert len(screen.shows(harness, "WHY", "TITLE", "AGENT")) <= 30


def test_without_a_terminal_it_says_what_to_take_instead(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path) as harness:
        done = harness.cli("watch")
    assert (done.returncode, done.stdout) == (2, "")
    assert "orchestrator events -f" in done.stderr


def test_without_a_daemon_the_screen_does_not_begin(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path) as harness:
        harness.stop()
        with terminal(harness) as screen:
            assert screen.ended() == 3
            assert ENTERED not in screen.text
