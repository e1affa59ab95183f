"""The command line as its users see it: a separate process, its output, its exit code."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import pytest_asyncio

from orchestrator.cli.commands_table import COMMANDS
from orchestrator.core.events.agent_events import Limit, LimitStatus
from orchestrator.core.task.task import NextAction, TaskStatus
from tests.fakes.in_process_daemon import PATIENCE, InProcessDaemon, create_daemon, serving
from tests.fakes.repositories import repository
from tests.fakes.shell import Shell, only_error


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


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["frobnicate"], "No such command"),
        (["task"], "? `orchestrator --help`"),
        (["tasks", "--colour"], "orchestrator tasks --help"),
        (["token", "crate", "p2"], "? `orchestrator token --help` shows"),
        (["token", "create", "p2", "--scope", "root"], "; `orchestrator token create --help` shows"),
        (["show"], "TASK"),
        (["submit"], "standard input"),
        (["submit", "--file", "/nowhere"], "/nowhere cannot be read"),
        (["submit", " "], "empty"),
        (["submit", "x", "--check", "pytest"], "NAME=COMMAND"),
        (["submit", "x", "--check", "a=true", "--check", "a=false"], "twice"),
        (["submit", "x", "--at", "soon"], "22:00"),
        (["submit", "x", "--at", "2020-01-01T00:00"], "is in the past"),
        (["submit", "x", "--title", "\udcff"], "title: is not text; give plain UTF-8"),
        (["submit", "x", "--base", "\udcff"], "UTF-8"),
        (["submit", "--task", "X", "--ticket", "ABC-1"], "--ticket of a draft cannot be changed"),
        (["submit", "--task", "X", "a text", "--draft", "--wait"], "does not start"),
        (["tasks", "--status", "odd"], "--status': 'odd' is not one of"),
        (["submit", "x", "--file", "a.txt"], "once"),
        (["check", "/nowhere"], "does not exist"),
    ],
)
async def test_a_usage_error_ends_with_2_and_one_helpful_line(
    orchestrator: Shell, arguments: Sequence[str], says: str
) -> None:
    assert says in only_error(await orchestrator(*arguments), 2)


@pytest.mark.parametrize("content", [b"\x00\x01", b"\xff\xfe", b"x" * (1024 * 1024 + 1), b"\n"])
async def test_an_invalid_ticket_is_refused_before_it_is_sent(orchestrator: Shell, content: bytes) -> None:
    only_error(await orchestrator("submit", "-", stdin=content), 2)


@pytest.mark.parametrize("command", ["tasks", "status", "show X", "why X", "logs X", "pause X", "submit text"])
async def test_without_a_daemon_commands_end_with_3_and_state_how_to_start_it(
    orchestrator: Shell, command: str
) -> None:
    assert "orchestrator serve" in only_error(await orchestrator(*command.split()), 3)


@pytest.mark.parametrize("command", ["show", "why", "logs", "pause", "resume", "cancel"])
async def test_a_missing_task_ends_with_4(orchestrator: Shell, daemon: InProcessDaemon, command: str) -> None:
    assert "no task NOPE-1" in only_error(await orchestrator(command, "NOPE-1"), 4)
    for odd in ("", "..", "a/b"):
        only_error(await orchestrator(command, odd), 4)
    assert daemon.supervisor.tasks == {}


@pytest.mark.parametrize("group", ["state", "checkpoints"])
async def test_a_group_without_a_command_prints_only_its_help(orchestrator: Shell, group: str) -> None:
    shown = await orchestrator(group)
    assert (shown.code, f"orchestrator {group}" in shown.out + shown.err, "error:" in shown.err) == (2, True, False)


async def test_a_ticket_from_a_closed_standard_input_is_empty(orchestrator: Shell) -> None:
    orchestrator.argv = ("/bin/sh", "-c", '"$@" <&-', "sh", *orchestrator.argv)
    assert "empty" in only_error(await orchestrator.run_fresh("submit", "-"), 2)


async def test_an_action_that_the_state_does_not_allow_ends_with_5_and_the_allowed_ones(
    orchestrator: Shell, daemon: InProcessDaemon
) -> None:
    await orchestrator("submit", "first", "--ticket", "ABC-1")
    await orchestrator("submit", "second", "--ticket", "ABC-2")
    error = only_error(await orchestrator("resume", "ABC-2"), 5)
    assert "pending" in error
    assert "allowed now: pause, cancel" in error
    assert len(daemon.supervisor.tasks) == 2


@pytest.mark.parametrize("text", ["-v is broken", "/etc is broken", "[bold]markup[/bold]", "ünïcödé ✓"])
async def test_any_text_can_be_a_ticket(orchestrator: Shell, daemon: InProcessDaemon, text: str) -> None:
    typed = await orchestrator("submit", "--ticket", "ABC-1", "--", text)
    piped = await orchestrator("submit", "--ticket", "ABC-2", "-", stdin=text.encode())
    assert (typed.code, piped.code) == (0, 0), typed.err + piped.err
    assert {task.title for task in daemon.supervisor.tasks.values()} == {text}
    assert text in (await orchestrator("show", "ABC-1")).out


async def test_submit_accepts_every_option_and_prints_only_the_id(orchestrator: Shell, daemon: InProcessDaemon) -> None:
    before = await orchestrator("submit", "first")
    options = ["--title", "T", "--type", "bugfix", "--priority", "high", "--base", "main", "--ticket", "ABC-1"]
    more = ["--after", before.out.strip(), "--at", "2999-01-01T00:00Z", "--check", "a=true", "--check", "b=x=1 true"]
    more += ["--on-blocked", "halt", "--auto-merge"]
    done = await orchestrator("submit", "second", *options, *more)
    assert done.code == 0, done.err
    task = daemon.supervisor.tasks[done.out.strip()]
    assert (task.title, task.ticket.type, task.schedule.priority, task.source.base_branch) == (
        "T",
        "bugfix",
        "high",
        "main",
    )
    assert (task.schedule.after, task.schedule.start_at and task.schedule.start_at.year) == (
        (before.out.strip(),),
        2999,
    )
    assert {check.name: check.command for check in task.evaluation.checks if check.command} == {
        "a": "true",
        "b": "x=1 true",
    }
    assert (task.policy.on_blocked, task.policy.auto_merge) == ("halt", True)
    assert f"orchestrator logs {task.id} -f" in done.err


async def test_a_waiting_submit_ends_as_the_task_does(orchestrator: Shell, daemon: InProcessDaemon) -> None:
    waiting = await orchestrator.start("submit", "text", "--wait")
    assert waiting.stdout is not None
    task_id = (await asyncio.wait_for(waiting.stdout.readline(), PATIENCE)).decode().strip()
    assert daemon.supervisor.tasks[task_id].status is TaskStatus.IN_PROGRESS
    assert (await orchestrator("cancel", task_id)).code == 0
    assert await asyncio.wait_for(waiting.wait(), PATIENCE) == 1


async def test_json_is_one_document_and_nothing_else(orchestrator: Shell, daemon: InProcessDaemon) -> None:
    task = json.loads((await orchestrator("submit", "text", "--json")).out)["id"]
    assert task in daemon.supervisor.tasks
    commands = [
        "tasks",
        "status",
        f"show {task}",
        f"why {task}",
        f"logs {task}",
        f"pause {task}",
        f"cancel {task}",
        "check",
    ]
    for command in commands:
        done = await orchestrator(*command.split(), "--json")
        assert (done.code, bool(json.loads(done.out))) == (0, True), command
    assert set(json.loads((await orchestrator("doctor", "--json")).out)) == {"ok", "findings"}


async def test_a_title_cannot_control_the_terminal(orchestrator: Shell, daemon: InProcessDaemon) -> None:
    await orchestrator("submit", "--ticket", "ABC-1", "--title", "red \x1b[31m alert \x07", "text")
    for command in (["tasks"], ["show", "ABC-1"], ["status"]):
        out = (await orchestrator(*command)).out
        assert "\x1b" not in out
        assert "\x07" not in out
    assert "\x1b" in next(iter(daemon.supervisor.tasks.values())).title


async def test_logs_show_the_output_of_agents_one_after_the_other(orchestrator: Shell, daemon: InProcessDaemon) -> None:
    task = (await orchestrator("submit", "text")).out.strip()
    assert "no agent has worked" in (await orchestrator("logs", task)).err
    for attempt in (1, 2):
        folder = daemon.store.files.path_of(task) / f"agents/{attempt}"
        folder.mkdir(parents=True)
        said = {"type": "assistant", "message": {"content": [{"type": "text", "text": f"I am {attempt}\x1b[2J"}]}}
        (folder / "stdout.jsonl").write_text(json.dumps(said) + "\n")
        (folder / "exit").write_text("{}")
    one = await orchestrator("logs", task, "--agent", "1")
    assert (one.code, one.out) == (0, "I am 1\\x1b[2J\n")
    followed = await orchestrator("logs", task, "--agent", "2", "-f")
    assert followed.out == "I am 2\\x1b[2J\n"
    tail = await orchestrator("logs", task, "--agent", "2", "-n", "1")
    assert tail.out == "I am 2\\x1b[2J\n"
    assert (await orchestrator("logs", task, "--agent", "2", "-n", "0")).out == ""
    raw = await orchestrator("logs", task, "--agent", "1", "--raw")
    assert json.loads(raw.out)["type"] == "assistant"
    assert "no agent 3; it has 1, 2" in only_error(await orchestrator("logs", task, "--agent", "3"), 4)


async def test_every_command_has_help_with_an_example(orchestrator: Shell) -> None:
    overview = await orchestrator("--help")
    names = [
        *("demo", "serve", "submit", "tasks", "show", "why", "logs"),
        *("pause", "resume", "cancel", "status", "check", "doctor", "events", "watch"),
        *("review", "merge", "archive", "delete", "graph", "schema"),
    ]
    for name in names:
        assert f" {name} " in overview.out
        told = await orchestrator(name, "--help")
        assert (told.code, f"Example: orchestrator {name}" in told.out) == (0, True), told.out


@pytest.mark.long
@pytest.mark.parametrize("name", COMMANDS)
async def test_every_command_starts_in_an_interpreter_of_its_own(orchestrator: Shell, name: str) -> None:
    told = await orchestrator.run_fresh(name, "--help")
    assert (told.code, f"Usage: orchestrator {name}" in told.out) == (0, True), told.err


async def test_check_lists_every_problem_with_its_file_and_line(orchestrator: Shell) -> None:
    folder = orchestrator.home / "configuration"
    (folder / "pipelines").mkdir(parents=True)
    (folder / "agents").mkdir()
    assert (await orchestrator("check", str(folder))).code == 0
    (folder / "orchestrator.toml").write_text("max_agents = 1\nturn_timeot = 5\n")
    (folder / "pipelines/mine.toml").write_text('name = "other"\n')
    (folder / "agents/me.md").write_text("no front matter")
    done = await orchestrator("check", str(folder))
    assert done.code == 1
    assert f"{folder}/orchestrator.toml:2: unknown key 'turn_timeot'; did you mean 'turn_timeout'?" in done.err
    assert f"{folder}/pipelines/mine.toml" in done.err
    assert f"{folder}/agents/me.md:1" in done.err
    alone = await orchestrator("check", str(folder / "agents/me.md"))
    assert (alone.code, alone.err.count("error: ")) == (1, 1)
    found = json.loads((await orchestrator("check", str(folder), "--json")).out)
    assert (found["ok"], len(found["problems"]) > 2) == (False, True)


async def test_check_tells_which_files_it_read_and_where_each_setting_comes_from(orchestrator: Shell) -> None:
    own = orchestrator.home / ".config/orchestrator/orchestrator.toml"
    assert f"read: no file; not there: /etc/orchestrator/orchestrator.toml, {own}" in (await orchestrator("check")).err
    own.parent.mkdir(parents=True)
    own.write_text('turn_timeout = 50\n[agent.env]\nHUNTER = "secret words"\n')
    orchestrator.variables["ORCHESTRATOR_MAX_AGENTS"] = "3"
    done = await orchestrator("check", "--settings")
    assert done.code == 0
    assert f"read: {own}; not there: /etc/orchestrator/orchestrator.toml" in done.err
    rows = {line.split()[0]: line.split()[1:] for line in done.out.splitlines()}
    assert rows["turn_timeout"] == ["50", f"{own}:1"]
    assert rows["max_agents"] == ["3", "environment"]
    assert rows["retry_delay"] == ["10", "default"]
    assert rows["data_dir"] == [f'"{orchestrator.data}"', "options"]
    assert "secret words" not in done.out
    found = json.loads((await orchestrator("check", "--settings", "--json")).out)["settings"]
    assert {"name": "max_agents", "value": "3", "source": "environment", "line": 0, "isMasked": False} in found[
        "values"
    ]
    assert json.loads((await orchestrator("check", "--json")).out)["settings"] is None


async def test_a_folder_that_is_no_workspace_is_not_imported(orchestrator: Shell, daemon: InProcessDaemon) -> None:
    done = await orchestrator("import", str(orchestrator.home))
    assert (done.code, daemon.supervisor.tasks) == (2, {})
    assert f"{orchestrator.home} cannot be taken over: {orchestrator.home}/state.json is not there" in done.err


async def test_the_doctor_lists_what_would_stop_the_daemon_and_how_to_fix_it(orchestrator: Shell) -> None:
    config = orchestrator.home / "orchestrator.toml"
    config.write_text('free_space_floor = "1EiB"\n[agent]\nexecutable = "/nowhere/claude"\n')
    orchestrator.data.mkdir(mode=0o755)
    done = await orchestrator("--config", str(config), "doctor", "--json")
    found = {one["name"]: one for one in json.loads(done.out)["findings"]}
    assert done.code == 1
    assert {name for name, one in found.items() if one["level"] == "bad"} == {"claude", "disk", "daemon"}
    assert "/nowhere/claude" in found["claude"]["text"]
    assert (found["daemon"]["mend"], found["data folder"]["mend"]) == (
        "orchestrator serve",
        f"chmod 700 {orchestrator.data}",
    )
    assert all(one["mend"] for one in found.values() if one["level"] != "ok")


@pytest.mark.parametrize(
    ("socket", "mend"),
    [
        ("/run/orchestrator-of-a-test/x.sock", "sudo systemctl restart orchestrator"),
        ("/run/user/4242/orchestrator/x.sock", "systemctl --user restart orchestrator"),
    ],
)
async def test_the_doctor_accepts_a_service_started_by_its_manager(orchestrator: Shell, socket: str, mend: str) -> None:
    config = orchestrator.home / "orchestrator.toml"
    config.write_text(f'socket = "{socket}"\n[agent]\ndriver = "command"\ncommand = ["true"]\n')
    done = await orchestrator("--config", str(config), "doctor", "--json")
    assert [one["mend"] for one in json.loads(done.out)["findings"] if one["name"] == "daemon"] == [mend]


async def test_the_doctor_finds_no_problem_on_a_correctly_set_up_machine(
    orchestrator: Shell, daemon: InProcessDaemon
) -> None:
    config = orchestrator.home / "orchestrator.toml"
    config.write_text('free_space_floor = "64MiB"\n[agent]\ndriver = "command"\ncommand = ["true"]\n')
    daemon.settings.data_dir.chmod(0o700)
    done = await orchestrator("--config", str(config), "doctor")
    assert done.code == 0, done.out


@pytest.mark.parametrize(
    ("budget", "level", "text"),
    [
        ("", "warn", "there is no cap on what all tasks of a night cost together"),
        ("[budget.task]\nusd = 5", "warn", "at most $5.00 for each task, but there is no cap"),
        (
            "[budget.day]\nusd = 1000",
            "ok",
            "a night costs at most $2,000.00 (two days (UTC) with a cap of $1,000.00 each)",
        ),
    ],
)
async def test_the_doctor_says_what_a_night_may_cost(orchestrator: Shell, budget: str, level: str, text: str) -> None:
    config = orchestrator.home / "orchestrator.toml"
    config.write_text(f'{budget}\n[agent]\ndriver = "command"\ncommand = ["true"]\n')
    done = await orchestrator("--config", str(config), "doctor", "--json")
    (found,) = [one for one in json.loads(done.out)["findings"] if one["name"] == "money"]
    assert (found["level"], found["text"].startswith(text)) == (level, True), found["text"]


async def test_a_usage_window_whose_reset_has_passed_is_not_shown_as_used_up(
    orchestrator: Shell, daemon: InProcessDaemon
) -> None:
    now = datetime.now(UTC)
    for name, seconds in (("five_hour", -60), ("seven_day", 3600)):
        limit = Limit(
            status=LimitStatus.REJECTED,
            window=name,
            resets_at=int(now.timestamp()) + seconds,
            utilization=1.0,
            overage=False,
        )
        daemon.supervisor.shared.record_limit(limit, now - timedelta(hours=1))
    shown = (await orchestrator("limits")).out.splitlines()
    assert ["used up" in line for line in shown if line.startswith(("five_hour", "seven_day"))] == [False, True]


async def test_an_interrupted_follow_command_says_what_goes_on_and_how_to_end_it(
    orchestrator: Shell, daemon: InProcessDaemon
) -> None:
    task = (await orchestrator("submit", "text")).out.strip()
    folder = daemon.store.files.path_of(task) / "agents/1"
    folder.mkdir(parents=True)
    (folder / "stdout.jsonl").write_text("hello\n")
    process = await orchestrator.start("logs", task, "--agent", "1", "-f", "--raw")
    assert process.stdout is not None
    assert await asyncio.wait_for(process.stdout.readline(), PATIENCE) == b"hello\n"
    process.send_signal(signal.SIGINT)
    _, err = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert process.returncode == 130
    assert err.decode().splitlines() == [
        f"the task goes on; look at it: orchestrator show {task}    end it: orchestrator cancel {task}"
    ]


async def test_a_closed_output_pipe_is_not_an_error(orchestrator: Shell, daemon: InProcessDaemon) -> None:
    await orchestrator("submit", "text")
    process = await orchestrator.start("tasks", "--json")
    assert process.stdout is not None
    process.stdout._transport.close()  # type: ignore[attr-defined]  # noqa: SLF001 - asyncio gives no other way
    _, err = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert err == b""
    assert daemon.supervisor.tasks


@pytest.mark.parametrize(("command", "code"), [("submit text --wait", 1), ("logs ABC-1 -f", 0)])
async def test_a_follow_command_survives_a_restart_of_the_daemon(orchestrator: Shell, command: str, code: int) -> None:
    daemon = create_daemon(orchestrator.data)
    async with serving(daemon):
        task = (await orchestrator("submit", "first", "--ticket", "ABC-1")).out.strip()
        folder = daemon.store.files.path_of(task) / "agents/1"
        folder.mkdir(parents=True)
        (folder / "stdout.jsonl").write_text('{"type": "system", "subtype": "init"}\n')
        (folder / "exit").write_text("{}")
        follower = await orchestrator.start(*command.split())
        assert follower.stdout is not None
        assert follower.stderr is not None
        await asyncio.wait_for(follower.stdout.readline(), PATIENCE)
        ids = list(daemon.supervisor.tasks)
    daemon.store.close()
    await asyncio.wait_for(follower.stderr.readuntil(b"the daemon is not reachable"), PATIENCE)
    restarted = create_daemon(orchestrator.data)
    for one in ids:
        restarted.supervisor.recover(restarted.store.load(one, keep_open=True).task)
    async with serving(restarted):
        assert (await orchestrator("cancel", ids[-1])).code == 0
        assert await asyncio.wait_for(follower.wait(), PATIENCE) == code
    restarted.store.close()


async def test_the_status_names_the_first_twenty_waiting_tasks_and_counts_the_rest(
    orchestrator: Shell, daemon: InProcessDaemon
) -> None:
    first = (await orchestrator("submit", "text")).out.strip()
    at_work = daemon.supervisor.tasks[first]
    daemon.supervisor.tasks |= {
        f"T-{number}": replace(
            at_work, id=f"T-{number}", status=TaskStatus.PENDING, next_action=NextAction.ADMISSION, run=None
        )
        for number in range(22)
    }
    told = (await orchestrator("status")).out
    assert (told.count("T-"), told.endswith("and 2 more\n")) == (20, True), told
    assert len(json.loads((await orchestrator("status", "--json")).out)["queue"]) == 22


@pytest.mark.parametrize(
    "wrong", [("--ticket", "abc"), ("--pipeline", "fulll"), ("--repo", "/"), ("--check", "a/b=true")]
)
async def test_an_option_that_the_daemon_refuses_is_a_usage_error(
    orchestrator: Shell, daemon: InProcessDaemon, wrong: Sequence[str]
) -> None:
    only_error(await orchestrator("submit", "text", *wrong), 2)
    assert daemon.supervisor.tasks == {}


async def test_a_folder_inside_a_repository_means_the_repository(orchestrator: Shell, daemon: InProcessDaemon) -> None:
    task = (await orchestrator("submit", "text")).out.strip()
    (orchestrator.home / "repo/deep/inside").mkdir(parents=True)
    for folder, lines in ((".", 2), ("deep/inside", 2), ("..", 0)):
        told = (await orchestrator("tasks", "--repo", folder)).out
        assert (told.count("\n"), task in told) == (lines, lines > 0), folder


async def test_check_recognises_settings_under_another_file_name(orchestrator: Shell) -> None:
    mine = orchestrator.home / "mine.toml"
    mine.write_text("max_agents = 1\n[agent]\nmodel = 'x'\n")
    assert f"orchestrator --config {mine} check" in only_error(await orchestrator("check", str(mine)), 2)
    assert (await orchestrator("--config", str(mine), "check")).code == 0


async def test_check_reports_that_the_gateway_to_jira_is_not_registered(orchestrator: Shell) -> None:
    folder = orchestrator.home / "gate"
    folder.mkdir()
    (folder / "mcp.json").write_text('{"mcpServers": {"jira": {"command": "${NOT_SET_HERE}"}}}')
    settings = folder / "orchestrator.toml"
    for name, code in (("jira", 0), ("jirra", 1)):
        settings.write_text(
            f'agent.mcp_config = "{folder}/mcp.json"\n[trackers.jira]\nurl = "https://j.example"\ngateway = "{name}"\n'
        )
        done = await orchestrator("check", str(settings))
        assert done.code == code, done.err
    assert "does not register the server 'jirra'; did you mean 'jira'?" in done.err


@pytest.mark.parametrize("wrong", ["max_agent = 2\n", "max_agents = many\n", "[agent\n"])
async def test_wrong_settings_stop_no_command_that_only_needs_to_find_the_daemon(
    orchestrator: Shell, daemon: InProcessDaemon, wrong: str
) -> None:
    config = orchestrator.home / "orchestrator.toml"
    socket = daemon.settings.socket.rename(orchestrator.home / "x.sock")
    config.write_text(f'socket = "{socket}"\n{wrong}')
    for command in ("status", "tasks", "pause --all", "resume --all"):
        done = await orchestrator("--config", str(config), *command.split(), "--json")
        assert (done.code, json.loads(done.out) is not None) == (0, True), done.err
        assert "the settings are wrong" in done.err
    done = await orchestrator("--config", str(config), "doctor", "--json")
    found = {one["name"]: one for one in json.loads(done.out)["findings"]}
    assert (done.code, found["settings"]["level"], found["daemon"]["level"]) == (1, "bad", "ok")
    assert f"{config}:2" in found["settings"]["text"]


async def test_commands_refuse_a_socket_setting_that_is_wrong_itself(orchestrator: Shell) -> None:
    config = orchestrator.home / "orchestrator.toml"
    config.write_text("socket = 7\n")
    assert "socket" in only_error(await orchestrator("--config", str(config), "status"), 1)
