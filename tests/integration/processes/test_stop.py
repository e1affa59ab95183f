"""The escalation of a stop, and the sweep of processes that an agent leaves behind."""

import os
import signal
from contextlib import suppress
from dataclasses import replace

import psutil

from orchestrator.processes.process_stats import has_processes, tree_of
from orchestrator.processes.spec import Limits
from tests.fakes.waiting import until
from tests.integration.processes.stage import QUICK, TICKER, Stage, python, shell, state_of

PATIENT = replace(QUICK, term_grace=20.0)
DAEMONISE = (
    "import os, time\n"
    "heard, told = os.pipe()\n"
    "if os.fork(): os._exit(os.read(heard, 1) != b'x')\n"
    "os.setsid()\n"
    "if os.fork(): os._exit(0)\n"
    "open('daemon.pid', 'w').write(str(os.getpid()))\n"
    "os.write(told, b'x')\n"
    "time.sleep(1000)\n"
)


async def test_end_of_input_is_the_first_step(stage: Stage) -> None:
    folder = await stage.start(shell("cat; echo bye"), limits=Limits(floor_bytes=0))
    await stage.runs.stop(folder)
    ended = await stage.exit_of(folder)
    assert (ended.code, ended.signal, ended.stopped_by) == (0, None, "request")
    assert stage.output(folder) == b"bye\n"


async def test_what_was_sent_before_a_stop_reaches_the_agent_before_the_end_of_its_input(stage: Stage) -> None:
    folder = await stage.start(shell("cat"), limits=PATIENT)
    holder = tree_of(folder)[0]
    holder.suspend()
    await stage.runs.send(folder, b'{"uuid":"1","interrupt":true}\n')
    await stage.runs.stop(folder)
    holder.resume()
    assert (await stage.exit_of(folder)).code == 0
    assert stage.output(folder) == b'{"uuid":"1","interrupt":true}\n'


async def test_term_is_the_second_step_and_leaves_time_to_clean_up(stage: Stage) -> None:
    folder = await stage.start(shell(f"trap 'echo tidy; exit 143' TERM; {TICKER}"), limits=PATIENT)
    await stage.says(folder, b"2\n")
    await stage.runs.stop(folder)
    ended = await stage.exit_of(folder)
    assert (ended.code, ended.signal) == ((None, 15) if stage.sandbox else (143, None))  # a sandbox says 143 for both
    assert stage.output(folder).endswith(b"tidy\n")


async def test_a_process_that_ignores_term_is_killed(stage: Stage) -> None:
    folder = await stage.start(shell(f"trap '' TERM HUP INT; {TICKER}"))
    await stage.says(folder, b"2\n")
    await stage.runs.stop(folder)
    await stage.runs.stop(folder)
    assert (await stage.exit_of(folder)).signal == signal.SIGKILL


async def test_a_frozen_tree_can_be_stopped(stage: Stage) -> None:
    folder = await stage.start(shell(f"setsid sh -c '{TICKER}' & {TICKER}"), limits=PATIENT)
    await stage.says(folder, b"2\n")
    frozen = await stage.runs.freeze(folder)
    await stage.runs.stop(folder)
    assert (await stage.exit_of(folder)).signal == signal.SIGTERM
    assert all(state_of(pid) == "-" for pid in frozen.stopped)


async def test_a_daemonised_grandchild_is_swept(stage: Stage) -> None:
    folder = await stage.start((*python("")[:1], "-c", DAEMONISE))
    ended = await stage.exit_of(folder)
    pid = int((stage.base / "daemon.pid").read_text())
    assert ended.code == 0
    assert stage.sandbox or pid in ended.swept
    assert stage.sandbox or state_of(pid) == "-"
    assert not has_processes(folder)


async def test_an_agent_that_ends_in_mid_fork_leaves_nothing(stage: Stage) -> None:
    for attempt in range(20):
        folder = await stage.start(shell("(setsid sh -c '(setsid sleep 100 &)' &)"), attempt=attempt)
        await stage.exit_of(folder)
        assert not has_processes(folder)


async def test_a_child_that_holds_the_pipe_and_ignores_term_delays_the_exit_for_a_limited_time(stage: Stage) -> None:
    folder = await stage.start(shell(f"(trap '' TERM HUP; {TICKER}) & sleep 0.2; exit 5"))
    ended = await stage.exit_of(folder)
    assert ended.code == 5
    assert bool(ended.swept) is not stage.sandbox  # what is left in a sandbox, the kernel kills with it
    assert not has_processes(folder)
    assert all(state_of(pid) == "-" for pid in ended.swept)


async def test_the_holder_itself_ignores_polite_signals(stage: Stage) -> None:
    folder = await stage.start(shell("read line; echo $line"))
    for signum in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGTSTP):
        os.kill(stage.holder(folder), signum)
    await stage.runs.send(folder, b"still here")
    await stage.says(folder, b"still here")


async def test_a_killed_holder_leaves_a_lost_run_and_no_process(stage: Stage) -> None:
    folder = await stage.start(shell(f"setsid sh -c '{TICKER}' & {TICKER}"), limits=QUICK)
    await stage.says(folder, b"2\n")
    tree = [process.pid for process in psutil.Process(stage.holder(folder)).children(recursive=True)]
    os.kill(stage.holder(folder), signal.SIGKILL)
    ended = await stage.exit_of(folder)
    assert (ended.lost, ended.code) == (True, None)
    await until(lambda: all(state_of(pid) in "-Z" for pid in tree), "the end of the whole tree")
    assert not has_processes(folder)
    assert stage.runs.exit_of(folder) == ended
    await stage.start(shell("echo again"))
    assert stage.runs.exit_of(folder) == ended


async def test_the_sweep_of_a_lost_run_spares_other_runs(stage: Stage) -> None:
    lost = await stage.start(shell(TICKER), attempt=1)
    spared = await stage.start(shell(TICKER), attempt=11)
    os.kill(stage.holder(lost), signal.SIGKILL)
    assert (await stage.exit_of(lost)).lost
    assert stage.runs.is_alive(spared)
    before = len(stage.output(spared))
    await until(lambda: len(stage.output(spared)) > before, "ticks of the other run")


async def test_a_run_that_ends_at_a_shutdown_of_the_machine_did_not_end_by_itself(stage: Stage) -> None:
    folder = await stage.start(shell(f"trap 'exit 1' TERM; {TICKER}"))
    await stage.says(folder, b"2\n")
    told = [psutil.Process(stage.holder(folder)), *psutil.Process(stage.holder(folder)).children(recursive=True)]
    for process in told:
        with suppress(psutil.NoSuchProcess):  # the command that was running a moment ago
            process.terminate()
    ended = await stage.exit_of(folder)
    assert (ended.code, ended.stopped_by, ended.lost) == (1, "shutdown", False)


async def test_a_frozen_run_ends_at_a_shutdown_of_the_machine(stage: Stage) -> None:
    folder = await stage.start(shell(f"setsid sh -c '{TICKER}' & {TICKER}"))
    await stage.says(folder, b"2\n")
    frozen = await stage.runs.freeze(folder)
    for pid in (*frozen.stopped, stage.holder(folder)):
        os.kill(pid, signal.SIGTERM)
    ended = await stage.exit_of(folder)
    assert (ended.signal, ended.stopped_by, ended.lost) == (signal.SIGTERM, "shutdown", False)
    assert all(state_of(pid) == "-" for pid in frozen.stopped)


async def test_a_frozen_run_stays_frozen_when_only_its_holder_gets_a_signal(stage: Stage) -> None:
    folder = await stage.start(shell(TICKER))
    await stage.says(folder, b"2\n")
    frozen = await stage.runs.freeze(folder)
    os.kill(stage.holder(folder), signal.SIGTERM)
    assert (await stage.runs.freeze(folder)).stopped == frozen.stopped
