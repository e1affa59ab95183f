"""A daemon to be killed: starts one run in its own process, does what it is told, and waits for the end.

Arguments: data folder, run folder, `frozen` or `running`, and the command.
"""

import asyncio
import os
import sys
from pathlib import Path

from orchestrator.processes.runs import Runs
from orchestrator.processes.spec import RunSpec
from tests.integration.processes.stage import QUICK


async def _serve(data: Path, folder: Path, wanted: str, argv: tuple[str, ...]) -> None:
    runs = Runs(data_dir=data)
    run = f"LOCAL-1/{folder.name}"
    await runs.start(folder, RunSpec(run=run, argv=argv, cwd=data, env=dict(os.environ), limits=QUICK))
    if wanted == "frozen":
        await runs.freeze(folder)
    print("ready", flush=True)  # noqa: T201  (whoever kills us waits for it)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], tuple(sys.argv[4:])))
