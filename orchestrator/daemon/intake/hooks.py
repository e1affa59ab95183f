"""Webhooks: a signed one wakes the query that its settings name, and nothing of its body is used for more than that.

So a stolen secret lets nobody choose what an agent does: the tickets are listed and fetched by our own login.

Deliveries are remembered on disk, the newest ones, so that one is accepted once.
"""

import asyncio
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import structlog

from orchestrator.daemon.intake.signatures import delivery_ids, is_about_tickets, is_signed
from orchestrator.errors import OrchestratorError
from orchestrator.formats.files import make_private, read_file, write_atomically
from orchestrator.settings.sections.intake import HookSettings

log = structlog.get_logger()

MOST_REMEMBERED = 4096
"""Deliveries of one hook."""
_DIGEST_LINE = 65
"""Bytes of a line of the file."""


class NotSigned(OrchestratorError):
    """A webhook is none of ours, or was not made with its secret."""


class DeliveredBefore(OrchestratorError):
    """A webhook was received before."""


@dataclass(slots=True)
class Deliveries:
    """The deliveries of one hook, in a file of one digest a line; used by one call at a time. Methods block."""

    path: Path
    _seen: dict[str, None] | None = None

    def add(self, ids: tuple[str, ...]) -> bool:
        """Remember a delivery; return whether it is new. Raises OSError."""
        seen = self._seen if self._seen is not None else self._read()
        self._seen = seen
        if any(one in seen for one in ids):
            return False
        make_private(self.path.parent)
        if len(seen) + len(ids) > 2 * MOST_REMEMBERED:
            kept = [*seen, *ids][-MOST_REMEMBERED:]
            write_atomically(self.path, "".join(f"{one}\n" for one in kept).encode())
            self._seen = dict.fromkeys(kept)
            return True
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(self.path, flags, 0o600)
        try:
            torn = os.fstat(descriptor).st_size % _DIGEST_LINE != 0
            os.write(descriptor, ("\n" * torn + "".join(f"{one}\n" for one in ids)).encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        seen.update(dict.fromkeys(ids))
        return True

    def _read(self) -> dict[str, None]:
        lines = (read_file(self.path) or b"").decode("ascii", "replace").splitlines()
        return dict.fromkeys(line for line in lines if len(line) == _DIGEST_LINE - 1)


@dataclass(slots=True, kw_only=True)
class Hooks:
    """Admits webhooks. `settings` returns those in force now, `secret_of` the value of a variable, "" if it has none.

    `wake` polls a query.
    """

    folder: Path
    settings: Callable[[], Mapping[str, HookSettings]]
    secret_of: Callable[[str], str]
    wake: Callable[[str], None]
    clock: Callable[[], datetime]
    _deliveries: dict[str, Deliveries] = field(default_factory=dict)
    _one_at_a_time: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def receive(self, kind: str, name: str, headers: Mapping[str, str], body: bytes) -> None:
        """Take a webhook, with the names of its headers in lower case.

        Raises NotSigned, whatever is wrong with it, DeliveredBefore, and OSError if it cannot be remembered.
        """
        hook = self.settings().get(name)
        if hook is None or hook.kind != kind:
            raise NotSigned("there is no such hook")
        secret = await asyncio.to_thread(self.secret_of, hook.secret_env)
        if not is_signed(hook.kind, secret, headers, body, self.clock().timestamp()):
            why = "its signature is wrong" if secret else f"the variable {hook.secret_env} is not set"
            log.warning("hook_refused", hook=name, reason=why)
            raise NotSigned(why)
        deliveries = self._deliveries.setdefault(name, Deliveries(self.folder / f"{name}.seen"))
        async with self._one_at_a_time:
            is_new = await asyncio.to_thread(deliveries.add, delivery_ids(hook.kind, headers, body))
        if not is_new:
            log.warning("hook_refused", hook=name, reason="it was received before")
            raise DeliveredBefore("this delivery was received before; the query that it wakes has been asked")
        if is_about_tickets(hook.kind, headers):
            self.wake(hook.query)
        log.info("hook_received", hook=name, query=hook.query)
