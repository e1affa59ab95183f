"""A daemon to be killed: it starts one run in its own process, freezes it if told to, and waits to be killed.

Arguments: data folder, run folder, `frozen` or `running`, `cgroup` or `signals`, and the command.
"""

import asyncio
import os
import sys
from pathlib import Path

from orchestrator.processes.runs import Runs
from orchestrator.processes.spec import RunSpec
from tests.integration.processes.stage import QUICK


async def _serve(data: Path, folder: Path, wanted: str, *, cgroup: bool, argv: tuple[str, ...]) -> None:
    runs = Runs(data_dir=data)
    run = f"LOCAL-1/{folder.name}"
    env = dict(os.environ)
    await runs.start(folder, RunSpec(run=run, argv=argv, cwd=data, env=env, limits=QUICK, cgroup=cgroup))
    if wanted == "frozen":
        await runs.freeze(folder)
    print("ready", flush=True)  # noqa: T201  (the process that kills this one waits for it)
    await asyncio.Event().wait()


if __name__ == "__main__":
    _, data, folder, wanted, held_by, *argv = sys.argv
    asyncio.run(_serve(Path(data), Path(folder), wanted, cgroup=held_by == "cgroup", argv=tuple(argv)))
