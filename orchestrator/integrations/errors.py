"""What may go wrong with a tracker or a forge, and who can fix it."""

from orchestrator.errors import OrchestratorError

SOON, LATER = 10.0, 60.0
"""Seconds until a request is repeated: to a server that did not answer, and to a busy one that names no time."""


class NoTicket(OrchestratorError):
    """A text cannot be a ticket."""


class RemoteError(OrchestratorError):
    """A tracker or a forge did not do what was requested.

    The same request may succeed after `again_after` seconds; None means not before a person has changed something.
    """

    def __init__(self, message: str, again_after: float | None = None) -> None:
        self.again_after = again_after
        super().__init__(message)


class Unreachable(RemoteError):
    """The server did not answer or broke the connection; whether it did what was requested is unknown.

    `wait` is for how many seconds the server wants no more requests, None if it does not say.
    """

    usual_wait = SOON

    def __init__(self, message: str, wait: float | None = None) -> None:
        self.wait = wait
        super().__init__(message, again_after=self.usual_wait if wait is None else max(wait, 1.0))


class Busy(Unreachable):
    """The server answers no more requests from this account for now."""

    usual_wait = LATER


class AuthenticationFailed(RemoteError):
    """There is no login, or the server does not accept it; a person has to log in."""


class AccessDenied(RemoteError):
    """The login is accepted, but may not do this; a person has to grant it."""


class NotFound(RemoteError):
    """The server has no such thing, or hides it from this account."""


class Refused(RemoteError):
    """The server understood the request and declined it, or the request must not be sent."""


class Declined(Refused):
    """The server answered with an HTTP status that no other error stands for."""

    def __init__(self, message: str, status: int) -> None:
        self.status = status
        super().__init__(message)


class UnfitAnswer(Refused):
    """The answer is too large, comes from elsewhere, or cannot be understood."""
