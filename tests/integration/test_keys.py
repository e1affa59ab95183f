"""Idempotency keys with concurrent requests."""

import asyncio
from pathlib import Path

import pytest

from orchestrator.daemon.task_factory import SubmissionRefused
from orchestrator.server.idempotency import IdempotencyKeys

PATIENCE = 60.0


async def test_after_a_refusal_waiting_and_new_requests_create_one_task(tmp_path: Path) -> None:
    keys, taken = IdempotencyKeys(tmp_path / "keys"), list[str]()
    is_taking, may_refuse = asyncio.Event(), asyncio.Event()

    async def refuse() -> str:
        is_taking.set()
        await may_refuse.wait()
        raise SubmissionRefused("not now")

    async def take() -> str:
        taken.append("task")
        return f"task {len(taken)}"

    async def refused_then_again() -> str:
        with pytest.raises(SubmissionRefused):
            await keys.once("key", b"ticket", refuse)
        return await keys.once("key", b"ticket", take)

    newcomer = asyncio.create_task(refused_then_again())
    await asyncio.wait_for(is_taking.wait(), PATIENCE)
    waiter = asyncio.create_task(keys.once("key", b"ticket", take))
    asyncio.get_running_loop().call_soon(may_refuse.set)
    made = await asyncio.wait_for(asyncio.gather(newcomer, waiter), PATIENCE)
    assert list(made) == ["task 1", "task 1"]
