"""What a channel is: it sends one notice, or says why it did not."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from orchestrator.integrations.notices.entries import Entry
from orchestrator.settings.environment import secret_file
from orchestrator.settings.sections.notify import REFERENCE

MASK = "••••"


class NotDelivered(Exception):
    """A channel did not take a notice; `again` says whether it may later, at the earliest after `wait` seconds."""

    def __init__(self, reason: str, *, again: bool = True, wait: float = 0.0) -> None:
        self.again, self.wait = again, wait
        super().__init__(reason)


class Channel(Protocol):
    """A way to tell people. Two that are equal send in the same way, so that one need not be restarted.

    Secrets are read for each notice, so that one that is added or replaced is used at once.
    """

    async def send(self, entry: Entry) -> str:
        """Send a notice and return a remark, mostly empty; the same one may be sent again. Raises NotDelivered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variables:
    """The environment and the files with secrets, from which channels take what must not stand in the settings."""

    values: Mapping[str, str] = field(repr=False)

    def get(self, name: str) -> str:
        """Return the value of a variable. Raises NotDelivered if it is not set."""
        if not (value := self.values.get(name, "")):
            raise NotDelivered(
                f"the variable {name} is not set; set it for the daemon, or write its value "
                f"to {secret_file(name)}, readable by you alone"
            )
        return value

    def filled(self, text: str) -> tuple[str, tuple[str, ...]]:
        """Return a text with each ${NAME} replaced, and the values that replace them. Raises NotDelivered."""
        names = REFERENCE.findall(text)
        found = {name: self.get(name) for name in names}
        return REFERENCE.sub(lambda match: found[match[1]], text), tuple(found.values())


def masked(text: str, secrets: tuple[str, ...]) -> str:
    """Return a text without these secrets."""
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, MASK)
    return text
