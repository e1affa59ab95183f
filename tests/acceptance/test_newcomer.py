"""What a newcomer types who knows git, docker, kubectl, systemctl and gh, each form with its answer."""

import getpass
import os
import re
import shlex
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import orjson
import pytest

from orchestrator import __version__
from orchestrator.core.task.task import TaskStatus
from orchestrator.core.task.task_policy import Autonomy
from tests.acceptance.harness import DaemonHarness

QUESTION = {
    "question": "Which store?",
    "header": "Store",
    "multiSelect": False,
    "options": [{"label": "SQLite", "description": "a file"}, {"label": "Redis", "description": "a server"}],
}


@dataclass
class Newcomer:
    """A daemon with a task that asks a question, and names for what is typed."""

    harness: DaemonHarness
    asking: str
    made: list[str] = field(default_factory=list)

    def name(self, placeholder: str) -> str:
        """Return what a word in capitals stands for; DRAFT and ENDED are new tasks each time."""
        makers: dict[str, Callable[[], str]] = {
            "TASK": lambda: self.asking,
            "TAIL": lambda: self.asking[4:-2],
            "REPO": lambda: str(self.harness.repo),
            "DATA": lambda: str(self.harness.data),
            "DRAFT": lambda: self.harness.submit("Tidy up", draft=True),
            "ENDED": self._ended,
        }
        found = makers[placeholder]()
        self.made.append(found)
        return found

    def _ended(self) -> str:
        task = self.harness.submit("Tidy up", draft=True)
        return self.harness.client.request(task, "cancel").id


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Newcomer]:
    ask = {"ANALYSIS": [{"ask": {"tool": "AskUserQuestion", "input": {"questions": [QUESTION]}}}]}
    with DaemonHarness(tmp_path_factory.mktemp("newcomer"), ask) as harness:
        task = harness.submit(ticket="ABC-7", autonomy=Autonomy.INTERACTIVE)
        harness.submit("Another", ticket="XYZ-1", draft=True)
        harness.wait_for("a question", lambda: harness.client.task(task).waiting)
        yield Newcomer(harness, task)


FORMS: list[tuple[str, int, str]] = [
    ("", 0, "Usage: orchestrator"),
    ("--help", 0, "Begin here"),
    ("-h", 0, "Usage: orchestrator"),
    ("help", 0, "scripting"),
    ("help submit", 0, "Usage: orchestrator submit"),
    ("help checks", 0, "# Checks"),
    ("help ps", 0, "Usage: orchestrator tasks"),
    ("help frobnicate", 4, "there is no page 'frobnicate'"),
    ("submit -h", 0, "Example: orchestrator submit"),
    ("version", 0, f"orchestrator {__version__}"),
    ("--version", 0, f"orchestrator {__version__}"),
    ("-V", 0, f"orchestrator {__version__}"),
    ("statsu", 2, "Did you mean 'status'"),
    ("tasks --stauts draft", 2, "--status"),
    ("tasks --status done", 2, "completed"),
    ("list", 0, "TASK"),
    ("ls", 0, "TASK"),
    ("ps -a", 0, "TASK"),
    ("ps -q", 0, "TASK\n"),
    ("tasks -n 1000", 0, "TASK"),
    ("tasks -o name", 0, "TASK\n"),
    ("tasks -o wide", 0, "REPOSITORY"),
    ("tasks -o json", 0, '"id": "TASK"'),
    ("-o json tasks", 0, '"id": "TASK"'),
    ("--json tasks", 0, '"id": "TASK"'),
    ("tasks -o yaml", 2, "'wide'"),
    ("tasks --data-dir DATA", 0, "TASK"),
    ("get tasks", 0, "TASK"),
    ("get task TASK -o json", 0, '"id": "TASK"'),
    ("search slugify", 0, "TASK"),
    ("status", 0, "health"),
    ("info", 0, "health"),
    ("queue", 0, "slots"),
    ("status TASK", 0, "Add slugify(text)"),
    ("describe TASK", 0, "Which store?"),
    ("inspect ABC-7", 0, "Add slugify(text)"),
    ("show abc-7", 0, "Add slugify(text)"),
    ("show TAIL", 0, "Add slugify(text)"),
    ("show 202", 2, "is ambiguous: it may be any of"),
    ("show ABC-8", 4, "`orchestrator tasks` lists all"),
    ("show ABC-8 --json", 4, '"type": "urn:orchestrator:problem:no-such-task"'),
    ("tasks --socket /nowhere --json", 3, '"type": "urn:orchestrator:problem:unreachable"'),
    ("show", 2, "orchestrator show --help"),
    ("why TASK", 0, "next: "),
    ("log TASK", 0, "AskUserQuestion"),
    ("logs TASK -n 1", 0, ""),
    ("logs TASK --tail 5 --since 1h", 0, "AskUserQuestion"),
    ("logs TASK --since soon", 2, "yesterday"),
    ("events --since yesterday", 0, "TASK"),
    ("events -n 2", 0, ""),
    ("cost", 0, "slots"),
    ("top", 2, "orchestrator status"),
    ("stop", 2, "orchestrator drain"),
    ("stop TASK", 2, "`orchestrator cancel TASK` ends it for good"),
    ("kill TASK", 2, "`orchestrator pause TASK` freezes it"),
    ("start", 2, "orchestrator serve"),
    ("run 'fix the bug'", 2, "orchestrator submit TEXT"),
    ("new", 2, "orchestrator submit TEXT"),
    ("init", 2, "orchestrator doctor"),
    ("login", 2, "orchestrator doctor"),
    ("restart", 2, "orchestrator retry TASK"),
    ("reload", 2, "orchestrator check"),
    ("config", 2, "orchestrator check --settings"),
    ("config get max_agents", 2, "orchestrator check --settings"),
    ("settings", 0, "max_agents"),
    ("check", 0, "read: "),
    ("diff TASK", 2, "orchestrator show TASK"),
    ("exec TASK", 2, "orchestrator logs TASK -f"),
    ("up", 2, "orchestrator serve"),
    ("completion bash", 0, "complete -o default"),
    ("completion zsh", 0, "compdef"),
    ("completion fish", 0, "complete --command orchestrator"),
    ("completion", 2, "bash|zsh|fish"),
    ("submit", 2, "standard input"),
    ("submit Tidy --draft -C REPO", 0, "LOCAL-"),
    ("submit Tidy --at 25:00", 2, "tomorrow 22:00"),
    ("submit Tidy --draft -C REPO --at 'tomorrow 22:00'", 0, "LOCAL-"),
    ("approve TASK", 5, "cannot approve"),
    ("merge TASK", 5, "cannot merge"),
    ("retry TASK", 5, "allowed now"),
    ("freeze TASK", 0, "TASK paused"),
    ("unpause TASK", 0, "TASK"),
    ("pause", 2, "--all"),
    ("budget DRAFT DRAFT --usd 3", 0, "draft"),
    ("cancel DRAFT ABC-8", 4, "ABC-8: there is no task ABC-8"),
    ("cancel DRAFT DRAFT --json", 0, '"refused": 0'),
    ("rm DRAFT", 2, "--yes"),
    ("rm DRAFT DRAFT ENDED -y", 0, "is deleted"),
    ("archive ENDED TASK", 5, "archived"),
    ("start DRAFT", 0, "pending"),
    ("reply TASK Redis", 0, "answered: Redis"),
    ("health", 0, "isolation"),
    ("list-timers", 0, "`orchestrator schedule add` makes one"),
    ("schedule ls", 0, "`orchestrator schedule add` makes one"),
    ("schedule rm nightly", 4, "there is no schedule 'nightly'"),
    ("schedule update nightly --at @daily", 4, "there is no schedule 'nightly'"),
    ("schedule change nightly", 2, "give what is to change"),
    ("schedule rename nightly weekly", 2, "`orchestrator schedule add`"),
    ("token ls --json", 0, '"tokens"'),
    ("service restart", 2, "systemctl restart orchestrator"),
    ("backup ls", 2, "`orchestrator backup list FILE`"),
    ("backup list", 2, "`orchestrator backup list FILE`"),
    ("cancel --all", 2, "`orchestrator pause --all`"),
    ("status --watch", 2, "`orchestrator watch`"),
    ("ps --format json", 2, "`-o json`"),
    ("rm -f DRAFT", 2, "`--yes`"),
    ("status -v", 2, "`--json`"),
    ("journalctl", 2, "`orchestrator service logs`"),
    ("checkout TASK", 2, "git does the rest"),
    ("whoami", 2, "orchestrator doctor"),
    ("scale 3", 2, "max_agents"),
    ("tasks -n many", 2, "give a whole number"),
    ("budget DRAFT --usd -1", 2, "give at least 0.01"),
    ("tasks --repo /nowhere", 0, "no task fits"),
    ("report --since tomorrow", 2, "is still to come"),
    ("submit Tidy -C /nowhere", 2, "/nowhere does not exist"),
    ("submit Tidy -C DATA", 2, "run `git init` and commit there first"),
    ("submit Tidy -C REPO --base nobranch", 2, "has no branch, tag or commit 'nobranch'"),
    ("submit Tidy -C REPO --after ABC-8", 4, "there is no task ABC-8"),
]


@pytest.mark.parametrize(("typed", "code", "says"), FORMS, ids=[form[0] or "nothing" for form in FORMS])
def test_what_a_newcomer_types_has_an_answer(newcomer: Newcomer, typed: str, code: int, says: str) -> None:
    words = [newcomer.name(word) if word.isupper() and word.isalpha() else word for word in shlex.split(typed)]
    done = newcomer.harness.cli(*words)
    assert done.returncode == code, done.stdout + done.stderr
    told = done.stdout + done.stderr
    assert says.replace("TASK", newcomer.asking) in told or says in told, told
    if code:
        assert "Traceback" not in told
        assert done.stderr.startswith("error: "), told
    if "json" in typed and code != 2:
        assert orjson.loads(done.stdout), told


def test_a_text_comes_from_a_pipe_without_a_dash(newcomer: Newcomer) -> None:
    done = newcomer.harness.cli("submit", "--draft", "--repo", str(newcomer.harness.repo), stdin="Repair the login\n")
    assert newcomer.harness.client.task(done.stdout.strip()).title == "Repair the login"


def test_of_several_tasks_each_is_answered_on_a_line_of_its_own(newcomer: Newcomer) -> None:
    tasks = [newcomer.name("DRAFT") for _ in range(3)]
    done = newcomer.harness.cli("cancel", tasks[0], "ABC-8", tasks[1], tasks[1], tasks[2])
    assert done.returncode == 4
    assert done.stdout.splitlines() == [f"{task} cancelled" for task in (tasks[0], tasks[1], tasks[1], tasks[2])]
    assert done.stderr == "error: ABC-8: there is no task ABC-8; `orchestrator tasks` lists all\n"
    paused = newcomer.harness.cli("pause", tasks[0], "ABC-8")
    assert (paused.returncode, paused.stdout) == (5, ""), "the highest code"
    statuses = {newcomer.harness.client.task(task).status for task in tasks}
    assert statuses == {TaskStatus.CANCELLED}


def test_ids_are_completed_from_the_daemon_and_silently_not_without_it(newcomer: Newcomer) -> None:
    harness = newcomer.harness
    for socket, expected in ((harness.client.socket, newcomer.asking), ("/nowhere", "")):
        words = f"orchestrator --socket {socket} show ABC-7"
        done = harness.cli(
            environment={"_ORCHESTRATOR_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": "4"}
        )
        assert (done.returncode, done.stdout.strip(), done.stderr) == (0, expected, "")


@pytest.mark.parametrize("typed", ["tasks", "status", "show TASK", "why TASK", "limits", "events -n 3"])
def test_sixty_columns_cut_no_id_and_no_command(newcomer: Newcomer, typed: str) -> None:
    words = [newcomer.name(word) if word.isupper() else word for word in typed.split()]
    done = newcomer.harness.cli(*words, environment={"COLUMNS": "60", "FORCE_COLOR": "1", "TERM": "xterm"})
    shown = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout)
    assert done.returncode == 0
    assert max(map(len, shown.splitlines())) <= 60 or typed.startswith("events"), shown
    assert not re.search(r"LOCAL-\d*…|ABC-7_\d*…|orchestrator \S*…", shown), shown


def test_status_tells_what_waits_for_a_slot_and_what_for_a_time(newcomer: Newcomer) -> None:
    harness = newcomer.harness
    made = harness.cli("submit", "Tidy", "-C", str(harness.repo), "--at", "tomorrow 06:00").stdout.split()[0]
    assert "1 for the start time (from tomorrow 06:00 on)" in harness.cli("status").stdout
    waits = {one["reason"]: one for one in orjson.loads(harness.cli("status", "--json").stdout)["waits"]}
    assert waits["start"]["tasks"] == 1
    assert datetime.fromisoformat(waits["start"]["until"]) == harness.client.task(made).start_at
    assert harness.cli("cancel", made).returncode == 0


def test_who_did_something_is_a_name_and_json_has_the_whole_record(newcomer: Newcomer) -> None:
    draft = newcomer.name("DRAFT")
    assert newcomer.harness.cli("cancel", draft).returncode == 0
    listed = newcomer.harness.cli("events", draft).stdout
    assert f"cancelled by {getpass.getuser()}  draft → cancelled" in listed
    for words in ("events", "status", f"show {newcomer.asking}", "report", f"why {newcomer.asking}"):
        assert " uid:" not in newcomer.harness.cli(*words.split()).stdout, words
    last = orjson.loads(newcomer.harness.cli("events", draft, "-n", "1", "--json").stdout)
    assert re.fullmatch(rf"{getpass.getuser()} uid:\d+ pid:\d+", last["by"])


@pytest.mark.parametrize("words", ["tasks", "tasks --json", "show ABC-7", "help checks", "version", "events -f"])
def test_output_that_nobody_reads_ends_the_program_without_a_word(newcomer: Newcomer, words: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with tempfile.TemporaryFile() as told:
        ended = newcomer.harness.begin(*words.split(), out=writer, err=told).wait(60)
        os.close(writer)
        told.seek(0)
        assert (ended, told.read()) == (141, b"")


@pytest.mark.parametrize("words", ["tasks", "tasks --json", "version"])
def test_output_that_cannot_be_written_is_an_error_without_a_traceback(newcomer: Newcomer, words: str) -> None:
    with tempfile.TemporaryFile() as told, Path("/dev/full").open("wb") as full:
        ended = newcomer.harness.begin(*words.split(), out=full, err=told).wait(60)
        told.seek(0)
        assert (ended, told.read()) == (1, b"error: the output: No space left on device\n")
