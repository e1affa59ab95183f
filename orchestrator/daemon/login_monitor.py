"""Whether agents can reach a model at all: looked at before anything begins, and again and again through the night.

A night that begins logged out would otherwise fail task by task (peers.md §3, row 14).
"""

import asyncio
from collections.abc import Callable, Mapping
from shlex import quote

from orchestrator.agents.drivers import inherited
from orchestrator.agents.installation import find_claude, login_state
from orchestrator.errors import OrchestratorError
from orchestrator.settings import Settings

UNLOOKED = "whether agents are logged in is being looked at"
LOOK_EVERY, LOOK_AGAIN = 600.0, 30.0
"""Seconds between two looks: while all is well, and while it is not."""


def missing_login(settings: Settings, environment: Mapping[str, str]) -> str | None:
    """Why agents could not reach a model, with what mends it; None if they can, or it cannot be told. Blocks."""
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


async def watch_login(
    settings: Callable[[], Settings], environment: Mapping[str, str], tell: Callable[[str | None], None]
) -> None:
    """Tell what is missing, for ever."""
    while True:
        missing = await asyncio.to_thread(missing_login, settings(), environment)
        tell(missing)
        await asyncio.sleep(LOOK_AGAIN if missing else LOOK_EVERY)
