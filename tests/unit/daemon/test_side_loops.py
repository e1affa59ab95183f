"""Loops that must not end the daemon: one that fails is named, and begun again."""

import asyncio
from contextlib import suppress

from orchestrator.daemon.side_loops import SideLoops


async def test_a_part_that_fails_is_named_and_begun_again_while_the_others_go_on() -> None:
    side, begun, begun_thrice, worked = SideLoops(first_pause=0.001), 0, asyncio.Event(), asyncio.Event()

    async def failing() -> None:
        nonlocal begun
        begun += 1
        if begun == 3:
            begun_thrice.set()
        raise ValueError("its file holds nonsense")

    async def ending() -> None:
        return

    async def working() -> None:
        await begun_thrice.wait()
        worked.set()
        await asyncio.Event().wait()

    loops = side.guarded({"backups": failing, "inbox": ending, "schedules": working})
    tasks = [asyncio.create_task(run()) for run in loops.values()]
    await worked.wait()
    assert side.reasons() == {"backups": "ValueError: its file holds nonsense", "inbox": "it ended by itself"}
    assert not any(task.done() for task in tasks)
    for task in tasks:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
