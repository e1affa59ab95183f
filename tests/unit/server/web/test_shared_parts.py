"""Parts of pages that many readers share."""

import asyncio

import pytest
from fastapi import Request, Response

from orchestrator.core.events.events import PauseRequested
from orchestrator.daemon.access.scopes import Scope
from orchestrator.daemon.callers import Caller
from orchestrator.daemon.inspection.changes import Changes
from orchestrator.server.web.shared_parts import SharedParts
from tests.fakes.tasks import submitted
from tests.fakes.world import START


class Renderer:
    """Counts what it renders; it waits until it is let go on."""

    def __init__(self) -> None:
        self.count, self.may_go_on = 0, asyncio.Event()

    async def __call__(self) -> Response:
        self.count += 1
        await self.may_go_on.wait()
        if self.count == 1:
            raise ValueError("the first fails")
        return Response(str(self.count))


def asking(path: str = "/now/work", scope: Scope = Scope.VIEW) -> Request:
    state = {"caller": Caller(scope=scope)}
    return Request({"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": [], "state": state})


async def test_readers_who_ask_together_share_one_rendering_and_a_failed_one_is_made_again() -> None:
    parts, render = SharedParts(Changes()), Renderer()
    readers = [asyncio.ensure_future(parts.get(asking(), render)) for _ in range(3)]
    await asyncio.sleep(0)
    readers[0].cancel()
    render.may_go_on.set()
    for reader in readers[1:]:
        with pytest.raises(ValueError, match="the first fails"):
            await reader
    assert render.count == 1
    answers = [(await parts.get(asking(), render)).body for _ in range(3)]
    assert answers == [b"2", b"2", b"2"]


async def test_nobody_gets_a_part_that_was_made_for_another_scope_or_address() -> None:
    parts, render = SharedParts(Changes()), Renderer()
    render.count = 1
    render.may_go_on.set()
    for request in (asking(), asking(scope=Scope.ADMIN), asking("/now/people"), asking()):
        await parts.get(request, render)
    assert render.count == 4


async def test_a_part_is_rendered_again_once_a_task_has_changed() -> None:
    changes, render = Changes(), Renderer()
    parts = SharedParts(changes)
    render.count = 1
    render.may_go_on.set()
    first = await parts.get(asking(), render)
    changes.on_decision(submitted(), PauseRequested(at=START, by="ada"))
    again = await parts.get(asking(), render)
    assert (first.body, again.body) == (b"2", b"3")
