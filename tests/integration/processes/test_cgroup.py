"""Behaviour that only a process tree in its own control group has."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from orchestrator.processes import files
from orchestrator.processes.cgroup import Cgroup, name_of, own_place, place_in, recorded
from orchestrator.processes.process_stats import cgroup_of
from orchestrator.processes.tree import process
from tests.fakes.waiting import until
from tests.integration.processes.stage import TICKER, Stage, group_of, shell, skip_without_groups, state_of

ROOT = Path(__file__).parents[3]
MOUNT = "41 31 0:38 {root} {point} rw,relatime shared:9 - cgroup2 cgroup2 rw"
V1 = "31 23 0:28 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer"
NAMED = "orchestrator-7-99"
BOOT = files.boot_id()


@pytest_asyncio.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    """Runs that use control groups."""
    skip_without_groups()
    stage = Stage(tmp_path, cgroup=True)
    yield stage
    await stage.runs.close()
    stage.clear()


@pytest.fixture
def barren() -> Iterator[Path]:
    """A control group in which no other may be created."""
    skip_without_groups()
    barren = Path(own_place() or "", f"barren-{os.getpid()}")
    barren.mkdir()
    (barren / "cgroup.max.descendants").write_text("0")
    yield barren
    Cgroup(str(barren)).kill()
    Cgroup(str(barren)).remove()


async def test_the_agent_is_in_its_own_group_and_its_holder_is_not(stage: Stage) -> None:
    folder = await stage.start(shell("setsid sleep 100 & echo up; read line"))
    await stage.says(folder, b"up")
    holder, group = stage.holder(folder), Path(cgroup_of(folder).path or "")
    assert group.parent == Path(own_place() or "") == group_of(holder)
    assert {group_of(pid) for pid in Cgroup(str(group)).members()} == {group}
    assert (await stage.runs.freeze(folder)).cgroup == str(group)
    await stage.runs.stop(folder)
    await stage.exit_of(folder)
    assert not is_there(group)


async def test_detached_processes_in_a_frozen_group_are_stopped_without_signals(stage: Stage) -> None:
    folder = await stage.start(shell(f"setsid sh -c '{TICKER}' & read line"))
    await stage.says(folder, b"3\n")
    frozen = await stage.runs.freeze(folder)
    strangers = [pid for pid in frozen.stopped if os.getpgid(pid) != frozen.stopped[0]]
    assert strangers
    assert not any(state_of(pid) == "T" for pid in strangers)
    assert Cgroup(frozen.cgroup).held() == set(frozen.stopped)


async def test_a_process_that_leaves_the_group_is_still_frozen_thawed_and_swept(stage: Stage) -> None:
    leave = f"echo 0 > {own_place()}/cgroup.procs"
    folder = await stage.start(shell(f"setsid sh -c '{leave}; {TICKER}' & read line; exit 3"))
    await stage.says(folder, b"3\n")
    frozen = await stage.runs.freeze(folder)
    (gone,) = {pid for pid in frozen.stopped if os.getsid(pid) == pid} - Cgroup(frozen.cgroup).members()
    assert not frozen.survivors
    assert state_of(gone) == "T"
    await stage.runs.thaw(folder)
    before = len(stage.output(folder))
    await until(lambda: len(stage.output(folder)) > before, "ticks after the thaw")
    await stage.runs.send(folder, b"end")
    assert gone in (await stage.exit_of(folder)).swept
    assert state_of(gone) == "-"


async def test_a_frozen_group_whose_holder_was_killed_is_ended_and_removed(stage: Stage) -> None:
    folder = await stage.start(shell(f"setsid env -u ORCHESTRATOR_RUN sh -c '{TICKER}' & {TICKER}"))
    await stage.says(folder, b"3\n")
    frozen = await stage.runs.freeze(folder)
    os.kill(stage.holder(folder), signal.SIGKILL)
    ended = await stage.exit_of(folder)
    assert ended.lost
    assert set(ended.swept) <= set(frozen.stopped)
    await until(lambda: all(state_of(pid) in "-Z" for pid in frozen.stopped), "the end of the whole tree")
    assert not is_there(frozen.cgroup)


async def test_groups_that_an_agent_created_inside_its_own_are_removed_too(stage: Stage) -> None:
    folder = await stage.start(shell("echo up; read line"))
    await stage.says(folder, b"up")
    group = Path(cgroup_of(folder).path or "")
    (group / "a" / "b").mkdir(parents=True)
    await stage.runs.close_input(folder)
    await stage.exit_of(folder)
    assert not is_there(group)


async def test_the_next_daemon_removes_groups_of_dead_holders_and_spares_the_living(stage: Stage) -> None:
    folder = await stage.start(shell("read line"))
    place, group = own_place() or "", cgroup_of(folder).path
    abandoned = Path(place, name_of(stage.holder(folder), 0))  # of an earlier process with this pid
    living = process(os.getpid())
    assert living
    own = Path(place, name_of(living.pid, living.ticks))
    for empty in (abandoned, own):
        empty.mkdir()
    stage.runs.watch(lambda _folder: None)
    assert not is_there(abandoned)
    assert is_there(own)
    assert is_there(group)
    Cgroup(str(own)).remove()


async def test_a_command_that_cannot_be_spawned_leaves_no_group(stage: Stage) -> None:
    folder = await stage.start(("no-such-command-anywhere",))
    await stage.exit_of(folder)
    assert cgroup_of(folder).path
    assert not is_there(cgroup_of(folder).path)


async def test_where_no_group_can_be_created_the_tree_is_held_by_signals(stage: Stage, barren: Path) -> None:
    folder = daemon_in(barren, stage, shell(f"setsid sh -c '{TICKER}' & read line"))
    await stage.says(folder, b"3\n")
    frozen = await stage.runs.freeze(folder)
    assert frozen.cgroup is None
    assert len(frozen.stopped) > 1
    assert all(state_of(pid) in "TD" for pid in frozen.stopped)


def daemon_in(group: Path, stage: Stage, command: tuple[str, ...]) -> Path:
    """Return the folder of a run whose daemon lived in this group, until it was killed."""
    folder, data = stage.folder(), str(stage.base / "data")
    enter = f'echo 0 > "{group}/cgroup.procs"; exec "$@"'
    daemon = (sys.executable, "-m", "tests.integration.processes.daemon", data, str(folder), "running", "cgroup")
    with subprocess.Popen(("sh", "-c", enter, "sh", *daemon, *command), cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.kill()
    return folder


@pytest.mark.parametrize(
    ("memberships", "mounts", "place"),
    [
        (
            ["0::/a.slice/b.service"],
            [MOUNT.format(root="/", point="/sys/fs/cgroup")],
            "/sys/fs/cgroup/a.slice/b.service",
        ),
        (
            ["4:freezer:/x", "0::/"],
            [V1, MOUNT.format(root="/", point="/sys/fs/cgroup/unified")],
            "/sys/fs/cgroup/unified",
        ),
        (["0::/docker/1/x"], [MOUNT.format(root="/docker/1", point="/cg")], "/cg/x"),
        (["0::/docker/12"], [MOUNT.format(root="/docker/1", point="/cg")], None),
        (["0::/../x"], [MOUNT.format(root="/", point="/cg")], None),
        (["0::/x"], [MOUNT.format(root="/", point=r"/my\040groups\134")], "/my groups\\/x"),
        (["4:freezer:/x"], [V1, MOUNT.format(root="/", point="/cg")], None),
        (["0::/x"], [V1], None),
        ([], [], None),
    ],
)
def test_the_group_is_found_in_unified_hybrid_and_partly_mounted_trees(
    memberships: list[str], mounts: list[str], place: str | None
) -> None:
    assert place_in(memberships, mounts) == place


@pytest.mark.parametrize(
    ("path", "boot", "believed"),
    [
        (f"/sys/fs/cgroup/{NAMED}", BOOT, True),
        (f"/sys/fs/cgroup/{NAMED}", "another boot", False),
        ("/sys/fs/cgroup", BOOT, False),
        ("/sys/fs/cgroup/orchestrator-7-98", BOOT, False),
        (f"/sys/fs/cgroup/../../{NAMED}", BOOT, False),
        (None, BOOT, False),
    ],
)
def test_only_a_path_that_this_holder_would_have_created_is_trusted(
    path: str | None, boot: str, believed: bool
) -> None:
    record: files.PidRecord = {"holder": 7, "agent": 8, "boot_id": boot, "start_ticks": 99, "cgroup": path}
    assert recorded(record["cgroup"], record["boot_id"], record["holder"], record["start_ticks"]).path == (
        path if believed else None
    )


async def test_a_pid_file_of_an_earlier_version_names_no_group(stage: Stage) -> None:
    folder = await stage.start(shell("read line"))
    record = json.loads((folder / "pid").read_text())
    del record["cgroup"]
    (folder / "pid").write_text(json.dumps(record))
    assert cgroup_of(folder).path is None
    assert (await stage.runs.freeze(folder)).stopped
    Cgroup(str(group_of(record["agent"]))).kill()
    await stage.exit_of(folder)


def is_there(group: Path | str | None) -> bool:
    """Whether a group exists."""
    return group is not None and Path(group).is_dir()
