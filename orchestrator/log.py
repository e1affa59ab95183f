"""The daemon's log on stderr: on each line one event name in the past tense and its facts."""

import io
import logging
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, MutableMapping
from contextlib import suppress
from functools import lru_cache
from typing import Literal, TextIO, cast

import structlog

from orchestrator.redaction.display import escape_text

Level = Literal["debug", "info", "warning", "error"]
Format = Literal["json", "console"]

LONGEST = 10_000
"""Characters of a text in a line; what is redacted is twice as long, so that no secret is cut and so missed."""
SHORT, KEPT_TEXTS = 100, 1000
"""Characters of texts whose redacted form is kept, and how many: events, stages and tasks are named again and again."""
MOST_REPEATED, MOST_MESSAGES = 20, 500
"""How often a minute one message of a library is written, and how many are told apart: callers cause some of them."""
MINUTE = 60.0
_PRIORITIES = {"debug": 7, "info": 6, "warning": 4, "error": 3, "critical": 2}
"""Priorities that the systemd journal reads at the beginning of a line: sd-daemon(3)."""


class _Lossy(io.TextIOBase):
    """A stream that drops lines it cannot write: a full disk or a closed pipe must not stop the daemon."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write the text if possible."""
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush the stream if possible."""
        with suppress(OSError):
            self._stream.flush()


def start_logging(
    level: Level,
    format_: Format,
    redact: Callable[[str], str] = str,
    stream: TextIO = sys.stderr,
    journal: str | None = None,
) -> None:
    """Write every later log line to `stream`: JSON for machines, or text for people, in colour on a terminal.

    `redact` is applied to every text before it is written, tracebacks included; these show no values of variables.
    If the stream is the systemd journal, which `JOURNAL_STREAM` names, each line carries its priority.
    """
    redact_short = lru_cache(KEPT_TEXTS)(redact)

    def redacted(text: str) -> str:
        if len(text) <= SHORT:
            return redact_short(text)
        fit = redact(text[: 2 * LONGEST])
        return fit if len(fit) <= LONGEST else f"{fit[: LONGEST - 1]}…"

    def redact_texts(_: object, __: str, event: MutableMapping[str, object]) -> MutableMapping[str, object]:
        return {key: redacted(value) if isinstance(value, str) else value for key, value in event.items()}

    def prioritised(logger: object, name: str, event: MutableMapping[str, object]) -> str:
        return f"<{_PRIORITIES[str(event['level'])]}>{render(logger, name, event)!s}"

    escape: list[structlog.typing.Processor] = []
    render: structlog.typing.Processor
    if format_ == "json":
        render = structlog.processors.JSONRenderer(default=str)
    else:
        render = structlog.dev.ConsoleRenderer(
            colors=stream.isatty(), pad_event_to=0, exception_formatter=structlog.dev.plain_traceback
        )
        escape = [_escaped]
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.format_exc_info,
            redact_texts,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *escape,
            prioritised if _is_journal(stream, journal) else render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=structlog.PrintLoggerFactory(cast(TextIO, _Lossy(stream))),
        cache_logger_on_first_use=False,
    )
    logging.basicConfig(level=max(logging.WARNING, getattr(logging, level.upper())), handlers=[_Library()], force=True)


def _escaped(_: object, __: str, event: MutableMapping[str, object]) -> MutableMapping[str, object]:
    """Return the event with terminal control characters escaped; only a traceback keeps its line ends."""

    def escaped(key: str, text: str) -> str:
        lines = text.split("\n") if key == "exception" else [text]
        return "\n".join(escape_text(line, LONGEST) for line in lines)

    return {key: escaped(key, value) if isinstance(value, str) else value for key, value in event.items()}


class _Library(logging.Handler):
    """Passes on what libraries log, so that it is written like every other line, but not without end."""

    def __init__(self) -> None:
        super().__init__()
        self._minute, self._seen = -1, Counter[str]()

    def emit(self, record: logging.LogRecord) -> None:
        """Log the record as a line that names its library, unless this minute has enough lines of that message."""
        minute = int(time.monotonic() // MINUTE)
        if minute != self._minute:
            self._minute, self._seen = minute, Counter()
        message = f"{record.name}: {record.msg!s:.{SHORT}}"
        if message not in self._seen and len(self._seen) >= MOST_MESSAGES:
            message = ""
        self._seen[message] += 1
        if self._seen[message] > MOST_REPEATED:
            return
        logger = structlog.get_logger().bind(library=record.name.partition(".")[0], text=record.getMessage())
        logger.log(record.levelno, "library_logged", exc_info=record.exc_info)


def _is_journal(stream: TextIO, named: str | None) -> bool:
    with suppress(OSError):
        found = os.fstat(stream.fileno())
        return named == f"{found.st_dev}:{found.st_ino}"
    return False
