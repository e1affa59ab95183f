"""Idempotency keys with concurrent requests."""

import asyncio
import os
from pathlib import Path

import pytest

from orchestrator.daemon.access.scopes import Scope
from orchestrator.daemon.callers import Caller
from orchestrator.daemon.task_factory import SubmissionRefused
from orchestrator.server.idempotency import CLEANED_EVERY, KEPT, IdempotencyKeys, key_of

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


def test_a_key_belongs_to_a_user_or_a_name_with_a_scope_and_to_no_process() -> None:
    one = Caller(uid=1, pid=10, scope=Scope.OPERATE)
    assert key_of(one, "api", "one") == key_of(Caller(uid=1, pid=11, scope=Scope.OPERATE), "api", "one")
    others = (
        Caller(uid=2, scope=Scope.OPERATE),
        Caller(uid=1, scope=Scope.ADMIN),
        Caller(uid=1, scope=Scope.OPERATE, attempt=1),
        Caller(name="1", scope=Scope.OPERATE),
    )
    assert len({key_of(who, "api", "one") for who in (one, *others)}) == 5
    assert len({key_of(one, use, "one") for use in ("api", "form", "mcp")}) == 3


async def test_old_keys_are_forgotten_and_looked_for_once_an_hour(tmp_path: Path) -> None:
    now = KEPT * 10
    keys = IdempotencyKeys(tmp_path, lambda: now)

    async def take() -> str:
        return "done"

    async def is_left_after_a_use() -> bool:
        old = tmp_path / "old"
        old.write_text("{}")
        os.utime(old, (now - KEPT - 1, now - KEPT - 1))
        await keys.once("key", b"ticket", take)
        return old.exists()

    assert not await is_left_after_a_use()
    assert await is_left_after_a_use()
    now += CLEANED_EVERY
    assert not await is_left_after_a_use()
