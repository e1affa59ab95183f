"""What the daemon keeps an eye on: the machine's resources, and whether agents can work."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from shlex import quote

import psutil

from orchestrator.agents.claude_folder import SharedLogin
from orchestrator.agents.installation import Installation
from orchestrator.core.schedule.pressure import Floors, ResourceReading, Shortage, judge
from orchestrator.core.schedule.trouble import Trouble, TroubleKind
from orchestrator.errors import OrchestratorError
from orchestrator.supervisor.inbox import Inbox
from orchestrator.supervisor.shared_state import SharedState
from orchestrator.supervisor.supervisor import Supervisor

LOGIN_UNKNOWN = "whether agents are logged in is being checked"
LOOK_SECONDS = 10.0
"""Between two looks at the file of the agents' program."""
CHECK_LOGIN_SECONDS, RECHECK_LOGIN_SECONDS = 600.0, 30.0
"""Between two checks of the login: while nothing is wrong, and while something is."""
SHARE_LOGIN_SECONDS = 5.0
"""Between two looks at whether a login was renewed; the CLI does that minutes before the old one expires."""


class ResourceMonitor:
    """Compares the machine with `floors`, which may be changed at any time, and tells the supervisor of a shortage."""

    def __init__(self, data_dir: Path, floors: Floors, supervisor: Supervisor) -> None:
        self.floors = floors
        self._data_dir, self._supervisor = data_dir, supervisor
        self._shortage: Shortage | None = None

    def check(self) -> None:
        """Read the machine once. Raises OSError when the data folder is gone."""
        self._shortage = judge(read_resources(self._data_dir), self.floors, self._shortage)
        self._supervisor.control.update_pressure(self._shortage)


def read_resources(data_dir: Path) -> ResourceReading:
    """Return what the machine has free: the disk of the data folder, memory, load. Raises OSError."""
    return ResourceReading(
        free_disk=psutil.disk_usage(str(data_dir)).free,
        available_memory=psutil.virtual_memory().available,
        load_per_core=psutil.getloadavg()[0] / (psutil.cpu_count() or 1),
    )


class AgentMonitor:
    """Tells the supervisor whether agents can work: their program is there and fit for use, and somebody is logged in.

    A night that begins otherwise would fail one task after the other. `installation` returns the one in force; there is
    none for a program that is not claude.
    """

    def __init__(self, installation: Callable[[], Installation | None], inbox: Inbox, shared: SharedState) -> None:
        self._installation, self._inbox, self._shared = installation, inbox, shared
        self._trouble: Trouble | None = None
        self._login_due = 0.0
        self._hurry = asyncio.Event()

    async def run(self) -> None:
        """Look again and again: at the program's file every time, at the login now and then."""
        while True:
            await self.look()
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._hurry.wait()
            self._hurry.clear()

    def hurry(self) -> None:
        """Look again at once, because the settings changed."""
        self._login_due = 0.0
        self._hurry.set()

    async def look(self) -> None:
        """Look once. A program that took the place of another is tried at once, whatever the other's troubles were."""
        installation, now = self._installation(), time.monotonic()
        before = installation and installation.checked
        if now >= self._login_due or (self._trouble and self._trouble.kind is TroubleKind.INSTALLATION):
            self._trouble = await asyncio.to_thread(trouble_of, installation, with_login=True)
            self._login_due = now + (RECHECK_LOGIN_SECONDS if self._trouble else CHECK_LOGIN_SECONDS)
        elif self._trouble is None:
            self._trouble = await asyncio.to_thread(trouble_of, installation, with_login=False)
        if installation and before and installation.checked != before:
            self._shared.try_again()
        self._inbox.report_agents(self._trouble)


def trouble_of(installation: Installation | None, *, with_login: bool) -> Trouble | None:
    """Return why agents could not work and what mends it; None if they can, or it is unknown. Blocks."""
    if installation is None:
        return None
    try:
        executable = installation.usable()
    except OrchestratorError as error:
        return Trouble(kind=TroubleKind.INSTALLATION, reason=str(error))
    state = installation.login() if with_login else None
    if state is None or state.logged_in:
        return None
    reason = f"claude is not logged in: run `{quote(str(executable))} auth login` as this user, or give agents a key"
    return Trouble(kind=TroubleKind.ACCOUNT, reason=reason)


async def share_login(login: Callable[[], SharedLogin | None]) -> None:
    """Keep the login of sandboxed agents and the user's the same, again and again."""
    while True:
        if shared := login():
            await asyncio.to_thread(shared.exchange)
        await asyncio.sleep(SHARE_LOGIN_SECONDS)
