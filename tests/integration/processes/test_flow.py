"""Lines in, bytes out: each once, none truncated, none lost, in bounded memory."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from orchestrator.processes.output import read_lines_from
from orchestrator.processes.spec import InputClosed, Limits
from tests.fakes.waiting import until
from tests.integration.processes.stage import QUICK, Stage, python, shell

MIB = 1 << 20


async def test_the_same_uuid_twice_is_one_line(stage: Stage) -> None:
    folder = await stage.start(("cat",))
    for text in (b'{"uuid":"a","n":1}', b'{"uuid":"b"}', b'{"n":2,"uuid":"a"}', b'{"uuid":null}', b'{"uuid":null}'):
        await stage.runs.send(folder, text)
    await stage.runs.close_input(folder)
    await stage.exit_of(folder)
    assert stage.output(folder) == b'{"uuid":"a","n":1}\n{"uuid":"b"}\n{"uuid":null}\n{"uuid":null}\n'


async def test_half_a_line_is_kept_back_until_it_is_complete(stage: Stage) -> None:
    folder = await stage.start(("cat",))
    with (folder / "stdin.jsonl").open("ab", buffering=0) as file:
        file.write(b"first\nhal")
        await stage.says(folder, b"first\n")
        assert b"hal" not in stage.output(folder)
        file.write(b"f\n")
        await stage.says(folder, b"half\n")
    assert (folder / "stdin.offset").read_text() == "11\n"


async def test_half_a_line_of_a_killed_daemon_is_not_joined_to_the_next(stage: Stage) -> None:
    folder = await stage.start(("cat",))
    (folder / "stdin.jsonl").write_bytes(b'one\n{"uuid":"x", "torn')
    await stage.runs.send(folder, b"two")
    await stage.runs.close_input(folder)
    await stage.exit_of(folder)
    assert stage.output(folder) == b"one\ntwo\n"


async def test_a_line_after_the_end_of_input_is_refused(stage: Stage) -> None:
    folder = await stage.start(("cat",))
    await stage.runs.close_input(folder)
    await stage.runs.close_input(folder)
    with pytest.raises(InputClosed, match="is closed"):
        await stage.runs.send(folder, b"too late")


async def test_an_agent_that_reads_late_gets_megabytes_completely(stage: Stage) -> None:
    folder = await stage.start(shell("read go; wc -c"))
    await stage.runs.send(folder, b"go")
    await stage.runs.send(folder, b"x" * 5 * MIB)
    await stage.runs.close_input(folder)
    await stage.exit_of(folder)
    assert stage.output(folder).strip() == str(5 * MIB + 1).encode()


async def test_an_agent_that_closes_its_input_may_continue_its_work(stage: Stage) -> None:
    folder = await stage.start(shell("exec <&-; echo closed; until [ -e go ]; do sleep 0.01; done; echo done"))
    await stage.says(folder, b"closed")
    await stage.runs.send(folder, b"x" * MIB)
    (stage.cwd / "go").touch()
    assert (await stage.exit_of(folder)).code == 0
    assert stage.output(folder) == b"closed\ndone\n"


async def test_a_line_of_64_mib_passes_through_a_small_holder(stage: Stage) -> None:
    code = f"import os; [os.write(1, b'y' * {MIB}) for _ in range(64)]; os.write(1, b'\\nend\\n'); os.read(0, 1)"
    folder = await stage.start(python(code), limits=Limits(rotate_bytes=MIB, floor_bytes=0))
    await until(lambda: b"end\n" in read_lines_from(folder, 64 * MIB + 1)[0], "the line after")
    assert psutil.Process(stage.holder(folder)).memory_info().rss < 24 * MIB
    offset, total = 0, 0
    while chunk := read_lines_from(folder, offset)[0]:
        offset, total = offset + len(chunk), total + chunk.count(b"y")
    assert (offset, total) == (64 * MIB + 5, 64 * MIB)


async def test_rotation_keeps_every_logical_offset(stage: Stage) -> None:
    folder = await stage.start(shell("seq 1 20000"), limits=Limits(rotate_bytes=4096, floor_bytes=0))
    await stage.exit_of(folder)
    whole = b"".join(b"%d\n" % number for number in range(1, 20001))
    segments = sorted(int(path.name.split(".")[1]) for path in folder.glob("stdout.*.jsonl"))
    assert len(segments) > 20
    for start in segments:
        assert (folder / f"stdout.{start}.jsonl").read_bytes().endswith(b"\n")
        assert whole[start - 1 : start] in (b"\n", b"")
    read, offset = b"", 0
    while chunk := read_lines_from(folder, offset, 1000)[0]:
        assert whole[offset : offset + len(chunk)] == chunk
        assert chunk.endswith(b"\n")
        read, offset = read + chunk, offset + len(chunk)
    assert read == whole


async def test_rotation_during_reading_loses_nothing(stage: Stage) -> None:
    folder = await stage.start(shell("seq 1 20000"), limits=Limits(rotate_bytes=512, floor_bytes=0))
    read = b""

    def has_read_all() -> bool:
        nonlocal read
        chunk, after = read_lines_from(folder, len(read), 4096)
        read += chunk
        assert after == len(read)
        return read.endswith(b"\n20000\n")

    await until(has_read_all)
    assert read == b"".join(b"%d\n" % number for number in range(1, 20001))


async def test_bytes_that_are_not_text_and_a_missing_last_newline_are_kept(stage: Stage) -> None:
    folder = await stage.start(shell(r"printf '\000\377\n\342\200\250half'"))
    await stage.exit_of(folder)
    assert (folder / "stdout.jsonl").read_bytes() == b"\x00\xff\n\xe2\x80\xa8half"
    assert read_lines_from(folder, 0) == (b"\x00\xff\n", 3)


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one MiB."""
    disk = tmp_path / "data"
    disk.mkdir()
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small file system to fill")
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], check=False)
    if mounted.returncode != 0:
        pytest.skip("this machine does not allow mounting a tmpfs")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


async def test_a_full_disk_makes_the_agent_wait_and_loses_nothing(tiny_disk: Path, stage: Stage) -> None:
    ballast = tiny_disk / "ballast"
    folder = await stage.start(shell("read go; seq 1 100000; echo end"), limits=QUICK)
    ballast.write_bytes(b"x" * (700 << 10))
    await stage.runs.send(folder, b"go")
    await until(lambda: os.statvfs(tiny_disk).f_bavail == 0, "a full disk")
    frozen_at = len(stage.output(folder))
    assert stage.runs.exit_of(folder) is None
    assert frozen_at < 500_000
    whole = b"".join(b"%d\n" % number for number in range(1, 100001)) + b"end\n"
    assert whole.startswith(stage.output(folder))
    ballast.unlink()
    assert (await stage.exit_of(folder)).code == 0
    assert stage.output(folder) == whole


async def test_below_the_free_space_floor_output_waits_in_the_pipe(tiny_disk: Path, stage: Stage) -> None:
    ballast, ticks = tiny_disk / "ballast", stage.cwd / "ticks"
    also_elsewhere = "i=0; while :; do i=$((i+1)); echo $i; echo $i >>ticks; sleep 0.01; done"
    folder = await stage.start(shell(also_elsewhere), limits=Limits(floor_bytes=512 << 10))
    await stage.says(folder, b"3\n")
    ballast.write_bytes(b"x" * (700 << 10))

    def is_far_ahead() -> bool:
        return ticks.read_bytes().count(b"\n") > stage.output(folder).count(b"\n") + 30

    await until(is_far_ahead, "ticks of which nothing is written down")
    held_at = len(stage.output(folder))
    ahead = ticks.stat().st_size
    await until(lambda: ticks.stat().st_size > ahead + 30, "ticks that go on")
    assert len(stage.output(folder)) == held_at
    ballast.unlink()
    await until(lambda: len(stage.output(folder)) > held_at, "what waited in the pipe")
