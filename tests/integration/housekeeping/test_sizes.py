"""Sizes that were measured before: a restart uses them, and whatever is wrong with them mends itself."""

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from orchestrator.daemon.housekeeping import inventory
from orchestrator.daemon.housekeeping.sizes import NAME, Sizes, SizesFile
from orchestrator.formats.disk.trees import Usage, usage_of
from orchestrator.formats.files import sealed
from tests.fakes.ended_tasks import EndedTasks
from tests.fakes.in_process_daemon import InProcessDaemon, create_daemon, serving
from tests.fakes.shell import Shell


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data folder of two tasks that ended long ago."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    ended = EndedTasks(tmp_path / "data", tmp_path / "repo")
    for name in ("T-1", "T-2"):
        ended.without_git(name, days=70, transcript=10_000, worktree=50_000)
    ended.close()
    return ended.data


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The places that are measured from now on."""
    places: list[str] = []

    def noted(path: str | Path) -> Usage:
        places.append(str(path))
        return usage_of(path)

    monkeypatch.setattr(inventory, "usage_of", noted)
    return places


@pytest.fixture
def daemons(data: Path) -> Iterator["Daemons"]:
    made = Daemons(data)
    yield made
    made.stop()


class Daemons:
    """One daemon after the other on the same folder."""

    def __init__(self, data: Path) -> None:
        self._data, self._running = data, list[InProcessDaemon]()

    def start(self) -> InProcessDaemon:
        self._running.append(create_daemon(self._data))
        return self._running[-1]

    def stop(self) -> None:
        while self._running:
            daemon = self._running.pop()
            daemon.service.disk.background.close()
            daemon.store.close()


def of_tasks(places: list[str]) -> list[str]:
    return [place for place in places if "/tasks/" in place or "/worktrees/" in place]


async def test_a_restart_measures_nothing_again_that_was_measured_lately(
    daemons: Daemons, data: Path, measured: list[str]
) -> None:
    async with serving(daemons.start()) as client:
        before = (await client.get("/api/disk")).json()
    assert of_tasks(measured)
    daemons.stop()
    measured.clear()
    async with serving(daemons.start()) as client:
        after = (await client.get("/api/disk")).json()
    assert of_tasks(measured) == []
    assert after["kinds"] == before["kinds"]
    assert after["measuredAt"] < after["at"]
    assert (data / NAME).stat().st_mode & 0o777 == 0o600


async def test_sizes_of_worktrees_are_measured_again_after_a_day_and_disk_says_how_old_they_are(
    daemons: Daemons, data: Path, measured: list[str]
) -> None:
    shell = Shell(data.parent)
    async with serving(daemons.start()):
        assert json.loads((await shell("disk", "--json")).out)["used"] > 100_000
    daemons.stop()
    measured.clear()
    daemon = daemons.start()
    now = daemon.service.disk.clock
    daemon.service.disk.clock = lambda: now() + timedelta(hours=23)
    async with serving(daemon):
        assert "up to 23 hours old" in (await shell("disk")).out
        assert [place for place in of_tasks(measured) if "/worktrees/" in place] == []
        daemon.service.disk.clock = lambda: now() + timedelta(hours=25)
        assert "old" not in (await shell("disk")).out
        assert len([place for place in of_tasks(measured) if "/worktrees/" in place]) == 2


@pytest.mark.parametrize("content", ["", "{", "torn", "other format", "wrong type"])
async def test_a_file_of_sizes_that_cannot_be_used_means_that_all_is_measured(
    daemons: Daemons, data: Path, measured: list[str], content: str
) -> None:
    SizesFile(data).save(Sizes(), 1e9)
    written = (data / NAME).read_bytes()
    made = {"torn": written[:-9], "other format": sealed({"format": 99, "sizes": "{}"})}
    made["wrong type"] = sealed({"format": 1, "sizes": '{"tasks": {"T-1": 5}, "folders": {}}'})
    (data / NAME).write_bytes(made.get(content, content.encode()))
    async with serving(daemons.start()) as client:
        assert (await client.get("/api/disk")).json()["used"] > 100_000
    assert len([place for place in measured if "/worktrees/" in place]) == 2


async def test_what_went_after_the_sizes_were_written_is_noticed_when_it_is_due(daemons: Daemons, data: Path) -> None:
    """As after a kill -9 between the removal and the next write."""
    async with serving(daemons.start()) as client:
        await client.get("/api/disk")
    daemons.stop()
    for path in (data / "tasks/T-1/agents/1").glob("std*"):
        path.unlink()
    daemon = daemons.start()
    async with serving(daemon) as client:
        wanted = {"kinds": ["transcripts"], "before": daemon.service.disk.clock().isoformat()}
        planned = (await client.post("/api/disk/prune", json={**wanted, "dryRun": True})).json()
        assert sorted(one["task"] for one in planned["removed"]) == ["T-1", "T-2"], "the sizes are those of before"
        done = (await client.post("/api/disk/prune", json=wanted)).json()
        assert [one["task"] for one in done["removed"]] == ["T-2"]
        again = (await client.post("/api/disk/prune", json=wanted)).json()
        assert (again["removed"], again["more"]) == ([], False)
