"""What a forge may refuse, and who mends it."""

from orchestrator.errors import OrchestratorError


class ForgeError(OrchestratorError):
    """Something on a forge did not go through; `again_after` seconds a repetition may, or never by itself (None)."""

    def __init__(self, message: str, again_after: float | None = None) -> None:
        self.again_after = again_after
        super().__init__(message)


class ForgeUnreachable(ForgeError):
    """The forge did not answer, or broke off, or is out of order; whether it did what was asked is unknown."""


class ForgeBusy(ForgeError):
    """The account has asked too much of the forge for now."""


class AuthenticationFailed(ForgeError):
    """There is no login, or the forge does not accept it; a person has to log in."""


class AccessDenied(ForgeError):
    """The login is good, but may not do this; a person has to grant it."""


class NotThere(ForgeError):
    """There is no such thing on the forge, or this login cannot see it."""


class ForgeRefused(ForgeError):
    """The forge understood and said no, or said what cannot be understood."""


class MergeRefused(ForgeRefused):
    """A pull request cannot be merged as it stands; nothing was merged."""


class HeadMoved(MergeRefused):
    """The branch has another commit than the one that was judged; nothing was merged or deleted."""


class UnknownForge(ForgeError):
    """A remote belongs to no forge that is known."""
