"""The daemon's log: one event name in the past tense per line, the facts beside it, on stderr."""

import io
import logging
import os
import sys
from collections.abc import Callable, MutableMapping
from contextlib import suppress
from typing import Literal, TextIO, cast

import structlog

Level = Literal["debug", "info", "warning", "error"]
Format = Literal["json", "console"]

_PRIORITIES = {"debug": 7, "info": 6, "warning": 4, "error": 3, "critical": 2}
"""The journal's, as it takes them from the beginning of a line: sd-daemon(3)."""


class _Lossy(io.TextIOBase):
    """A stream that loses lines rather than the daemon: a full disk or a closed pipe is no reason to stop."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write what can be written."""
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Let out what can be let out."""
        with suppress(OSError):
            self._stream.flush()


def start_logging(
    level: Level,
    format_: Format,
    redact: Callable[[str], str] = str,
    stream: TextIO = sys.stderr,
    journal: str | None = None,
) -> None:
    """Make every later log line go to `stream`: JSON for machines, colours for people if it is a terminal.

    `redact` is given each text, tracebacks among them, before it is written; a traceback shows no values of variables.
    The journal, if the stream is the one that `JOURNAL_STREAM` names, is told how much each line matters.
    """

    def redact_texts(_: object, __: str, event: MutableMapping[str, object]) -> MutableMapping[str, object]:
        return {key: redact(value) if isinstance(value, str) else value for key, value in event.items()}

    def prioritised(logger: object, name: str, event: MutableMapping[str, object]) -> str:
        return f"<{_PRIORITIES[str(event['level'])]}>{render(logger, name, event)!s}"

    render: structlog.typing.Processor
    if format_ == "json":
        render = structlog.processors.JSONRenderer(default=str)
    else:
        render = structlog.dev.ConsoleRenderer(
            colors=stream.isatty(), pad_event_to=0, exception_formatter=structlog.dev.plain_traceback
        )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            redact_texts,
            prioritised if _is_journal(stream, journal) else render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=structlog.PrintLoggerFactory(cast(TextIO, _Lossy(stream))),
        cache_logger_on_first_use=False,
    )


def _is_journal(stream: TextIO, named: str | None) -> bool:
    with suppress(OSError):
        found = os.fstat(stream.fileno())
        return named == f"{found.st_dev}:{found.st_ino}"
    return False
