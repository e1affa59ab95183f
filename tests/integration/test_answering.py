"""Users at the command line: answers, values, reviews, budgets, and operations on all tasks."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import pytest_asyncio

from orchestrator import clock
from orchestrator.core.events.agent_messages import DependencyType
from orchestrator.core.task.agent import AgentStatus, PauseReason
from orchestrator.core.task.task import TaskStatus
from orchestrator.core.task.usage_limits import Window
from orchestrator.core.task.user_requests import RequestDraft, RequestStatus, Subject
from tests.fakes.in_process_daemon import PATIENCE, InProcessDaemon, create_daemon, serving
from tests.fakes.repositories import repository
from tests.fakes.shell import ROOT, Shell, only_error

HOUR = timedelta(hours=1)
VALUE = "correct horse battery staple"
DATABASE = RequestDraft(subject=Subject.QUESTION, text="Which database?\nIt matters.", options=("SQLite", "Postgres"))
NAME = RequestDraft(subject=Subject.QUESTION, text="Which name \x1b[31m?", default="hello")
WISH = RequestDraft(subject=Subject.QUESTION, text="Any wish?", required=False)
PLAN = RequestDraft(subject=Subject.PLAN, text="First this, then that")
TOOL = RequestDraft(subject=Subject.PERMISSION, text="command: rm -r x", name="Bash", options=("allow", "deny"))
KEY = RequestDraft(subject=Subject.DEPENDENCY, text="for the shop", name="SHOP_KEY", type=DependencyType.API_KEY.value)
DOCKER = RequestDraft(subject=Subject.DEPENDENCY, text="to build", name="docker", type=DependencyType.PERMISSION.value)


@pytest.fixture
def orchestrator(tmp_path: Path) -> Shell:
    """The program, in the user's repository."""
    repository(tmp_path / "repo")
    return Shell(tmp_path)


@pytest_asyncio.fixture
async def daemon(orchestrator: Shell) -> AsyncIterator[InProcessDaemon]:
    """A daemon without processes, running where the program looks for it."""
    daemon = create_daemon(orchestrator.data)
    async with serving(daemon):
        yield daemon
    daemon.store.close()


async def asked(orchestrator: Shell, daemon: InProcessDaemon, *asking: RequestDraft) -> str:
    """An active task whose agent has an open request."""
    done = await orchestrator("submit", "text", "--interactive")
    task = done.out.strip()
    assert done.code == 0, done.err
    await daemon.let_ask(task, *asking)
    return task


def answers(daemon: InProcessDaemon, task: str) -> list[tuple[RequestStatus, str | None]]:
    return [(ask.status, ask.answer) for ask in daemon.supervisor.tasks[task].requests]


@pytest.mark.parametrize("text", ["postgres", "2", "Postgres"])
async def test_a_question_is_answered_by_an_option_or_its_number(
    orchestrator: Shell, daemon: InProcessDaemon, text: str
) -> None:
    task = await asked(orchestrator, daemon, DATABASE)
    done = await orchestrator("answer", task, text)
    assert (done.code, done.out) == (0, f"{task}.1 answered: Postgres\n"), done.err
    assert answers(daemon, task) == [(RequestStatus.ANSWERED, "Postgres")]
    again = only_error(await orchestrator("answer", task, text), 5)
    assert "allowed now: pause, cancel" in again


async def test_an_answer_that_fits_no_option_is_a_usage_error_that_lists_the_options(
    orchestrator: Shell, daemon: InProcessDaemon
) -> None:
    task = await asked(orchestrator, daemon, DATABASE)
    assert "did you mean 'Postgres'?" in only_error(await orchestrator("answer", task, "Postgrse"), 2)


async def test_several_questions_are_asked_in_turn_and_read_line_by_line(
    orchestrator: Shell, daemon: InProcessDaemon
) -> None:
    task = await asked(orchestrator, daemon, DATABASE, NAME, WISH)
    assert "--ask 2" in only_error(await orchestrator("answer", task, "SQLite"), 2)
    done = await orchestrator("answer", task, "--json", stdin=b"2\n\n\n")
    assert done.code == 0, done.err
    for shown in ("Which database?\n  It matters.", "1. SQLite", "Which name \\x1b[31m?", "default: hello"):
        assert shown in done.err
    assert [ask["answer"] for ask in json.loads(done.out)["requests"]][:2] == ["Postgres", "hello"]
    assert [status for status, _ in answers(daemon, task)] == [
        RequestStatus.ANSWERED,
        RequestStatus.ANSWERED,
        RequestStatus.SKIPPED,
    ]


async def test_all_of_standard_input_is_the_answer_to_a_single_question(
    orchestrator: Shell, daemon: InProcessDaemon
) -> None:
    task = await asked(orchestrator, daemon, WISH)
    done = await orchestrator("answer", task, stdin=b"two\nlines\n")
    assert (done.code, answers(daemon, task)) == (0, [(RequestStatus.ANSWERED, "two\nlines")]), done.err


async def test_one_of_several_is_answered_or_skipped_by_its_number(
    orchestrator: Shell, daemon: InProcessDaemon
) -> None:
    task = await asked(orchestrator, daemon, DATABASE, WISH)
    assert (await orchestrator("answer", task, "--skip", "--ask", "2")).code == 0
    assert "has to be answered" in only_error(await orchestrator("answer", task, "--skip"), 2)
    assert "there is no request number 9" in only_error(await orchestrator("answer", task, "x", "--ask", "9"), 2)
    assert (await orchestrator("answer", task, "1", "--ask", "1")).code == 0
    assert [status for status, _ in answers(daemon, task)] == [RequestStatus.ANSWERED, RequestStatus.SKIPPED]


async def at_a_terminal(orchestrator: Shell, typed: bytes, *arguments: str) -> tuple[int, str]:
    """Run a command at a terminal; return its exit code and everything it printed."""
    ours, theirs = os.openpty()
    env = {"PATH": os.environ["PATH"], "HOME": str(orchestrator.home), "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
    argv = (*orchestrator.argv, *arguments)
    process = await asyncio.create_subprocess_exec(
        *argv, stdin=theirs, stdout=theirs, stderr=theirs, env=env, start_new_session=True
    )
    os.close(theirs)
    shown, loop = bytearray(), asyncio.get_running_loop()

    def read() -> bytes:
        try:
            return os.read(ours, 65536)
        except OSError:  # the last process that had it open has exited
            return b""

    lines = typed.splitlines(keepends=True)
    while piece := await asyncio.wait_for(loop.run_in_executor(None, read), PATIENCE):
        shown += piece
        if lines and shown.rstrip().endswith((b">", b"(not shown):")):
            os.write(ours, lines.pop(0))
    os.close(ours)
    return await process.wait(), shown.decode()


async def test_at_a_terminal_a_refused_answer_is_asked_for_again(orchestrator: Shell, daemon: InProcessDaemon) -> None:
    task = await asked(orchestrator, daemon, DATABASE)
    code, shown = await at_a_terminal(orchestrator, b"Oracle\nsqlite\n", "answer", task)
    assert (code, answers(daemon, task)) == (0, [(RequestStatus.ANSWERED, "SQLite")]), shown
    assert "the options are: SQLite, Postgres" in shown


async def test_a_value_is_typed_hidden_or_piped_and_never_shown(orchestrator: Shell, daemon: InProcessDaemon) -> None:
    other = RequestDraft(subject=Subject.DEPENDENCY, text="too", name="OTHER_KEY", type=DependencyType.API_KEY.value)
    task = await asked(orchestrator, daemon, KEY, other)
    code, shown = await at_a_terminal(orchestrator, VALUE.encode() + b"\n", "provide", task, "SHOP_KEY")
    assert (code, VALUE in shown) == (0, False), shown
    done = await orchestrator("provide", task, "OTHER_KEY", "--json", stdin=VALUE.encode() + b"\n")
    assert (done.code, json.loads(done.out)["requests"][0]["status"], VALUE in done.out) == (0, "provided", False)
    kept = daemon.provisions.environment(daemon.supervisor.tasks[task])
    assert kept == {"SHOP_KEY": VALUE, "OTHER_KEY": VALUE}


async def test_only_a_required_dependency_can_be_provided(orchestrator: Shell, daemon: InProcessDaemon) -> None:
    task = await asked(orchestrator, daemon, KEY, DOCKER)
    assert "did you mean SHOP_KEY?" in only_error(await orchestrator("provide", task, "SHOPKEY", stdin=b"x"), 2)
    assert "longer than" in only_error(await orchestrator("provide", task, "SHOP_KEY", stdin=b"x" * 70_000), 2)
    assert "UTF-8" in only_error(await orchestrator("provide", task, "SHOP_KEY", stdin=b"\xff"), 2)
    assert (await orchestrator("provide", task, "docker")).code == 0
    assert (await orchestrator("provide", task, "SHOP_KEY", "--reject", "no shop")).code == 0
    assert answers(daemon, task) == [(RequestStatus.REJECTED, "no shop"), (RequestStatus.PROVIDED, "")]
    assert "provide" in only_error(await orchestrator("provide", task, "SHOP_KEY", stdin=b"x"), 5)


async def test_a_value_that_cannot_be_masked_is_accepted_with_a_warning(
    orchestrator: Shell, daemon: InProcessDaemon
) -> None:
    task = await asked(orchestrator, daemon, KEY, replace(KEY, name="OTHER_KEY"))
    done = await orchestrator("provide", task, "SHOP_KEY", "--json", stdin=b"abc")
    assert done.code == 0, done.err
    assert "SHOP_KEY is not masked in the output of agents and tools: " in done.err
    assert json.loads(done.out)["requests"][0]["status"] == "provided"
    assert (await orchestrator("provide", task, "OTHER_KEY", stdin=VALUE.encode())).err == ""


async def test_lost_values_of_a_blocked_task_can_be_provided_again(
    orchestrator: Shell, daemon: InProcessDaemon
) -> None:
    task = await asked(orchestrator, daemon, KEY)
    assert (await orchestrator("provide", task, "SHOP_KEY", stdin=b"old")).code == 0
    daemon.supervisor.tasks[task] = replace(daemon.supervisor.tasks[task], status=TaskStatus.BLOCKED)
    done = await orchestrator("provide", task, "SHOP_KEY", stdin=VALUE.encode())
    assert done.code == 0, done.err
    assert daemon.provisions.environment(daemon.supervisor.tasks[task]) == {"SHOP_KEY": VALUE}


async def test_a_review_is_approved_or_sent_back(orchestrator: Shell, daemon: InProcessDaemon) -> None:
    task = await asked(orchestrator, daemon, PLAN)
    done = await orchestrator("request-changes", task, "-m", "-", stdin=b"Shorter, please\n")
    assert (done.code, answers(daemon, task)) == (0, [(RequestStatus.CHANGES_REQUESTED, "Shorter, please")]), done.err
    await daemon.let_ask(task, RequestDraft(subject=Subject.PLAN, text="Only this"))
    assert (await orchestrator("approve", task)).out == f"{task}.2 approved\n"
    assert "cannot approve a task that is in_progress" in only_error(await orchestrator("approve", task), 5)
    only_error(await orchestrator("request-changes", task), 2)


async def test_every_view_of_a_task_states_in_plain_words_what_it_waits_for(
    orchestrator: Shell, daemon: InProcessDaemon
) -> None:
    task = await asked(orchestrator, daemon, TOOL)
    shown = (await orchestrator("show", task)).out
    for words in ("waits for your answer", "May it use Bash?", "rm -r x", "1. allow", f"orchestrator answer {task}"):
        assert words in shown
    for command in (["tasks"], ["status"], ["why", task]):
        assert "waits for your answer" in (await orchestrator(*command)).out, command
    assert "paused" in (await orchestrator("pause", task)).out
    assert "waits for your answer" in (await orchestrator("resume", task)).out


async def test_a_draft_is_kept_until_it_is_submitted(orchestrator: Shell, daemon: InProcessDaemon) -> None:
    draft = await orchestrator("submit", "text", "--draft", "--budget", "2.5")
    task = draft.out.strip()
    assert (daemon.supervisor.tasks[task].status, daemon.supervisor.tasks[task].policy.caps.usd) == (
        TaskStatus.DRAFT,
        2.5,
    )
    assert f"orchestrator submit --task {task}" in draft.err
    assert (await orchestrator("submit", "--task", task)).out == f"{task}\n"
    await daemon.inbox.settled()
    assert daemon.supervisor.tasks[task].status is TaskStatus.IN_PROGRESS
    assert "allowed now" in only_error(await orchestrator("submit", "--task", task), 5)
    assert "cannot change a task" in only_error(await orchestrator("submit", "x", "--task", task), 5)
    for wrong in (["x", "--draft", "--wait"], ["x", "--budget", "0"], ["x", "--budget", "nan"]):
        only_error(await orchestrator("submit", *wrong), 2)


async def test_a_budget_is_raised_in_one_kind_and_the_others_stay(orchestrator: Shell, daemon: InProcessDaemon) -> None:
    task = (await orchestrator("submit", "text", "--budget", "2")).out.strip()
    done = await orchestrator("budget", task, "--turns", "30", "--hours", "1.5")
    assert done.out.endswith("$0.00 of $2.00, 0 of 30 turns, 0.0 of 1.5 hours\n"), done
    caps = daemon.supervisor.tasks[task].policy.caps
    assert (caps.usd, caps.tokens, caps.turns, caps.hours) == (2.0, None, 30, 1.5)
    assert json.loads((await orchestrator("budget", task, "--json")).out)["caps"]["turns"] == 30
    await orchestrator("cancel", task)
    only_error(await orchestrator("budget", task, "--usd", "5"), 5)
    for wrong in ("inf", "nan", "-1"):
        only_error(await orchestrator("budget", task, "--usd", wrong), 2)


async def test_all_tasks_are_paused_and_resumed_at_once(orchestrator: Shell, daemon: InProcessDaemon) -> None:
    first, second = [(await orchestrator("submit", "text", "--ticket", f"ABC-{n}")).out.strip() for n in (1, 2)]
    only_error(await orchestrator("pause"), 2)
    only_error(await orchestrator("pause", first, "--all"), 2)
    paused = await orchestrator("pause", "--all")
    assert sorted(paused.out.splitlines()) == [f"{first} paused", f"{second} paused"]
    assert daemon.supervisor.tasks[second].status is TaskStatus.PENDING
    assert len(json.loads((await orchestrator("resume", "--all", "--json")).out)["tasks"]) == 2
    await daemon.inbox.settled()
    assert daemon.supervisor.tasks[first].agent.blocked_by is None
    assert "no task had to change" in (await orchestrator("resume", "--all")).err


async def test_a_task_submitted_while_all_are_paused_is_paused_too_also_after_a_restart(orchestrator: Shell) -> None:
    daemon = create_daemon(orchestrator.data)
    async with serving(daemon):
        draft = (await orchestrator("submit", "text", "--ticket", "ABC-1", "--draft")).out.strip()
        await orchestrator("pause", "--all")
        told = await orchestrator("submit", "text", "--ticket", "ABC-2")
        assert "orchestrator resume --all" in told.err
        await orchestrator("submit", "--task", draft)
        assert {task.agent.blocked_by for task in daemon.supervisor.tasks.values()} == {PauseReason.USER}
        assert "all are paused" in (await orchestrator("why", draft)).out
        assert "until orchestrator resume --all" in (await orchestrator("status")).out
    daemon.store.close()
    anew = create_daemon(orchestrator.data)
    anew.supervisor.shared.recall(anew.store.account())
    async with serving(anew):
        later = (await orchestrator("submit", "text", "--ticket", "ABC-3")).out.strip()
        assert anew.supervisor.tasks[later].is_paused
        await orchestrator("resume", "--all")
        assert anew.supervisor.tasks[later].status is TaskStatus.IN_PROGRESS
    assert anew.store.account().paused_by is None
    anew.store.close()


async def test_a_drained_daemon_admits_nothing_and_continues_after_a_restart(orchestrator: Shell) -> None:
    daemon = create_daemon(orchestrator.data)
    async with serving(daemon):
        first = (await orchestrator("submit", "text", "--ticket", "ABC-1")).out.strip()
        assert f"{first} its agent is ended, its session is kept" in (await orchestrator("drain")).out
        why = (await orchestrator("why", first)).out
        assert "the daemon was drained" in why
        assert "orchestrator resume --all" in why
        second = (await orchestrator("submit", "text", "--ticket", "ABC-2")).out.strip()
        assert daemon.supervisor.tasks[first].agent.blocked_by is PauseReason.PRESSURE
        assert daemon.supervisor.tasks[second].status is TaskStatus.PENDING
        assert "draining" in (await orchestrator("why", second)).out
    daemon.store.close()
    anew = create_daemon(orchestrator.data)
    anew.supervisor.recover(anew.store.load(first, keep_open=True).task)
    async with serving(anew):
        await anew.inbox.settled()
        assert anew.supervisor.tasks[first].holds_slot
        await orchestrator("drain")
        await orchestrator("resume", "--all")
        await anew.inbox.settled()
        assert anew.supervisor.tasks[first].agent.status is not AgentStatus.PAUSED
    anew.store.close()


async def test_limits_show_windows_the_day_and_the_waiting_tasks(orchestrator: Shell, daemon: InProcessDaemon) -> None:
    assert "unknown before the first turn of an agent" in (await orchestrator("limits")).out
    now = clock.now()
    daemon.supervisor.shared.windows = {
        "five_hour": Window(status="rejected", resets_at=now + 365 * 24 * HOUR, utilization=1.0, seen_at=now),
        "seven_day": Window(
            status="rejected", resets_at=clock.now().replace(microsecond=0) + HOUR, utilization=0.97, seen_at=now
        ),
    }
    task = (await orchestrator("submit", "text")).out.strip()
    told = (await orchestrator("limits")).out
    assert "no turns in seven_day" in told
    assert "97%" in told
    assert task in told
    found = json.loads((await orchestrator("limits", "--json")).out)
    assert [wall["window"] for wall in found["walls"]] == ["seven_day"]
    assert [(one["task"], one["blockedBy"]) for one in found["held"]] == [(task, None)]


async def test_a_used_up_window_can_be_cleared_and_the_tasks_that_waited_for_it_start(
    orchestrator: Shell, daemon: InProcessDaemon
) -> None:
    full = Window(status="rejected", resets_at=clock.now() + HOUR, seen_at=clock.now())
    daemon.supervisor.shared.windows = {"seven_day": full, "five_hour": full}
    task = (await orchestrator("submit", "text")).out.strip()
    assert "orchestrator limits --forget" in (await orchestrator("why", task)).out
    only_error(await orchestrator("limits", "seven_day"), 2)
    assert "known: seven_day, five_hour" in only_error(await orchestrator("limits", "--forget", "weekly"), 4)
    assert "seven_day" not in (await orchestrator("limits", "--forget", "seven_day")).out
    assert daemon.supervisor.tasks[task].status is TaskStatus.PENDING
    assert json.loads((await orchestrator("limits", "--forget", "--json")).out)["windows"] == []
    assert daemon.supervisor.tasks[task].status is TaskStatus.IN_PROGRESS
    assert daemon.store.account().windows == {}


async def test_only_a_blocked_task_can_be_retried(orchestrator: Shell, daemon: InProcessDaemon) -> None:
    task = (await orchestrator("submit", "text")).out.strip()
    assert "cannot retry" in only_error(await orchestrator("retry", task), 5)
    assert daemon.supervisor.tasks[task].status is TaskStatus.IN_PROGRESS
