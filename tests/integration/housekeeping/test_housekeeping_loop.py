"""Housekeeping beside everything else: it plans off the event loop, and it ends though something stays due."""

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.retention.plan import Plan, Removal, plan
from orchestrator.daemon.housekeeping import housekeeper, service
from orchestrator.daemon.housekeeping.housekeeper import Housekeeper
from orchestrator.daemon.housekeeping.removing import Remover
from orchestrator.server.routes.oversight import disk
from orchestrator.settings.sections.retention import RetentionSettings
from tests.fakes.ended_tasks import EndedTasks
from tests.fakes.in_process_daemon import InProcessDaemon, create_daemon, serving


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InProcessDaemon]:
    """A daemon with two tasks that ended long ago."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    ended = EndedTasks(tmp_path / "data", tmp_path / "repo")
    for name in ("T-1", "T-2"):
        ended.without_git(name, days=70, transcript=10_000)
    ended.close()
    made = create_daemon(ended.data)
    yield made
    made.service.disk.background.close()


async def test_what_is_due_is_planned_and_added_up_in_the_thread_of_housekeeping(
    daemon: InProcessDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []

    def noted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            threads.append(threading.current_thread().name.partition("_")[0])
            return function(*args)

        return call

    for module, name in ((service, "plan"), (service, "tasks_to_archive"), (disk, "usage")):
        monkeypatch.setattr(module, name, noted(getattr(module, name)))
    async with serving(daemon) as client:
        assert (await client.get("/api/disk")).status_code == 200
        assert (await client.post("/api/disk/prune", json={"dryRun": True})).status_code == 200
    assert threads == ["housekeeping"] * 4


async def test_housekeeping_ends_though_what_it_did_stays_due(
    daemon: InProcessDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []

    def in_vain(_: Remover, removal: Removal, *__: object) -> int:
        tried.append(removal.item.task)
        assert len(tried) < 100, "it tries again and again"
        return 0

    monkeypatch.setattr(Remover, "carry_out", in_vain)
    async with serving(daemon):
        await Housekeeper(daemon.service.disk, first_after=0.0).look()
    assert 0 < len(tried) < 10


async def test_housekeeping_plans_once_for_all_that_is_due_and_empties_the_trash_meanwhile(
    daemon: InProcessDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans: list[int] = []
    sizes: list[int] = []

    def noted(*args: Any) -> Plan:
        made = plan(*args)
        plans.append(len(made.removals))
        return made

    def together(remover: Remover, removals: Sequence[Removal], by: str) -> list[bool]:
        sizes.append(len(list(remover.trash.folder.glob("*"))))
        return discard(remover, removals, by)

    discard = Remover.discard
    monkeypatch.setattr(service, "plan", noted)
    monkeypatch.setattr(Remover, "discard", together)
    monkeypatch.setattr(housekeeper, "EMPTY_EVERY", 1)
    async with serving(daemon):
        await Housekeeper(daemon.service.disk, first_after=0.0).look()
    assert len(plans) == 1
    assert plans[0] > 2
    assert sizes == [0] * len(sizes)
    assert not (daemon.settings.data_dir / "tasks/T-1/claude").exists()


async def test_housekeeping_stops_when_the_settings_say_so(
    daemon: InProcessDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    discard, disk = Remover.discard, daemon.service.disk

    def switched_off(remover: Remover, removals: Sequence[Removal], by: str) -> list[bool]:
        off = disk.settings().model_copy(update={"retention": RetentionSettings(automatic=False)})
        monkeypatch.setattr(disk, "settings", lambda: off)
        return discard(remover, removals, by)

    monkeypatch.setattr(Remover, "discard", switched_off)
    monkeypatch.setattr(housekeeper, "EMPTY_EVERY", 1)
    async with serving(daemon):
        await Housekeeper(disk, first_after=0.0).look()
    assert len([line for line in disk.trash.removals.since("") if line["action"] == "remove"]) == 1
