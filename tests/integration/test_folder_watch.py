"""The watch over folders in which other programs change files, with real folders and a real loop."""

import asyncio
from pathlib import Path

from orchestrator.daemon.watch import Watch
from tests.fakes.waiting import running

PATIENCE = 60.0


async def test_a_folder_that_is_deleted_keeps_neither_the_loop_nor_the_watch_over_others(tmp_path: Path) -> None:
    reported = asyncio.Queue[set[Path]]()
    watch, kept, deleted = Watch(reported.put_nowait), tmp_path / "kept", tmp_path / "deleted"
    kept.mkdir()
    deleted.mkdir()
    await watch.look_at([kept, deleted])
    deleted.rmdir()
    async with running(watch.run()), asyncio.timeout(PATIENCE):
        (kept / "changed").touch()
        assert await reported.get() == {kept / "changed"}
        deleted.mkdir()
        (deleted / "new").touch()
        await watch.look_at([kept, deleted])
        assert await reported.get() == {deleted / "new"}
