"""The page of disk space, which waits for no measurement."""

import asyncio
import threading
from pathlib import Path

from tests.fakes.ended_tasks import EndedTasks
from tests.fakes.in_process_daemon import create_daemon, serving

MEASURED = "The files are being measured."


async def test_the_page_answers_while_files_are_measured_and_has_them_then(tmp_path: Path) -> None:
    ended = EndedTasks(tmp_path / "data", tmp_path / "repo")
    ended.add("OLD-1", days=40, transcript=200_000)
    ended.close()
    daemon = create_daemon(tmp_path / "data")
    may_measure = threading.Event()
    async with serving(daemon) as client:
        busy = asyncio.ensure_future(daemon.service.disk.background.run(may_measure.wait))
        await asyncio.sleep(0)  # now the only thread that measures waits
        try:
            for path in ("/disk", "/disk/now"):
                page = (await client.get(path)).raise_for_status().text
                assert MEASURED in page
                assert "are free" in page
                assert "OLD-1" not in page
        finally:
            may_measure.set()
            await busy
        await client.get("/api/disk")
        page = (await client.get("/disk/now")).raise_for_status().text
        assert MEASURED not in page
        assert "/tasks/OLD-1" in page
    daemon.service.disk.background.close()
    daemon.store.close()
