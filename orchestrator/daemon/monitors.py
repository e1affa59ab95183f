"""What the daemon keeps an eye on: the machine's resources, and whether agents can reach a model."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from shlex import quote

import psutil

from orchestrator.agents.claude_folder import SharedLogin
from orchestrator.agents.drivers import inherited
from orchestrator.agents.installation import find_claude, login_state
from orchestrator.core.schedule.pressure import Floors, ResourceReading, Shortage, judge
from orchestrator.errors import OrchestratorError
from orchestrator.settings import Settings
from orchestrator.supervisor.supervisor import Supervisor

LOGIN_UNKNOWN = "whether agents are logged in is being checked"
CHECK_LOGIN_SECONDS, RECHECK_LOGIN_SECONDS = 600.0, 30.0
"""Between two checks: while agents are logged in, and while they are not."""
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
        self._supervisor.update_pressure(self._shortage)


def read_resources(data_dir: Path) -> ResourceReading:
    """Return what the machine has free: the disk of the data folder, memory, load. Raises OSError."""
    return ResourceReading(
        free_disk=psutil.disk_usage(str(data_dir)).free,
        available_memory=psutil.virtual_memory().available,
        load_per_core=psutil.getloadavg()[0] / (psutil.cpu_count() or 1),
    )


def missing_login(settings: Settings, environment: Mapping[str, str]) -> str | None:
    """Return why agents could not reach a model and what fixes it; None if they can, or it is unknown. Blocks."""
    agent = settings.agent
    if agent.driver == "command":
        return None
    try:
        executable = find_claude(agent.executable, environment.get("PATH"))
        state = login_state(executable, inherited(environment, agent.pass_env) | dict(agent.env))
    except OrchestratorError as error:
        return str(error)
    if state is None or state.logged_in:
        return None
    return f"claude is not logged in: run `{quote(str(executable))} auth login` as this user, or give agents a key"


async def watch_login(settings: Callable[[], Settings], environment: Mapping[str, str], supervisor: Supervisor) -> None:
    """Tell the supervisor again and again whether agents are logged in.

    A night that begins logged out would otherwise fail one task after the other.
    """
    while True:
        missing = await asyncio.to_thread(missing_login, settings(), environment)
        supervisor.set_login_status(missing)
        await asyncio.sleep(RECHECK_LOGIN_SECONDS if missing else CHECK_LOGIN_SECONDS)


async def share_login(login: Callable[[], SharedLogin | None]) -> None:
    """Keep the login of sandboxed agents and the user's the same, again and again."""
    while True:
        if shared := login():
            await asyncio.to_thread(shared.exchange)
        await asyncio.sleep(SHARE_LOGIN_SECONDS)
