"""An agent that follows a script: a real process with real tools in the claude CLI's stream-json, and no model.

    python scripted_agent.py [SCENARIO.json]

Without a scenario it does one small real job, stage by stage, in the worktree it is started in: a function `slugify`
in the package `textkit`, its test, its paragraph in README.md. It learns its job from the text of the turn
alone, as a model would, and its commands run in their own sessions, as those of the CLI do. It does no work twice:
killed and resumed in the middle, it checks what exists and continues. It is one long file because the wheel includes
it alone, for `orchestrator demo`. Top to bottom: the wire, the scenario, the agent, its actions, the job.

Environment: ORCHESTRATOR_SESSION_ID, ORCHESTRATOR_RESUME (0 or 1), ORCHESTRATOR_TASK, ORCHESTRATOR_OUTBOX, and for
itself ORCHESTRATOR_SCENARIO (a path, or the JSON itself) and ORCHESTRATOR_SCRIPTED_HOME (where sessions are remembered;
~/.cache/orchestrator-scripted-agent if absent).

A scenario changes turns: {"STAGE": [first turn in this stage, second, …], "*": any turn without its own entry}. What is
meant for one child alone stands under "STAGE of KEY".
Turns are counted over all attempts of a task. A turn is an object of actions, done in their order, or a list of such
objects; null leaves a turn as it is. The stage's own work is done at "work", else after the last action.

    work, no_work           true            do the stage's own work here; do none of it
    plant_bug               true            do the work with a mistake and without a test
    say                     text            print a message; the last one is the turn's result
    question                {question, …}   ask in a block of its text; the fields are the block's
    dependency              {type, name, …} report a missing dependency in a block of its text
    trouble                 {type, …}       report an error in a block of its text
    malformed               true            print a malformed block
    ask                     {tool, input, file}   ask in the CLI's own protocol and wait; the answer is written as JSON
                                            to the file if one is named
    think_ms                number          wait this long
    run                     command         sh -c in its own session, with the step's title in $STEP; the turn waits for
                                            its end
    tool_times_out          {command, seconds}   the same, but it is ended after this many seconds
    tick                    {file, seconds} run a command that adds a line to the file every 100 ms
    grandchild              command         the same, but detached: it outlives its tool and its turn
    write                   {file, text}    write a file; $VARIABLES in its name are replaced
    leave                   {name: text, …} write files: a name into the outbox, dir/name or ./name into the
                                            worktree; in names and texts {ticket}, {parent},
                                            {key}, {step} and {head} are replaced: the keys of the ticket, of the
                                            parent's, of the child, the step's title, and the newest commit
    answer                  text            print a message, replaced likewise; as the last action it is the result
    commit                  subject         commit everything; replaced likewise
    wait_for                path            wait until the file exists
    ignore_term             true            ignore SIGTERM from now on
    garbage                 bytes           print lines that are not JSON
    huge_line               bytes           print a message in one line of this length
    error                   {text, status, api_error}   end the turn with a failed call to the model
    limit                   {resets_at or resets_in, window}   end the turn at a usage limit
    no_result               true            end the turn without a result
    hang_after_result       true            after this turn do nothing any more, whatever is sent
    silent                  true            the same at once, without any output
    die_mid_line            true            print half a line, then SIGKILL itself
    exit                    code            exit
"""

import json
import os
import re
import select
import shlex
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, Final, NoReturn
from uuid import uuid4

Json = dict[str, object]
Actions = list[tuple[str, object]]

MODEL: Final = "scripted"
COST_OF_A_CALL: Final = 0.0007
TOKENS_IN, TOKENS_OUT = 100, 50
"""The usage of one call."""
EXIT_CODES: Final = {signal.SIGTERM: 143, signal.SIGHUP: 129, signal.SIGINT: 0}


class Interrupted(Exception):
    """The host interrupted this turn."""


class Ended(Exception):
    """The turn has ended already."""


class ScenarioError(Exception):
    """The scenario contains something that the agent does not support."""


class Host:
    """The process at the other end of stdin and stdout; its input is read at once, also while a tool runs."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.turns: deque[Json] = deque()
        self.answers: dict[str, Json] = {}
        self.closed = False
        self.busy = False
        self._half = b""

    def send(self, message: Json) -> None:
        self.write(json.dumps({**message, "session_id": self.session_id, "uuid": str(uuid4())}).encode() + b"\n")

    def write(self, line: bytes) -> None:
        while line:
            line = line[os.write(1, line) :]

    def listen(self, *, until: int | None = None, seconds: float | None = None) -> bool:
        """Wait for input, at most this many seconds; return whether the descriptor `until` is ready."""
        stdin = [] if self.closed else [0]
        ready, _, _ = select.select([*stdin, *([] if until is None else [until])], [], [], seconds)
        if 0 in ready:
            self._read()
        return until in ready

    def sleep(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.listen(seconds=left)

    def _read(self) -> None:
        chunk = os.read(0, 65536)
        self.closed = not chunk
        *lines, self._half = (self._half + chunk).split(b"\n")
        try:
            messages = [json.loads(line) for line in lines if line]
        except ValueError as error:
            sys.exit(f"Error parsing streaming input line: {error}")
        self.turns.extend(message for message in messages if message["type"] == "user")
        responses = [message["response"] for message in messages if message["type"] == "control_response"]
        self.answers.update((response["request_id"], response) for response in responses)
        requests = [message for message in messages if message["type"] == "control_request"]
        for request in requests:
            queued = {"still_queued": [turn.get("uuid") for turn in self.turns]}
            answer = {"subtype": "success", "request_id": request["request_id"], "response": queued}
            self.send({"type": "control_response", "response": answer})
        if self.busy and any(request["request"]["subtype"] == "interrupt" for request in requests):
            raise Interrupted


class Session:
    """State that outlives the process: accepted turns, turns per stage, and the number of calls to the model."""

    def __init__(self, home: Path, session_id: str, task: str) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self._file = home / f"{session_id}.jsonl"
        self._turns = home / f"{task.replace('/', '_') or session_id}.turns"
        self.exists = self._file.exists()
        entries = [json.loads(line) for line in self._file.read_text().splitlines()] if self.exists else []
        self.taken = {entry["uuid"] for entry in entries} - {None}
        self.calls = max((entry["calls"] for entry in entries), default=0)

    def take(self, uuid: object, stage: str) -> int:
        """Record the turn, last of all that it is taken; return how many turns the task had in this stage before."""
        before = self._turns.read_text().splitlines().count(stage) if self._turns.exists() else 0
        self._append(self._turns, stage)
        self._append(self._file, json.dumps({"uuid": uuid, "calls": self.calls}))
        self.taken.add(uuid)
        return before

    def save_totals(self) -> None:
        self._append(self._file, json.dumps({"uuid": None, "calls": self.calls}))

    def _append(self, file: Path, line: str) -> None:
        with file.open("a") as stream:
            stream.write(line + "\n")


class Turn:
    """The text of a turn, read as a model would read it."""

    def __init__(self, text: str) -> None:
        def said(pattern: str) -> str:
            found = re.search(f"^{pattern}", text, re.MULTILINE)
            return found.group(1) if found else ""

        self.stage, self.ticket, self.title = said(r"# (\w+) of"), said(r"# \w+ of ([^:]+)"), said(r"# [^:]+: (.+)")
        self.parent, _, self.key = self.ticket.rpartition(".")
        self.mode = said("mode: (.+)")
        self.bugfix = self.mode == "bugfix"
        self.resumed = said("(why: You were interrupted)") != ""
        self.missing = text.partition("Still missing")[2]
        self.folder = Path(said(r"workspace_dir: (.+) \(read only"))
        self.outbox = Path(said("outbox: (.+)") or os.environ.get("ORCHESTRATOR_OUTBOX", "."))
        self.step = said(rf"\[.\] {said(r'Do step ([0-9]+)')}\. (.+)").lower()
        self.subject = said("Do step .* with the subject\n(.+)")
        self.log = said("- .*; output: (.+)")

    def filled(self, text: str, head: str) -> str:
        """Return a text of the scenario with the names of this turn."""
        names = {"ticket": self.ticket, "parent": self.parent, "key": self.key, "step": self.step, "head": head}
        for name, value in names.items():
            text = text.replace(f"{{{name}}}", value)
        return text


class Scenario:
    """The actions of each turn, validated before the first one."""

    def __init__(self, given: Mapping[str, object]) -> None:
        self._other = _actions(given.get("*"))
        self._turns = {
            stage: [None if turn is None else _actions(turn) for turn in turns]
            for stage, turns in given.items()
            if isinstance(turns, list) and stage != "*"
        }
        if lost := set(given) - set(self._turns) - {"*"}:
            raise ScenarioError(f"a stage has a list of turns: {', '.join(sorted(lost))}")

    def actions(self, stage: str, key: str, past: int) -> Actions:
        """Return the actions of a turn of this stage, after this many turns; `key` is that of a child."""
        turns = self._turns.get(f"{stage} of {key}", self._turns.get(stage, []))
        if past < len(turns):
            return turns[past] or []
        return self._other


def _actions(turn: object) -> Actions:
    objects = turn if isinstance(turn, list) else [turn]
    actions = [action for one in objects if isinstance(one, dict) for action in one.items()]
    for name, given in actions:
        if name not in ACTIONS:
            raise ScenarioError(f"no such action: {name}; there are {', '.join(ACTIONS)}")
        if not isinstance(given, ACTIONS[name][0]):
            raise ScenarioError(f"{name} cannot take {given!r}")
    return actions


class Agent:
    """One process: accepts turns, follows the scenario, and does the work."""

    def __init__(self, host: Host, session: Session, scenario: Scenario) -> None:
        self.host = host
        self._session = session
        self._scenario = scenario
        self._turn = Turn("")
        self._calls_before = 0
        self._failed = False
        self._open_request = ""
        self._last_words = ""
        self.wishes: set[str] = set()

    def live(self) -> int:
        """Process turns until the host has no more; return the exit code."""
        while True:
            while not self.host.turns and not self.host.closed:
                self.host.listen()
            if not self.host.turns:
                return int(self._failed)
            self._take(self.host.turns.popleft())

    def _take(self, message: Json) -> None:
        if message.get("uuid") in self._session.taken:
            return
        self._turn = Turn(text_of(message))
        past = self._session.take(message.get("uuid"), self._turn.stage)
        actions = self._scenario.actions(self._turn.stage, self._turn.key, past)
        self._calls_before = self._session.calls
        self.wishes.clear()
        self._last_words = "Done."
        if "silent" in (name for name, _ in actions):
            hang()
        self._state("running")
        self.host.send({
            "type": "system", "subtype": "init", "cwd": str(Path.cwd()), "model": MODEL, "claude_code_version": MODEL,
            "tools": ["Bash", "Write"], "permissionMode": "dontAsk", "apiKeySource": "none",
        })  # fmt: skip
        try:
            self.host.busy = True
            self._play(actions)
        except Interrupted:
            self.host.send({"type": "user", "message": content("[Request interrupted by user]")})
            self.result(subtype="error_during_execution", is_error=True, terminal_reason=self._cut_off(), errors=[])
        except Ended:
            pass
        finally:
            self.host.busy = False
        self._state("idle")
        if "hang_after_result" in self.wishes:
            hang()

    def _play(self, actions: Actions) -> None:
        for name, given in actions:
            ACTIONS[name][1](self, given)
        if "no_work" not in self.wishes:
            self.work()
        self.result(subtype="success", result=self._last_words, terminal_reason="completed", stop_reason="end_turn")

    def work(self) -> None:
        """Do the stage's own work, once in a turn."""
        self.wishes.add("no_work")
        if self._turn.resumed:
            self.bash(f"git status --short && git log --oneline -3 && ls {shlex.quote(str(self._turn.outbox))}")
        WORK.get(self._turn.stage, _anything)(self, self._turn)

    def filled(self, text: str) -> str:
        """Return a text of the scenario with the names of the present turn."""
        head = self.bash("git rev-parse --short HEAD") if "{head}" in text else ""
        return self._turn.filled(text, head)

    def leave(self, name: str, text: str) -> None:
        """Write a file into the outbox, or into the worktree if the name has folders."""
        path = Path(self.filled(name))
        self.write(path if "/" in name else self._turn.outbox / path, self.filled(text))

    def say(self, text: str) -> None:
        """Print a message of the model; the last one of a turn is its result."""
        self._last_words = text
        self.print(text)

    def print(self, text: str) -> None:
        """Print a message of the model in one line."""
        self._message(content(text))

    def ask(self, name: str, given: Json) -> Json:
        """Request permission for a tool, or ask a question, and wait; return the decision."""
        tool, request = self._call(name, given), str(uuid4())
        wanted = {"subtype": "can_use_tool", "tool_name": name, "input": given, "tool_use_id": tool}
        self._state("requires_action")
        self.host.send({"type": "control_request", "request_id": request, "request": wanted})
        self._open_request = request
        while (response := self.host.answers.get(request)) is None:
            if self.host.closed:
                sys.exit(0)
            self.host.listen()
        self._open_request = ""
        self._state("running")
        decided = response.get("response")
        decision: Json = decided if isinstance(decided, dict) else {"behavior": "deny", **response}
        allowed = decision.get("behavior") == "allow"
        self._returned(tool, json.dumps(decision), failed=not allowed)
        return decision

    def _cut_off(self) -> str:
        """Return the CLI's name for the point of an interrupt; a waiting request is withdrawn."""
        if not self._open_request:
            return "aborted_streaming"
        self.host.send({"type": "control_cancel_request", "request_id": self._open_request})
        self._open_request = ""
        return "aborted_tools"

    def bash(self, command: str, seconds: float | None = None) -> str:
        """Run a command as the CLI's Bash tool does, outside of our process group; return its output."""
        tool = self._call("Bash", {"command": command})
        end = None if seconds is None else time.monotonic() + seconds
        with os.fdopen(os.memfd_create("output"), "rb") as output:
            process = subprocess.Popen(
                ["sh", "-c", command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                env={**os.environ, "STEP": self._turn.step},
            )
            try:
                ended = self._await(process, end)
            except (Interrupted, SystemExit):
                os.killpg(process.pid, signal.SIGKILL)
                self._returned(tool, f"Exit code {128 - process.wait()}", failed=True)
                raise
            if not ended:
                os.killpg(process.pid, signal.SIGKILL)
            code = process.wait()
            text = os.pread(output.fileno(), 30_000, 0).decode(errors="replace").rstrip()
        if not ended:
            code, text = 137, f"Command timed out after {seconds}s\n{text}"
        self._returned(tool, text if code == 0 else f"Exit code {code}\n{text}", failed=code != 0)
        return text

    def _await(self, process: subprocess.Popen[bytes], end: float | None) -> bool:
        """Wait for the end of a process, at most until a time; return whether it ended.

        The CLI's clock runs while it is stopped, and that of `select` does not: hence the short intervals.
        """
        with os.fdopen(os.pidfd_open(process.pid), "rb", buffering=0) as ended:
            while not self.host.listen(until=ended.fileno(), seconds=None if end is None else 0.02):
                if end is not None and time.monotonic() >= end:
                    return False
        return True

    def write(self, file: Path, text: str) -> None:
        """Write a file as the CLI's Write tool does."""
        tool = self._call("Write", {"file_path": str(file), "content": text})
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
        self._returned(tool, f"File written: {file}")

    def result(self, **changes: object) -> None:
        """Print the result of the turn."""
        self._failed = changes.get("is_error") is True
        calls = self._session.calls
        usage = {
            "inputTokens": TOKENS_IN * calls,
            "outputTokens": TOKENS_OUT * calls,
            "costUSD": COST_OF_A_CALL * calls,
        }
        self._session.save_totals()
        self.host.send({
            "type": "result", "is_error": False, "api_error_status": None, "stop_reason": None,
            "num_turns": calls - self._calls_before, "total_cost_usd": round(COST_OF_A_CALL * calls, 6),
            "modelUsage": {MODEL: usage}, "permission_denials": [], **changes,
        })  # fmt: skip

    def fail(self, text: str, **changes: object) -> NoReturn:
        """End the turn as the CLI does when a call to the model fails."""
        message = {**content(text), "model": "<synthetic>"}
        self._message(message, is_api_error_message=True, error=changes.pop("error", "unknown"))
        self.result(subtype="success", is_error=True, terminal_reason="api_error", result=text, **changes)
        raise Ended

    def _state(self, state: str) -> None:
        self.host.send({"type": "system", "subtype": "session_state_changed", "state": state})

    def _call(self, name: str, given: Json) -> str:
        tool = f"toolu_{uuid4().hex[:24]}"
        self._message({"content": [{"type": "tool_use", "id": tool, "name": name, "input": given}]})
        return tool

    def _returned(self, tool: str, text: str, *, failed: bool = False) -> None:
        block = {"type": "tool_result", "tool_use_id": tool, "content": text, "is_error": failed}
        self.host.send({"type": "user", "message": {"role": "user", "content": [block]}, "timestamp": now()})

    def _message(self, message: Json, **changes: object) -> None:
        usage = {"input_tokens": TOKENS_IN, "output_tokens": 1}
        said = {"id": f"msg_{uuid4().hex}", "model": MODEL, "stop_reason": None, "usage": usage, **message}
        said["role"] = "assistant"
        self._session.calls += said["model"] == MODEL
        self.host.send(
            {"type": "assistant", "message": said, "parent_tool_use_id": None, "timestamp": now(), **changes}
        )


def _tick(agent: Agent, given: Json) -> None:
    file, count = shlex.quote(str(given["file"])), round(10 * number(given["seconds"]))
    agent.bash(f"i=0; while [ $i -lt {count} ]; do i=$((i+1)); echo $i >> {file}; sleep 0.1; done")


def _grandchild(agent: Agent, command: str) -> None:
    agent.bash(f"setsid sh -c {shlex.quote(command)} </dev/null >/dev/null 2>&1 &")


def _block(name: str) -> Callable[[Agent, Json], None]:
    def say(agent: Agent, fields: Json) -> None:
        agent.say(f"[{name}_JSON]\n{json.dumps(fields)}\n[/{name}_JSON]")

    return say


def _ask(agent: Agent, given: Json) -> None:
    wanted = given.get("input")
    decision = agent.ask(str(given["tool"]), wanted if isinstance(wanted, dict) else {})
    if "file" in given:
        agent.write(Path(os.path.expandvars(str(given["file"]))), json.dumps(decision) + "\n")


def _write(agent: Agent, given: Json) -> None:
    agent.write(Path(os.path.expandvars(str(given["file"]))), str(given["text"]))


def _commit(agent: Agent, subject: str) -> None:
    stale = '"$(git rev-parse --git-path index.lock)"'  # of a git that was killed together with this process
    agent.bash(f"rm -f {stale} && git add -A && git commit -q --allow-empty -m {shlex.quote(subject)}")


def _leave(agent: Agent, files: Json) -> None:
    agent.wishes.add("no_work")
    for name, text in files.items():
        agent.leave(name, str(text))


def _answer(agent: Agent, text: str) -> None:
    agent.wishes.add("no_work")
    agent.say(agent.filled(text))


def _wait_for(agent: Agent, path: str) -> None:
    while not Path(os.path.expandvars(path)).exists():
        agent.host.sleep(0.02)


def _ignore_term(agent: Agent, given: bool) -> None:
    signal.signal(signal.SIGTERM, lambda *_: None)


def _garbage(agent: Agent, count: int) -> None:
    agent.host.write((b"\xff[not json]\n" * (count // 12 + 1))[: count - 1] + b"\n")


def _error(agent: Agent, given: Json) -> NoReturn:
    status = given.get("status")
    agent.fail(str(given.get("text", "API Error")), api_error_status=status, api_error=given.get("api_error"))


def _limit(agent: Agent, given: Json) -> NoReturn:
    resets = round(number(given.get("resets_at") or time.time() + number(given["resets_in"]) + 0.5))
    window = str(given.get("window", "five_hour"))
    info = {"status": "rejected", "resetsAt": resets, "rateLimitType": window, "isUsingOverage": False}
    agent.host.send({"type": "rate_limit_event", "rate_limit_info": info})
    name = {"five_hour": "5-hour", "seven_day": "weekly"}.get(window, window)
    clock = time.strftime("%-I:%M%p", time.gmtime(resets)).lower()
    agent.fail(
        f"You've hit your {name} limit \N{MIDDLE DOT} resets {clock} (UTC)",
        error="rate_limit", api_error_status=429, api_error="usage_limit_reached",
    )  # fmt: skip


def _no_result(agent: Agent, given: bool) -> NoReturn:
    raise Ended


def _die_mid_line(agent: Agent, given: bool) -> None:
    agent.host.write(b'{"type": "assistant", "message": {"role": "assis')
    os.kill(os.getpid(), signal.SIGKILL)


def _wish(name: str) -> Callable[[Agent, bool], None]:
    return lambda agent, _: agent.wishes.add(name)


ACTIONS: Final[dict[str, tuple[type | tuple[type, ...], Callable[[Agent, Any], object]]]] = {
    "work": (bool, lambda agent, _: agent.work()),
    "no_work": (bool, _wish("no_work")),
    "plant_bug": (bool, _wish("plant_bug")),
    "say": (str, lambda agent, text: agent.say(text)),
    "question": (dict, _block("USER_QUESTION")),
    "dependency": (dict, _block("DEPENDENCY_REQUEST")),
    "trouble": (dict, _block("ERROR")),
    "malformed": (bool, lambda agent, _: agent.say("[USER_QUESTION]\nquestion:\n[/USER_QUESTION]")),
    "ask": (dict, _ask),
    "think_ms": ((int, float), lambda agent, wait: agent.host.sleep(wait / 1000)),
    "run": (str, lambda agent, command: agent.bash(command)),
    "tool_times_out": (dict, lambda agent, given: agent.bash(str(given["command"]), number(given["seconds"]))),
    "tick": (dict, _tick),
    "grandchild": (str, _grandchild),
    "write": (dict, _write),
    "leave": (dict, _leave),
    "answer": (str, _answer),
    "commit": (str, lambda agent, subject: _commit(agent, agent.filled(subject))),
    "wait_for": (str, _wait_for),
    "ignore_term": (bool, _ignore_term),
    "garbage": (int, _garbage),
    "huge_line": (int, lambda agent, count: agent.print("x" * count)),
    "error": (dict, _error),
    "limit": (dict, _limit),
    "no_result": (bool, _no_result),
    "hang_after_result": (bool, _wish("hang_after_result")),
    "silent": (bool, lambda *_: hang()),
    "die_mid_line": (bool, _die_mid_line),
    "exit": (int, lambda _, code: sys.exit(code)),
}


SLUGIFY = '''

def slugify(text: str) -> str:
    """The text as a part of a web address: its words in small letters, joined by single hyphens."""
    words = "".join(letter if letter.isalnum() else " " for letter in text.lower())
    return "-".join(words.split())
'''
CARELESS = '''

def slugify(text: str) -> str:
    """The text as a part of a web address: its words in small letters, joined by single hyphens."""
    return "".join(letter if letter.isalnum() else "-" for letter in text.lower())
'''
TEST = """import unittest

from textkit import slugify


class SlugifyTest(unittest.TestCase):
    def test_words_are_joined_by_single_hyphens(self) -> None:
        self.assertEqual(slugify("Hello,  World!"), "hello-world")

    def test_nothing_is_left_of_punctuation_alone(self) -> None:
        self.assertEqual(slugify("?!"), "")
"""
EDGES = """
    def test_no_hyphen_stands_at_an_edge(self) -> None:
        self.assertEqual(slugify(" - Edges - "), "edges")
"""
README = """
## slugify

`textkit.slugify("Hello,  World!")` gives `"hello-world"`, fit for a web address.
"""
MODULE, TESTS = Path("textkit/__init__.py"), Path("tests/test_slugify.py")

ANALYSIS = """# Analysis of {ticket}

## Ticket
{title}

## Domain & Complexity
Text processing, low: one pure function beside those of textkit.

## Related Code
| File | Symbol | Score | Recent activity |
|---|---|---|---|
| textkit/__init__.py | slugify | 1.0 | {recent} |

## Structural Context
textkit is one module of plain functions; its tests lie in tests/ and run with unittest.

## Impact Analysis
{impact}

## Risk Assessment
Low. Text without a letter must give an empty slug, and no hyphen may stand at an edge.

## Open Questions
None. Assumed: letters of every alphabet stay as they are.

Retrieval backend: git, confidence high
"""
STEP = """## Step {number}: {text}
- Target files: {file}
- Target symbols: slugify
- Rationale: {why}
- Dependencies: {needs}
- Verification: {check}

"""
RUN_TESTS = "python -m unittest tests.test_slugify"
FIRST_STEPS = (
    ("Implement slugify in textkit", MODULE, "The ticket asks for it.", "none", "It can be imported."),
    ("Test slugify with spaces and punctuation", TESTS, "Its edges are where it goes wrong.", "Step 1", RUN_TESTS),
    ("Document slugify in README.md", Path("README.md"), "People look there first.", "Step 1", "Read it."),
)
FIX_STEPS = (
    ("Repair how slugify joins words", MODULE, "Hyphens double up and stand at edges.", "none", RUN_TESTS),
    ("Test slugify with hyphens at its edges", TESTS, "The mistake must not return.", "Step 1", RUN_TESTS),
)
ROUND_STEP = "Take up round {} of the review"
REVIEW = """# Review of {ticket}

## Review Target
{title}: textkit as it stands, from the point of view of its users.

## Findings
### medium: shout takes what is no text
- Location: textkit/__init__.py:1
- Code:

```python
{code}
```

- Explanation: anything but a str fails late, with a message that does not say which argument was wrong.
- Recommendation: say in its docstring what it takes.

## Suggestions
None.

## Code Quality Summary
Overall good. No concurrency; the tests cover the main use; errors are left to Python.
"""
RELEASE = """# Release {title}

## Included Changes
{listed}

## Affected modules
textkit

## Outstanding risks
None that is known.

## Release checklist
- [x] all tickets of the release are in
- [ ] all their reports say PASS: the checks run after this summary
"""
DESIGN = """# Design for {ticket}

## Step 1
Current code:

```python
{current}
```

Change: slugify makes a space of whatever is no letter or digit, and joins the words between by hyphens.

- Public interface: slugify(text: str) -> str
- Error paths: none
- Concurrency: none
- New shared resources: none
- Callers: none

Tests: those that are there must still pass; new ones stand in tests/test_slugify.py.
"""


def _analyse(agent: Agent, turn: Turn) -> None:
    files = agent.bash("git ls-files | head -20").splitlines()
    recent = agent.bash("git log -1 --format=%s").replace("|", "/")
    impact = "slugify gives hyphens that it should not." if _is_there() else "Nothing calls slugify yet."
    analysis = ANALYSIS.format(ticket=turn.ticket, title=turn.title, recent=recent, impact=impact)
    related = {"pack": files, "impacts": [{"symbol": "textkit.slugify", "impact_analysis": impact}]}
    agent.write(turn.outbox / "analysis.md", analysis)
    agent.write(turn.outbox / "related-code.json", json.dumps(related, indent=2) + "\n")


def _plan(agent: Agent, turn: Turn) -> None:
    if turn.mode == "review_cycle":
        _plan_round(agent, turn)
        return
    repairs = turn.bugfix and _is_there()
    steps = "".join(
        STEP.format(number=number, text=text, file=file, why=why, needs=needs, check=check)
        for number, (text, file, why, needs, check) in enumerate(FIX_STEPS if repairs else FIRST_STEPS, 1)
    )
    steps += f"## Verification Plan\n{RUN_TESTS}\n\n## Risks\nNone beyond the analysis.\n"
    agent.write(turn.outbox / "plan.md", f"# Plan for {turn.ticket}\n\n{steps}")
    if repairs:
        cause = f"## Failure\nSee {turn.log or 'the failure log'}.\n\n## Root cause\nEvery sign became a hyphen.\n\n"
        agent.write(turn.outbox / _numbered(turn, "plan-fix-{}.md"), f"# Fix for {turn.ticket}\n\n{cause}{steps}")


def _plan_round(agent: Agent, turn: Turn) -> None:
    """Write a plan that answers the newest comments of reviewers."""
    number = sum(1 for _ in turn.folder.glob("review-feedback-*.md"))
    wishes = agent.bash(f"grep '^>' {shlex.quote(str(turn.folder / f'review-feedback-{number}.md'))}")
    step = STEP.format(
        number=1, text=ROUND_STEP.format(number), file="README.md", why="Reviewers ask for it.", needs="none",
        check="Read it.",
    )  # fmt: skip
    cause = f"## Failure\nReviewers ask for changes:\n{wishes}\n\n## Root cause\nIt was left out.\n\n"
    agent.write(turn.outbox / _numbered(turn, "plan-fix-{}.md"), f"# Fix for {turn.ticket}\n\n{cause}{step}")


def _review(agent: Agent, turn: Turn) -> None:
    code = agent.bash(f"head -30 {MODULE}")
    agent.write(turn.outbox / "review-report.md", REVIEW.format(ticket=turn.ticket, title=turn.title, code=code))


def _sum_up(agent: Agent, turn: Turn) -> None:
    listed = agent.bash("git log --format='- %s' -10")
    agent.write(turn.outbox / "release-summary.md", RELEASE.format(title=turn.title, listed=listed))


def _design(agent: Agent, turn: Turn) -> None:
    current = agent.bash(f"head -30 {MODULE}")
    agent.write(turn.outbox / _numbered(turn, "design-v{}.md"), DESIGN.format(ticket=turn.ticket, current=current))


def _implement(agent: Agent, turn: Turn) -> None:
    tested = ""
    if found := re.match(ROUND_STEP.format("([0-9]+)").lower(), turn.step):
        heading = f"## Round {found[1]}"
        _extend(agent, Path("README.md"), heading, f"\n{heading}\n\nWhat reviewers asked for.\n")
    elif "readme" in turn.step:
        _extend(agent, Path("README.md"), "## slugify", README)
    elif "test" in turn.step:
        wanted = TEST + EDGES * ("edges" in turn.step)
        if not TESTS.exists() or wanted not in TESTS.read_text("utf-8"):
            agent.write(TESTS, wanted)
        tested = agent.bash(f"{shlex.quote(sys.executable)} -B -m unittest tests.test_slugify")
    elif "slugify" in turn.step:
        careless = "plant_bug" in agent.wishes
        _extend(agent, MODULE, "def slugify", CARELESS if careless else SLUGIFY)
        if CARELESS in (text := MODULE.read_text("utf-8")) and not careless:
            agent.write(MODULE, text.replace(CARELESS, SLUGIFY))
    done = agent.bash("git log -1 --format=%s") == turn.subject and "no new commit" not in turn.missing
    if not done or agent.bash("git status --porcelain"):
        _commit(agent, turn.subject or "Do what the ticket asks")
    agent.say(f"The step is committed{'; its tests fail' * ('FAILED' in tested)}.")


def _is_there() -> bool:
    return MODULE.exists() and "def slugify" in MODULE.read_text("utf-8")


def _extend(agent: Agent, file: Path, sign: str, text: str) -> None:
    old = file.read_text("utf-8") if file.exists() else ""
    if sign not in old:
        agent.write(file, (old.rstrip("\n") + "\n" + text).lstrip("\n"))


def _anything(agent: Agent, turn: Turn) -> None:
    agent.say(f"I know no work for {turn.stage or 'this'}.")


def _explain(agent: Agent, turn: Turn) -> None:
    seen = agent.bash(f"tail -n 40 {shlex.quote(str(turn.folder / turn.log))}") if turn.log else ""
    complaint = next((line for line in seen.splitlines() if "Error:" in line), "the output does not say why")
    analysis = {
        "root_cause_hypothesis": f"slugify makes a hyphen of every sign instead of one between words: {complaint}",
        "confidence": "high" if "Error:" in seen else "low",
        "suggested_fix": "Split the text into words first and join those by single hyphens.",
    }
    agent.write(turn.outbox / "failure-analysis.json", json.dumps(analysis, indent=2) + "\n")


WORK: Final[dict[str, Callable[[Agent, Turn], None]]] = {
    "ANALYSIS": lambda agent, turn: (_sum_up if turn.mode == "release" else _analyse)(agent, turn),
    "PLANNING": lambda agent, turn: (_review if turn.mode == "code_review" else _plan)(agent, turn),
    "DESIGN": _design,
    "IMPLEMENTATION": _implement,
    "EVALUATION": _explain,
}


def _numbered(turn: Turn, name: str) -> str:
    """Return the name with the next free number; a turn that fixes its own result uses that number again."""
    count = sum(1 for _ in turn.folder.glob(name.format("*")))
    return name.format(max(1, count) if turn.missing else count + 1)


def content(text: str) -> Json:
    return {"role": "user", "content": [{"type": "text", "text": text}]}


def text_of(message: Any) -> str:
    said = message["message"]["content"]
    return said if isinstance(said, str) else "\n".join(block.get("text", "") for block in said)


def number(value: object) -> float:
    return float(str(value))


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def hang() -> NoReturn:
    """Do nothing, until a signal ends it."""
    while True:
        signal.pause()


def scenario_of(arguments: list[str], environment: Mapping[str, str]) -> Scenario:
    """Return the scenario named on the command line or in the environment; an empty one if there is none."""
    given = arguments[0] if arguments else environment.get("ORCHESTRATOR_SCENARIO", "")
    return Scenario(json.loads(given if given.startswith("{") else Path(given).read_text()) if given else {})


def leave(number: int, _: FrameType | None) -> NoReturn:
    sys.exit(EXIT_CODES[signal.Signals(number)])


def main() -> int:
    for known in EXIT_CODES:
        signal.signal(known, leave)
    env = os.environ
    try:
        scenario = scenario_of(sys.argv[1:], env)
    except (ScenarioError, OSError, ValueError) as error:
        sys.stderr.write(f"The scenario cannot be played: {error}\n")
        return 2
    cache = Path(env.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "orchestrator-scripted-agent"
    host = Host(env.get("ORCHESTRATOR_SESSION_ID") or str(uuid4()))
    home = Path(env.get("ORCHESTRATOR_SCRIPTED_HOME") or cache)
    session = Session(home, host.session_id, env.get("ORCHESTRATOR_TASK", ""))
    resume = env.get("ORCHESTRATOR_RESUME") == "1"
    if session.exists and not resume:
        sys.stderr.write(f"Error: Session ID {host.session_id} is already in use.\n")
        return 1
    if resume and not session.exists:
        complaint = f"No conversation found with session ID: {host.session_id}"
        sys.stderr.write(complaint + "\n")
        host.send({"type": "result", "subtype": "error_during_execution", "is_error": True, "errors": [complaint]})
        return 1
    return Agent(host, session, scenario).live()


if __name__ == "__main__":
    sys.exit(main())
