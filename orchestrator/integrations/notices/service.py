"""Services that Apprise knows: Slack, ntfy, Telegram, Matrix and some hundred others, each by an address of its own."""

import asyncio
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import orjson

from orchestrator.formats.files import parsed
from orchestrator.integrations.child_process import end_command
from orchestrator.integrations.notices.channel import MASK, NotDelivered, Variables, masked
from orchestrator.integrations.notices.entries import Entry
from orchestrator.processes.spec import MARKER
from orchestrator.redaction.display import escape_text
from orchestrator.workspaces.evaluation.judge import environment

PROGRAM = Path(__file__).with_name("apprise_program.py")
LIMIT = 45.0
INSTALL = "pip install 'orchestrator[notify]'"
_PROXIES = frozenset({"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceChannel:
    """Sends to an address of Apprise, in which each ${NAME} is a variable."""

    url: str
    variables: Callable[[], Variables]

    async def send(self, entry: Entry) -> str:
        """Send the notice. Raises NotDelivered."""
        if find_spec("apprise") is None:
            raise NotDelivered(f"Apprise is not installed; {INSTALL}")
        variables = await asyncio.to_thread(self.variables)
        url, hidden = variables.filled(self.url)
        given = orjson.dumps({"url": url, "title": entry.subject, "body": entry.text, "format": "text"})
        answer = await _run(given, variables.values, Path(f"/dev/null/apprise/{entry.key}"))
        if not answer:
            raise NotDelivered(f"Apprise did not end within {LIMIT:g} s, or failed")
        if not answer.get("sent"):
            said = masked(str(answer.get("said") or "").replace(url, MASK), hidden)
            name = url.partition("://")[0]
            raise NotDelivered(f"{escape_text(name, 40)}:// was not told: {escape_text(' '.join(said.split()), 500)}")
        return ""


async def _run(given: bytes, variables: Mapping[str, str], mark: Path) -> dict[str, object]:
    """Return what the program answers; empty if it failed or did not end in time."""
    proxies = {name: value for name, value in variables.items() if name in _PROXIES}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        str(PROGRAM),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=environment(variables) | proxies | {MARKER: str(mark)},
        start_new_session=True,
    )
    answer = b""
    try:
        with suppress(TimeoutError, OSError):
            async with asyncio.timeout(LIMIT):
                answer, _ = await process.communicate(given)
    finally:
        await end_command(process, mark)
    return {**(parsed(answer) or {})}
