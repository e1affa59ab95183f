"""What may go wrong with a tracker or a forge, and who can mend it."""

from orchestrator.errors import OrchestratorError

SOON, LATER = 10.0, 60.0
"""Seconds until a server is asked again that did not answer, or that is too busy and does not say for how long."""


class RemoteError(OrchestratorError):
    """A tracker or a forge did not do what it was asked.

    The same request may succeed after `again_after` seconds; None: not before somebody has changed something.
    """

    def __init__(self, message: str, again_after: float | None = None) -> None:
        self.again_after = again_after
        super().__init__(message)


class Unreachable(RemoteError):
    """The server did not answer or broke off; whether it did what was asked is unknown.

    `wait` is how many seconds the server wants to be left alone, None where it does not say.
    """

    usual_wait = SOON

    def __init__(self, message: str, wait: float | None = None) -> None:
        self.wait = wait
        super().__init__(message, again_after=self.usual_wait if wait is None else max(wait, 1.0))


class Busy(Unreachable):
    """The server answers no more requests of this account for now."""

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
