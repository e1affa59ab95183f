"""The daemon's log, for machines and users."""

import io
import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from orchestrator.log import Format, start_logging


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Restore the logging configuration."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)


def fail(text: str = "secret") -> None:
    """Raise an error whose message contains a secret, beside a local variable that contains another."""
    unspoken = "hidden".upper()
    raise ValueError(f"{text} after {len(unspoken)}")


def logged(format_: Format) -> str:
    stream = io.StringIO()
    start_logging("info", format_, lambda text: text.replace("secret", "***"), stream)
    log = structlog.get_logger().bind(task="T-1")
    log.debug("nothing_happened")
    log.info("agent_started", attempt=1, why="a secret")
    try:
        fail()
    except ValueError:
        log.exception("turn_failed")
    return stream.getvalue()


def test_machines_get_one_object_per_line() -> None:
    started, failed = map(json.loads, logged("json").splitlines())
    assert started.pop("timestamp").endswith("Z")
    assert started == {"event": "agent_started", "level": "info", "task": "T-1", "attempt": 1, "why": "a ***"}
    assert (failed["event"], "ValueError: *** after 6" in failed["exception"]) == ("turn_failed", True)


def test_only_the_systemd_journal_gets_the_priority_of_a_line(tmp_path: Path) -> None:
    with (tmp_path / "journal").open("w+") as journal, (tmp_path / "file").open("w+") as file:
        there = os.fstat(journal.fileno())
        for stream in (journal, file):
            start_logging("info", "json", stream=stream, journal=f"{there.st_dev}:{there.st_ino}")
            structlog.get_logger().info("agent_started")
            structlog.get_logger().warning("command_failed")
            structlog.get_logger().error("turn_failed")
            stream.seek(0)
        assert [line[:4] for line in journal] == ["<6>{", "<4>{", "<3>{"]
        assert all(line.startswith("{") for line in file)


@pytest.mark.parametrize("format_", ["json", "console"])
def test_no_secret_and_no_variable_gets_into_the_log(format_: Format) -> None:
    text = logged(format_)
    assert "turn_failed" in text
    assert "ValueError" in text
    assert "a secret" not in text
    assert "*** after 6" in text
    assert "HIDDEN" not in text
    assert "nothing_happened" not in text


def test_a_log_on_a_full_disk_loses_lines_and_nothing_else() -> None:
    with Path("/dev/full").open("wb", buffering=0) as device:
        full = io.TextIOWrapper(device, encoding="utf-8", write_through=True)
        start_logging("info", "json", stream=full)
        structlog.get_logger().info("task_decided", task="T-1")
        full.detach()


def test_no_log_text_controls_a_terminal() -> None:
    stream = io.StringIO()
    start_logging("info", "console", stream=stream)
    log = structlog.get_logger()
    log.info("usage_window", window="five\x1b[31m\nhour")
    try:
        fail("\x1b[2J")
    except ValueError:
        log.exception("turn_failed")
    assert "\x1b" not in stream.getvalue()
    assert r"window=five\x1b[31m\nhour" in stream.getvalue()
    assert "Traceback" in stream.getvalue()
    assert stream.getvalue().count("\n") > 3


def test_a_message_of_a_library_does_not_fill_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    stream, now = io.StringIO(), 600.0
    monkeypatch.setattr("orchestrator.log.time.monotonic", lambda: now)
    start_logging("info", "json", stream=stream)
    for number in range(1000):
        logging.getLogger("library.part").warning("Invalid request %d received.", number)
        logging.getLogger("library.part").warning(f"Name {number} is unknown.")  # noqa: G004  # as some libraries do
    logging.getLogger("library.part").error("A request failed.")
    texts = [json.loads(line)["text"] for line in stream.getvalue().splitlines()]
    assert [text for text in texts if "Invalid" in text] == [f"Invalid request {n} received." for n in range(20)]
    assert (len(texts) < 600, len(set(texts)) > 500) == (True, True)
    now += 60
    logging.getLogger("library.part").warning("Invalid request %d received.", 1000)
    assert "Invalid request 1000 received." in stream.getvalue()


def test_messages_of_a_library_are_ordinary_lines() -> None:
    stream = io.StringIO()
    start_logging("info", "json", lambda text: text.replace("secret", "***"), stream)
    logging.getLogger("library.part").warning("Invalid %s received.", "secret")
    logging.getLogger("library.part").info("every few seconds")
    said = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [(line["event"], line["library"], line["text"], line["level"]) for line in said] == [
        ("library_logged", "library", "Invalid *** received.", "warning")
    ]
