"""The outbox of callbacks against a real receiver: each arrives once, whatever fails on the way."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson
import pytest

from orchestrator import clock
from orchestrator.core.events.callback import Callback, CallbackKind
from orchestrator.core.events.events import AlarmRang
from orchestrator.core.task.task import Task, TaskStatus
from orchestrator.daemon.reporting.callbacks import CallbackSources
from orchestrator.errors import NoSuchTask
from orchestrator.formats.codec import JsonObject
from orchestrator.integrations.callbacks.destinations import Destination, Destinations
from orchestrator.integrations.callbacks.outbox import CallbackPatience, Outbox, OutboxParts
from orchestrator.pipelines.bundled import bundled_redactor
from orchestrator.storage.records import StoreError
from orchestrator.storage.task_files import FolderTaskFiles
from orchestrator.workspaces.git import GitError
from tests.fakes.callback_server import CallbackServer
from tests.fakes.tasks import TASK_ID, submitted
from tests.fakes.waiting import running, until

PATIENCE = 60.0  # seconds
QUICK = CallbackPatience(request=5, pause=0.05, longest_pause=0.2, progress=0.01)
"""Pauses that a test can wait for."""
SECRET = "ghp_" + "a1B2" * 9
TRICKY = 'a "quote", a\nline, \\ and ✓'


def owed(task: Task) -> tuple[Callback, ...]:
    """What a family might say: the title as progress, and the end once there is one."""
    if task.status.is_final:
        body: JsonObject = {"workId": "WORK-07", "status": "SUCCESS", "why": task.title}
        return (Callback(key=f"task-{task.status.value}", kind=CallbackKind.TASK, body=body, at=task.updated_at),)
    key = f"progress-{task.seq}"
    return (Callback(key=key, kind=CallbackKind.PROGRESS, body={"note": task.title}, at=task.updated_at),)


@dataclass
class Place:
    """A data folder with one task; `destinations` are those of the settings, `instructions` is the CLAUDE.md."""

    root: Path
    destinations: Destinations = field(default_factory=Destinations)
    instructions: str = ""
    patience: CallbackPatience = QUICK
    troubles: dict[str, list[Exception]] = field(default_factory=dict)
    tasks: dict[str, Task] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.files = FolderTaskFiles(self.root / "tasks")
        self.files.create(TASK_ID)

    def sends_to(self, server: CallbackServer, token: str = "") -> None:
        urls = {CallbackKind.TASK: f"{server.url}/task", CallbackKind.PROGRESS: f"{server.url}/progress"}
        self.destinations = Destinations(urls=urls, token=token)

    def task(self, **changes: Any) -> Task:
        self.tasks[TASK_ID] = submitted(updated_at=clock.now(), **changes)
        return self.tasks[TASK_ID]

    def ended(self, **changes: Any) -> Task:
        return self.task(status=TaskStatus.COMPLETED, seq=9, **changes)

    def trouble(self, name: str) -> None:
        """Raise what the next call of a part is to raise, if anything."""
        if self.troubles.get(name):
            raise self.troubles[name].pop()

    def owed(self, task: Task) -> tuple[Callback, ...]:
        self.trouble("owed")
        return owed(task)

    def destination(self, kind: CallbackKind) -> Destination | None:
        self.trouble("destination")
        return self.destinations.of(kind, self.instructions)

    def load(self, task_id: str) -> Task:
        self.trouble("load")
        if task_id not in self.tasks:
            raise NoSuchTask(task_id)
        return self.tasks[task_id]

    @asynccontextmanager
    async def outbox(self) -> AsyncIterator[Outbox]:
        """An outbox as one daemon has it, from its start to its end."""
        parts = OutboxParts(
            files=self.files,
            folder=self.root / "callbacks",
            has_callbacks=lambda _: True,
            owed=self.owed,
            destination=lambda _, kind: self.destination(kind),
            load=self.load,
            redact=bundled_redactor().masked,
            clock=clock.now,
            patience=self.patience,
        )
        outbox = Outbox(parts)
        async with running(outbox.run()):
            yield outbox

    @property
    def is_settled(self) -> bool:
        """Whether nothing is owed any more."""
        return (self.root / "callbacks").is_dir() and not any((self.root / "callbacks").iterdir())


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def told(outbox: Outbox, task: Task) -> None:
    outbox.on_decision(task, AlarmRang(at=clock.now()))


async def test_the_end_of_a_task_is_sent_as_whole_json_with_its_token_and_key(place: Place) -> None:
    with CallbackServer() as server:
        place.sends_to(server, token="t0ken value".replace(" ", "-"))
        async with place.outbox() as outbox:
            told(outbox, place.ended(title=TRICKY))
            await until(lambda: place.is_settled)
    (got,) = server.received
    assert (got.path, got.body) == ("/task", {"workId": "WORK-07", "status": "SUCCESS", "why": TRICKY})
    assert got.headers["X-Runner-Api-Key"] == "t0ken-value"
    assert got.headers["Content-Type"] == "application/json"
    assert got.headers["Idempotency-Key"] == f"{TASK_ID}:task-completed"


async def test_without_a_token_there_is_no_header_for_one_and_secrets_stay_here(place: Place) -> None:
    with CallbackServer() as server:
        place.sends_to(server)
        async with place.outbox() as outbox:
            told(outbox, place.ended(title=f"It said {SECRET}."))
            await until(lambda: place.is_settled)
    (got,) = server.received
    assert "X-Runner-Api-Key" not in got.headers
    assert SECRET not in str(got.body)
    assert got.body["why"].startswith("It said ")


async def test_a_receiver_that_is_down_gets_it_later_and_nothing_waits_meanwhile(place: Place) -> None:
    with CallbackServer() as server:
        port = server.port
        place.sends_to(server)
    async with place.outbox() as outbox:
        told(outbox, place.ended())
        assert not place.is_settled
        with CallbackServer(port) as back:
            back.statuses.extend([503, 500, 429, 401])
            await until(lambda: place.is_settled)
    assert [got.path for got in back.received] == ["/task"] * 5
    assert len({got.headers["Idempotency-Key"] for got in back.received}) == 1


PASSING = (OSError(23, "too many open files"), GitError("git show", None, ""), StoreError("it is being written"))
"""What goes by: each time, another call succeeds."""


@pytest.mark.parametrize("part", ["owed", "destination"])
async def test_what_fails_in_passing_is_tried_again_until_the_end_is_told(place: Place, part: str) -> None:
    place.troubles = {part: [*PASSING]}
    with CallbackServer() as server:
        place.sends_to(server)
        async with place.outbox() as outbox:
            told(outbox, place.ended())
            await until(lambda: place.is_settled)
    assert ([got.path for got in server.received], place.troubles) == (["/task"], {part: []})


async def test_what_cannot_be_composed_for_whatever_reason_is_not_forgotten(place: Place) -> None:
    place.troubles = {"owed": [ValueError("half a document"), TypeError("a bug")]}
    with CallbackServer() as server:
        place.sends_to(server)
        async with place.outbox() as outbox:
            told(outbox, place.ended())
            await until(lambda: place.is_settled)
    assert [got.path for got in server.received] == ["/task"]


def test_only_a_task_without_a_folder_is_gone(place: Place) -> None:
    def unreadable(task_id: str) -> Task:
        raise StoreError(f"{task_id} is not there, or damaged")

    missing: Any = None
    sources = CallbackSources(
        settings=missing, pipeline_of=missing, workspace=missing, load=unreadable, note_of=missing
    )
    load = sources.outbox(place.files, place.root, str, clock.now).parts.load
    with pytest.raises(StoreError):
        load(TASK_ID)
    with pytest.raises(NoSuchTask):
        load("another-task")


async def test_a_task_that_cannot_be_read_after_a_restart_is_read_later(place: Place) -> None:
    with CallbackServer() as server:
        port = server.port
        place.sends_to(server)
    async with place.outbox() as outbox:
        told(outbox, place.ended())
    place.troubles = {"load": [*PASSING]}
    with CallbackServer(port) as back:
        async with place.outbox():
            await until(lambda: place.is_settled)
    assert ([got.path for got in back.received], place.troubles) == (["/task"], {"load": []})


async def test_what_was_owed_before_a_restart_is_sent_after_it_and_what_was_sent_is_not_sent_again(
    place: Place,
) -> None:
    with CallbackServer() as server:
        port = server.port
        place.sends_to(server)
    async with place.outbox() as outbox:
        told(outbox, place.ended())
    with CallbackServer(port) as back:
        async with place.outbox():
            await until(lambda: place.is_settled)
        async with place.outbox() as outbox:
            told(outbox, place.tasks[TASK_ID])
            await until(lambda: place.is_settled)
    assert len(back.received) == 1


async def test_a_task_that_ended_while_no_daemon_ran_the_outbox_is_found(place: Place) -> None:
    with CallbackServer() as server:
        place.sends_to(server)
        async with place.outbox() as outbox:
            told(outbox, place.task(seq=1))
            await until(lambda: len(server.received) == 1)
        place.ended()  # decided and on disk, and then the daemon was killed
        async with place.outbox():
            await until(lambda: place.is_settled)
    assert [got.path for got in server.received] == ["/progress", "/task"]


async def test_only_the_newest_progress_is_sent_and_each_once(place: Place) -> None:
    place.patience = replace(QUICK, progress=0.2)
    with CallbackServer() as server:
        place.sends_to(server)
        async with place.outbox() as outbox:
            for seq in (1, 1, 2, 3, 4):
                told(outbox, place.task(seq=seq, title=f"Note {seq}"))
                await until(lambda: server.received)
            await until(lambda: len(server.received) == 2)
            told(outbox, place.ended())
            await until(lambda: place.is_settled)
    assert [got.body.get("note") for got in server.received] == ["Note 1", "Note 4", None]


@pytest.mark.parametrize("status", [302, 400, 409, 422])
async def test_what_is_refused_for_good_and_a_redirect_end_it(place: Place, status: int) -> None:
    with CallbackServer() as other, CallbackServer() as server:
        server.headers = {"Location": f"{other.url}/task"}
        server.statuses.append(status)
        place.sends_to(server, token="operators")
        async with place.outbox() as outbox:
            told(outbox, place.ended())
            await until(lambda: place.is_settled)
    assert (len(server.received), other.received) == (1, [])
    assert orjson.loads(place.files.read(TASK_ID, "callbacks.json")) == {"task": "task-completed"}


async def test_a_callback_that_is_a_week_old_is_given_up(place: Place) -> None:
    with CallbackServer() as server:
        server.statuses.extend([503] * 100)
        place.sends_to(server)
        async with place.outbox() as outbox:
            told(outbox, replace(place.ended(), updated_at=clock.now() - timedelta(days=8)))
            await until(lambda: place.is_settled)
    assert len(server.received) == 1


async def test_a_repository_cannot_make_us_call_a_host_that_is_not_listed(place: Place) -> None:
    with CallbackServer() as server:
        place.instructions = f"TaskCallback: {server.url}/task\nCallbackToken: theirs\n"
        place.destinations = Destinations(token="operators", hosts=frozenset({"ci.example.org"}))
        async with place.outbox() as outbox:
            told(outbox, place.ended())
            await until(lambda: place.is_settled)
        assert server.received == []
        place.destinations = Destinations(token="operators", hosts=frozenset({urlsplit(server.url).netloc}))
        async with place.outbox() as outbox:
            told(outbox, place.task(status=TaskStatus.FAILED))
            await until(lambda: place.is_settled)
    (got,) = server.received
    assert got.headers["X-Runner-Api-Key"] == "theirs"


async def test_an_endless_answer_is_not_read(place: Place) -> None:
    with CallbackServer() as server:
        server.flood = 1 << 34
        place.sends_to(server)
        async with place.outbox() as outbox:
            told(outbox, place.ended())
            await until(lambda: place.is_settled)
    assert len(server.received) == 1


async def test_nothing_happens_without_an_address_and_a_deleted_task_is_forgotten(place: Place) -> None:
    async with place.outbox() as outbox:
        told(outbox, place.ended())
        await until(lambda: place.is_settled)
        told(outbox, place.task(seq=1))
    assert not place.is_settled
    place.tasks.clear()
    async with place.outbox():
        await until(lambda: place.is_settled)
