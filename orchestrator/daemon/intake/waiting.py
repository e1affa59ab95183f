"""Waiting for what is nobody's fault: a disk that is full, a tracker that is down, a login that has ended.

It is told once when it begins and once when it ends. In between it is tried again, ever more seldom.
"""

from dataclasses import dataclass

import structlog

from orchestrator.errors import NotCommitted
from orchestrator.integrations.errors import AccessDenied, AuthenticationFailed, RemoteError, Unreachable
from orchestrator.storage.records import StoreError

log = structlog.get_logger()

SHORTEST, LONGEST = 5.0, 3600.0
"""Seconds until the first try again, and between two later ones at most."""


def is_common_fault(error: Exception) -> bool:
    """Return whether an error says nothing about what was submitted: any other submission would meet it too."""
    if isinstance(error, RemoteError):
        return isinstance(error, Unreachable | AuthenticationFailed | AccessDenied)
    return isinstance(error, OSError | NotCommitted | StoreError)


@dataclass(slots=True)
class Hold:
    """Why `source` waits, and until when on a clock that only goes forward, in seconds."""

    source: str
    why: str = ""
    tries: int = 0
    until: float = 0.0

    def begin(self, why: str, error: Exception | None, now: float, *, every: float = SHORTEST) -> bool:
        """Wait because of an error, at least as long as its server wants; return whether that is news."""
        self.tries += 1
        pause = min(every * 2 ** min(self.tries - 1, 20), max(LONGEST, every))
        if isinstance(error, Unreachable) and error.wait is not None:
            pause = max(pause, error.wait)
        is_news = not self.why
        self.why, self.until = why, now + pause
        if is_news:
            log.warning("intake_waits", source=self.source, reason=why, again_in=round(pause))
        return is_news

    def reason(self, now: float) -> str:
        """Return why to wait now; "" when it is time to try."""
        return self.why if now < self.until else ""

    def end(self) -> str:
        """Go on; return what was waited for, "" if nothing was."""
        ended, self.why, self.tries, self.until = self.why, "", 0, 0.0
        if ended:
            log.info("intake_goes_on", source=self.source)
        return ended
