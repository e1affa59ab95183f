"""`orchestrator schedule`: several schedules at once, any part of a name, and one that does the same as another."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
import pytest_asyncio

from orchestrator.core.task.task_policy import Autonomy
from tests.fakes.in_process_daemon import InProcessDaemon, create_daemon, serving
from tests.fakes.repositories import repository
from tests.fakes.shell import Done, Shell, only_error

LINE = "0 22 * * 1-5"


@pytest.fixture
def orchestrator(tmp_path: Path) -> Shell:
    repository(tmp_path / "repo")
    return Shell(tmp_path)


@pytest_asyncio.fixture(autouse=True)
async def daemon(orchestrator: Shell) -> AsyncIterator[InProcessDaemon]:
    daemon = create_daemon(orchestrator.data)
    async with serving(daemon):
        yield daemon
    daemon.store.close()


async def added(orchestrator: Shell, text: str, *more: str) -> Done:
    done = await orchestrator("schedule", "add", LINE, text, "--zone", "UTC", *more)
    assert done.code == 0, done.err
    return done


async def names(orchestrator: Shell) -> dict[str, str | None]:
    """Return every schedule, and who paused it."""
    listed = orjson.loads((await orchestrator("schedule", "list", "--json")).out)
    return {one["name"]: one["pausedBy"] for one in listed["schedules"]}


async def test_several_schedules_are_paused_run_and_removed_by_parts_of_their_names(orchestrator: Shell) -> None:
    for text in ("Remove dead code", "Update packages", "Check links"):
        await added(orchestrator, text)
    paused = await orchestrator("schedule", "pause", "dead", "LINKS", "dead")
    assert (paused.code, paused.out) == (0, "remove-dead-code is paused\ncheck-links is paused\n")
    assert [name for name, by in (await names(orchestrator)).items() if by] == ["check-links", "remove-dead-code"]
    shown = await orchestrator("schedule", "show", "upd", "--json")
    assert orjson.loads(shown.out)["name"] == "update-packages"
    first = await orchestrator("schedule", "run", "packages")
    assert first.out.startswith("LOCAL-")
    again = await orchestrator("schedule", "run", "packages", "links")
    assert (again.code, again.out.count("LOCAL-")) == (5, 1), "each is answered for itself"
    assert again.err.startswith("error: update-packages: its last task has not ended")
    told = orjson.loads((await orchestrator("schedule", "run", "packages", "links", "--json")).out)
    assert (told["done"], told["refused"]) == (0, 2)
    assert told["results"][0]["problem"]["type"] == "urn:orchestrator:problem:schedule-busy"
    removed = await orchestrator("schedule", "remove", "check-links", "packages", "dead")
    assert (removed.code, removed.out.count("is removed; its tasks stay\n")) == (0, 3)
    assert await names(orchestrator) == {}


async def test_a_part_that_fits_none_or_several_changes_no_schedule(orchestrator: Shell) -> None:
    await added(orchestrator, "Check links", "--name", "check")
    await added(orchestrator, "Check links again", "--name", "check-2")
    assert "lists all" in only_error(await orchestrator("schedule", "remove", "check", "nightly"), 4)
    assert "any of check, check-2; give more" in only_error(await orchestrator("schedule", "pause", "eck"), 2)
    assert only_error(await orchestrator("schedule", "show", ""), 4)
    assert await names(orchestrator) == {"check": None, "check-2": None}
    assert (await orchestrator("schedule", "remove", "check")).out.startswith("check is removed"), "its whole name"


async def test_a_schedule_that_does_the_same_as_another_is_added_with_a_note(orchestrator: Shell) -> None:
    assert "the same" not in (await added(orchestrator, "Check links")).err
    second = await added(orchestrator, "Check links", "--json")
    assert second.err.startswith("check-links submits the same task at the same times: both will;")
    name = orjson.loads(second.out)["name"]
    assert f"`orchestrator schedule remove {name}`" in second.err
    assert "the same" not in (await added(orchestrator, "Check links", "--pipeline", "review_only")).err
    assert len(await names(orchestrator)) == 3


async def test_only_the_given_options_of_a_schedule_change(orchestrator: Shell, daemon: InProcessDaemon) -> None:
    checks = ("--check", "lint=ruff check", "--budget", "5", "--priority", "high", "--auto")
    await added(orchestrator, "Check links", "--overlap", "queue", *checks)
    before = await daemon.service.schedules.find("check-links")
    done = await orchestrator("schedule", "edit", "links", "--at", "0 4 * * sat", "--unset", "budget", "--interactive")
    assert done.code == 0, done.err
    assert done.out.startswith("check-links is changed; its next task is due Sat ")
    now = await daemon.service.schedules.find("check-links")
    assert (now.line, now.zone, now.overlap) == ("0 4 * * sat", "UTC", "queue")
    assert now.work == replace(before.work, usd=None, autonomy=Autonomy.INTERACTIVE)
    for more in (("--unset", "check", "--text", "Other words"), ("--check", "a=b", "--no-git", "--json")):
        assert (await orchestrator("schedule", "update", "check-links", *more)).code == 0
    last = (await daemon.service.schedules.find("check-links")).work
    assert last == replace(now.work, text="Other words", checks={"a": "b"}, no_git=True)


async def test_an_edit_that_says_nothing_or_nothing_possible_changes_no_schedule(
    orchestrator: Shell, daemon: InProcessDaemon
) -> None:
    await added(orchestrator, "Check links")
    before = await daemon.service.schedules.find("check-links")
    assert "give what is to change" in only_error(await orchestrator("schedule", "edit", "links"), 2)
    both = await orchestrator("schedule", "edit", "links", "--budget", "3", "--unset", "budget")
    assert "given and unset" in only_error(both, 2)
    assert "five fields" in only_error(await orchestrator("schedule", "edit", "links", "--line", "soon"), 2)
    gone = await orchestrator("schedule", "edit", "links", "--repo", "/nowhere")
    assert "/nowhere" in only_error(gone, 2)
    assert only_error(await orchestrator("schedule", "edit", "nightly", "--line", "@daily"), 4)
    assert await daemon.service.schedules.find("check-links") == before
