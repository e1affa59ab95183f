"""Activity of real process trees, and the detection of stalled turns."""

import socket
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio

from orchestrator.agents.stall_detector import Look, StallDetector, is_sign_of_life, may_stall
from orchestrator.core.events.events import Event, StallSeen
from orchestrator.core.task.agent import Agent, AgentStatus, ProcessState, Run, TurnProgress
from orchestrator.core.task.task import NextAction, Task, TaskStatus
from orchestrator.processes.process_stats import activity_of
from orchestrator.processes.run_state import pid_of
from orchestrator.processes.spec import Activity
from orchestrator.storage.task_files import FolderTaskFiles
from tests.fakes.tasks import submitted
from tests.fakes.waiting import until
from tests.integration.processes.stage import Stage, python, state_of

NOW = datetime(2026, 11, 21, 22, 0, 0, tzinfo=UTC)
AT_WORK = submitted(
    status=TaskStatus.IN_PROGRESS,
    next_action=NextAction.TURN,
    run=Run(folder="agents/1", process=ProcessState.RUNNING),
    agent=Agent(status=AgentStatus.RUNNING, attempt=1, turn=TurnProgress(number=1)),
)
READY = "import os, sys, time\nos.write(1, b'ready\\n')\n"
SLEEPER = READY + "time.sleep(600)\n"
BURNER = READY + "while True: pass\n"
LISTENER = f"""{READY}import socket
peer = socket.socket(socket.AF_UNIX)
peer.connect(sys.argv[1])
while piece := peer.recv(100):
    peer.send(piece)
"""


@pytest_asyncio.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    stage = Stage(tmp_path, cgroup=False)
    yield stage
    await stage.runs.close()
    stage.clear()


def sleeps(folder: Path) -> bool:
    """Whether the agent waits for something."""
    return state_of(pid_of(folder) or 0) == "S"


def has_received(folder: Path, count: int) -> bool:
    """Whether the agent's connections brought so many bytes."""
    return activity_of(folder).received == count


class Watched:
    """One agent of a stage, watched with its own time limit."""

    def __init__(self, stage: Stage, stall_after: float) -> None:
        folder = stage.folder().parent.parent
        self.task = replace(AT_WORK, id=folder.name, folder=str(folder))
        self.told: list[Event] = []
        self.stalls = StallDetector(
            lambda: [self.task],
            lambda _task, event: self.told.append(event),
            lambda: NOW,
            FolderTaskFiles(folder.parent),
            stall_after,
        )

    def hear(self, offset: int) -> None:
        """Record output of the agent."""
        self.task = replace(self.task, agent=replace(self.task.agent, read_offset=offset))


async def test_a_turn_without_activity_is_reported_with_the_evidence(stage: Stage) -> None:
    folder = await stage.start(python(SLEEPER))
    await stage.says(folder, b"ready")
    await until(lambda: sleeps(folder))
    watched = Watched(stage, stall_after=0.0)
    await watched.stalls.look()
    assert watched.told == [], "one sample is not enough"
    await watched.stalls.look()
    (seen,) = watched.told
    assert isinstance(seen, StallSeen)
    assert (seen.at, seen.attempt, seen.turn) == (NOW, 1, 1)
    assert "no output, no byte received, no tool at work, and of 1 running process 0.0" in seen.evidence
    assert "0 bytes read or written, woken " in seen.evidence


async def test_each_further_stall_takes_as_long_as_the_first(stage: Stage) -> None:
    folder = await stage.start(python(SLEEPER))
    await stage.says(folder, b"ready")
    watched = Watched(stage, stall_after=0.0)
    for _ in range(3):
        await watched.stalls.look()
    assert len(watched.told) == 2
    watched.stalls.stall_after = 3600.0
    for _ in range(3):
        await watched.stalls.look()
    assert len(watched.told) == 2


async def test_output_restarts_the_silence(stage: Stage) -> None:
    folder = await stage.start(python(SLEEPER))
    await stage.says(folder, b"ready")
    watched = Watched(stage, stall_after=0.0)
    for offset in range(5):
        watched.hear(offset)
        await watched.stalls.look()
    assert watched.told == []


async def test_a_pause_restarts_the_silence(stage: Stage) -> None:
    folder = await stage.start(python(SLEEPER))
    await stage.says(folder, b"ready")
    watched = Watched(stage, stall_after=0.0)
    at_work = watched.task
    for _ in range(3):
        watched.task = at_work
        await watched.stalls.look()
        watched.task = replace(at_work, agent=replace(at_work.agent, status=AgentStatus.PAUSED))
        await watched.stalls.look()
    assert watched.told == []


async def test_processor_time_is_activity(stage: Stage) -> None:
    folder = await stage.start(python(BURNER))
    await stage.says(folder, b"ready")
    before = Look(at=0.0, activity=activity_of(folder))
    await until(lambda: is_sign_of_life(before, Look(at=0.0, activity=activity_of(folder))))


async def test_data_received_over_a_socket_is_activity(stage: Stage, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        server.listen()
        folder = await stage.start((*python(LISTENER), str(tmp_path / "socket")))
        await stage.says(folder, b"ready")
        peer, _ = server.accept()
        with peer:
            before = Look(at=0.0, activity=activity_of(folder))
            for _ in range(200):
                await until(lambda: sleeps(folder))  # only the waiting process is woken
                peer.sendall(b"a few words")
                assert peer.recv(100)
            assert is_sign_of_life(before, Look(at=10.0, activity=activity_of(folder)))


async def test_one_byte_received_over_a_connection_is_activity(stage: Stage) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = f"{READY}import socket\npeer = socket.create_connection(('127.0.0.1', int(sys.argv[1])))\n"
        folder = await stage.start((*python(f"{code}while peer.recv(1): pass\n"), str(server.getsockname()[1])))
        await stage.says(folder, b"ready")
        peer, _ = server.accept()
        with peer:
            for received in range(1, 4):
                before = Look(at=0.0, activity=activity_of(folder))
                assert not is_sign_of_life(before, Look(at=3600.0, activity=activity_of(folder)))
                peer.sendall(b".")
                await until(partial(has_received, folder, received))
                assert is_sign_of_life(before, Look(at=3600.0, activity=activity_of(folder)))


async def test_a_new_process_is_activity(stage: Stage) -> None:
    code = f"{READY}import subprocess\nsys.stdin.readline()\nsubprocess.Popen(['sleep', '600'])\ntime.sleep(600)\n"
    folder = await stage.start((sys.executable, "-I", "-c", code))
    await stage.says(folder, b"ready")
    before = Look(at=0.0, activity=activity_of(folder))
    await stage.runs.send(folder, b"go\n")
    await until(lambda: len(activity_of(folder).pids) == 2)
    assert is_sign_of_life(before, Look(at=3600.0, activity=activity_of(folder)))


async def test_the_holders_work_is_not_activity(stage: Stage) -> None:
    folder = await stage.start(python(SLEEPER))
    await stage.says(folder, b"ready")
    before = activity_of(folder)
    for number in range(50):
        await stage.runs.send(folder, b"%d\n" % number)
    offset = folder / "stdin.offset"
    await until(lambda: offset.exists() and offset.read_text() == "140\n")
    assert not is_sign_of_life(Look(at=0.0, activity=before), Look(at=0.0, activity=activity_of(folder)))
    assert stage.holder(folder) not in before.pids


def test_a_waiting_event_loop_shows_no_activity() -> None:
    before = Activity(pids=frozenset({7}), cpu_seconds=0.90, io_bytes=543_770, wakes=685)
    after = Activity(pids=frozenset({7}), cpu_seconds=1.07, io_bytes=544_778, wakes=762)
    assert not is_sign_of_life(Look(at=0.0, activity=before), Look(at=20.0, activity=after))


def test_a_streamed_response_is_activity() -> None:
    before = Activity(pids=frozenset({7}), cpu_seconds=0.90, io_bytes=543_770, wakes=685)
    after = replace(before, wakes=before.wakes + 30 * 20)
    assert is_sign_of_life(Look(at=0.0, activity=before), Look(at=30.0, activity=after))


@pytest.mark.parametrize(
    ("task", "may"),
    [
        (AT_WORK, True),
        (replace(AT_WORK, next_action=NextAction.GATE), False),
        (replace(AT_WORK, next_action=NextAction.INTERRUPT), False),
        (replace(AT_WORK, status=TaskStatus.BLOCKED), False),
        (replace(AT_WORK, run=None), False),
        (replace(AT_WORK, run=Run(folder="logs/1-unit_test", process=ProcessState.RUNNING)), False),
        (replace(AT_WORK, run=Run(folder="agents/1", process=ProcessState.FROZEN)), False),
        (replace(AT_WORK, run=Run(folder="agents/1", process=ProcessState.STARTING)), False),
        (replace(AT_WORK, agent=replace(AT_WORK.agent, status=AgentStatus.PAUSED)), False),
        (replace(AT_WORK, agent=replace(AT_WORK.agent, status=AgentStatus.WAITING_QUESTION)), False),
        (replace(AT_WORK, agent=replace(AT_WORK.agent, turn=replace(AT_WORK.agent.turn, open_tools=1))), False),
        (
            replace(
                AT_WORK,
                agent=replace(AT_WORK.agent, turn=replace(AT_WORK.agent.turn, retry_until=NOW + timedelta(seconds=1))),
            ),
            False,
        ),
        (replace(AT_WORK, agent=replace(AT_WORK.agent, turn=replace(AT_WORK.agent.turn, retry_until=NOW))), True),
    ],
)
def test_only_a_running_turn_with_nothing_to_wait_for_can_stall(task: Task, may: bool) -> None:
    assert may_stall(task, NOW) is may
