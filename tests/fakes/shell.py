"""The program as its users see it: a separate process, its output, its exit code."""

import asyncio
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from tests import fork_server
from tests.fakes.in_process_daemon import PATIENCE

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A command that has ended."""

    code: int
    out: str
    err: str


class Shell:
    """Runs `orchestrator` in a home without settings, with its own data folder."""

    def __init__(self, home: Path) -> None:
        self.home, self.data = home, home / "data"
        self.variables: dict[str, str] = {}
        self.argv: tuple[str, ...] = (sys.executable, "-m", "orchestrator", "--data-dir", str(self.data))

    @property
    def _env(self) -> dict[str, str]:
        own = {"PATH": os.environ["PATH"], "HOME": str(self.home), "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"}
        return {**own, **self.variables}

    async def __call__(self, *arguments: str, stdin: bytes = b"") -> Done:
        """Run a command of `orchestrator` to its end; the fork server starts it."""
        options, cwd = ("--data-dir", str(self.data)), self.home / "repo"
        done = await asyncio.to_thread(
            fork_server.run, *options, *arguments, stdin=stdin, cwd=cwd, env=self._env, timeout=PATIENCE
        )
        return Done(code=done.returncode, out=done.stdout, err=done.stderr)

    async def run_fresh(self, *arguments: str, stdin: bytes = b"") -> Done:
        """Run a command to its end in an interpreter of its own, as a user does."""
        process = await self.start(*arguments)
        out, err = await asyncio.wait_for(process.communicate(stdin), PATIENCE)
        return Done(code=process.returncode or 0, out=out.decode(), err=err.decode())

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        """Start a command."""
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(
            *self.argv, *arguments, stdin=pipe, stdout=pipe, stderr=pipe, env=self._env, cwd=self.home / "repo"
        )


def only_error(done: Done, code: int) -> str:
    """Return the message of a refused command: one line, on standard error, without a traceback."""
    assert (done.code, done.out) == (code, "")
    assert done.err.startswith("error: ")
    assert done.err.count("\n") == 1, done.err
    return done.err
