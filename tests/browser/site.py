"""A real daemon that listens on a loopback port, with the one-time links that log browsers in."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.acceptance.harness import DaemonHarness
from tests.fakes.seeded_folder import Seeded, Size, seed
from tests.fakes.seeded_service import seed_backups, settings_for
from tests.fakes.seeded_texts import Words


@dataclass(frozen=True)
class Site:
    """A daemon and the origin under which browsers reach it."""

    harness: DaemonHarness
    origin: str

    def link(self, scope: str = "admin") -> str:
        """A link that logs one browser in."""
        return str(self.harness.request("POST", "/api/links", {"scope": scope})["url"])


@dataclass(frozen=True)
class SeededSite(Site):
    """A daemon on a seeded folder."""

    seeded: Seeded


def free_port() -> int:
    """A port of the loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def site(root: Path, scenario: dict[str, Any] | None = None, **settings: object) -> Iterator[Site]:
    """Run a daemon that browsers can visit; its data folder may have been filled before."""
    listen = f"127.0.0.1:{free_port()}"
    with DaemonHarness(root, scenario, (), listen=listen, **settings) as harness:
        yield Site(harness, f"http://{listen}")


@contextmanager
def seeded_site(root: Path, size: Size, words: Words | None = None, **settings: object) -> Iterator[SeededSite]:
    """Run a daemon on a folder that is seeded first."""
    home = root / "home"
    seeded = seed(home / "data", home / "search", size, words)
    seed_backups(home / "data", root / "backups", datetime.now(UTC))
    with site(home, None, **{**settings_for(root), **settings}) as found:
        yield SeededSite(found.harness, found.origin, seeded)
