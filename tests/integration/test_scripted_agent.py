"""The scripted agent: its defaults, every action of its scenarios, and its conformity with the CLI."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pytest

from orchestrator.agents.drivers import StreamDriver
from orchestrator.agents.markers import Markers
from orchestrator.core.decide.plan import steps_of
from orchestrator.core.decide.prompt import commit_subject, outbox_of
from orchestrator.core.events.agent_events import (
    Answered,
    Asked,
    AskWithdrawn,
    ErrorClass,
    Limit,
    LimitStatus,
    Noise,
    Outcome,
    SessionActivity,
    SessionOpened,
    SessionState,
    Text,
    TokenUsage,
    ToolFinished,
    ToolStarted,
    TurnResult,
)
from orchestrator.core.events.agent_messages import (
    AgentError,
    AgentMessage,
    Category,
    DependencyRequest,
    DependencyType,
    Malformed,
    Question,
    Recovery,
)
from orchestrator.core.task import guards
from orchestrator.core.task.agent import Agent, Session, SessionOrigin, TurnProgress
from orchestrator.core.task.checks import CheckResult, Evaluation, Verdict
from orchestrator.core.task.progress import Step
from orchestrator.core.task.task import Source, Task, Timing
from orchestrator.core.task.ticket import Ticket
from orchestrator.pipelines.pipeline_file import parse_pipeline
from tests.fakes.conversation import AGENT, IDLE, Conversation, Stage, appeared, eventually, of, user_line
from tests.integration.processes.stage import state_of

ROOT = Path(__file__).parents[2]


def git(worktree: Path, *args: str) -> str:
    """Return the output of git without its last newline."""
    return subprocess.run(["git", *args], cwd=worktree, check=True, capture_output=True, text=True).stdout.rstrip()


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """Return the small repository of the demo, and a task on its own branch."""
    worktree = tmp_path / "work tree"
    (worktree / "textkit").mkdir(parents=True)
    (worktree / "tests").mkdir()
    (worktree / "textkit/__init__.py").write_text('"""Small tools for text."""\n')
    (worktree / "tests/__init__.py").touch()
    (worktree / "README.md").write_text("# textkit\n")
    for command in ("init -q -b main", "config user.name A", "config user.email a@localhost", "add -A"):
        git(worktree, *command.split())
    git(worktree, "commit", "-q", "-m", "Begin")
    now = datetime(2026, 1, 1, tzinfo=UTC)
    task = Task(
        id="t-1",
        title="Add slugify (text) to textkit",
        folder=str(tmp_path / "task (1)"),
        ticket=Ticket(key="LOCAL-1"),
        pipeline="full",
        source=Source(
            repo=str(worktree),
            base_branch="main",
            base_commit=git(worktree, "rev-parse", "HEAD"),
            branch="feature/LOCAL-1",
            worktree=str(worktree),
        ),
        timing=Timing(created_at=now),
        updated_at=now,
        agent=Agent(attempt=1, turn=TurnProgress(number=1)),
    )
    Path(outbox_of(task)).mkdir(parents=True)
    file = ROOT / "config/pipelines/full.toml"
    return Stage(
        worktree=worktree,
        home=tmp_path / "home",
        pipeline=parse_pipeline(file.read_text(), str(file)),
        task=task,
    )


def evidence(stage: Stage) -> guards.Evidence:
    """Return the evidence that a gate would find in the outbox."""
    files = {}
    for file in stage.outbox.iterdir():
        text = file.read_text()
        filled = tuple(key for key, value in json.loads(text).items() if value) if file.suffix == ".json" else None
        headings = tuple(line for line in text.splitlines() if line.startswith("#"))
        files[file.name] = guards.FileFacts(chars=len(text), headings=headings, json_filled=filled)
    return guards.Evidence(files=files)


def unittests(worktree: Path) -> int:
    """Return the exit code of the repository's own check."""
    command = [sys.executable, "-B", "-m", "unittest"]
    return subprocess.run(command, cwd=worktree, check=False, capture_output=True).returncode


def planned(stage: Stage) -> tuple[Step, ...]:
    return steps_of(evidence(stage).files["plan.md"].headings)


def execute(stage: Stage, agent: Conversation) -> None:
    """Return every step of the plan in the outbox, each with its commit."""
    steps = planned(stage)
    for step in steps:
        agent.turn(stage.step(step.step_id, steps=steps))
        assert git(stage.worktree, "log", "-1", "--format=%s") == commit_subject(stage.task, step)
        assert git(stage.worktree, "status", "--porcelain") == ""


def test_without_a_scenario_it_writes_what_every_gate_of_the_pipeline_requires(stage: Stage) -> None:
    with stage.agent() as agent:
        for name in ("ANALYSIS", "PLANNING", "DESIGN"):
            events = agent.turn(stage.turn(name))
            assert of(TurnResult, events)[0].outcome is Outcome.OK
            wanted = [guard for guard in stage.pipeline.stage(name).guards if "Budget" not in type(guard).__name__]
            assert guards.missing(wanted, stage.task, evidence(stage)) == ()
        assert len(planned(stage)) == 3
        execute(stage, agent)
        assert agent.end() == 0
    assert unittests(stage.worktree) == 0
    assert git(stage.worktree, "rev-list", "--count", "HEAD") == "4"
    added = git(stage.worktree, "diff", "--name-only", "--diff-filter=A", stage.task.source.base_commit)
    assert added == "tests/test_slugify.py"


def test_a_planted_bug_fails_the_check_and_the_next_round_repairs_it(stage: Stage) -> None:
    stage.scenario = {"IMPLEMENTATION": [{"plant_bug": True}]}
    with stage.agent() as agent:
        agent.turn(stage.turn("PLANNING"))
        execute(stage, agent)
        assert unittests(stage.worktree) == 1
        (stage.folder / "logs").mkdir()
        (stage.folder / "logs/unit.log").write_text("AssertionError: 'hello--world-' != 'hello-world'\n")
        failed = CheckResult(verdict=Verdict.FAIL, reason="exit code 1", log="logs/unit.log")
        agent.turn(stage.turn("EVALUATION", evaluation=Evaluation(results={"unit_test": failed})))
        analysis = json.loads((stage.outbox / "failure-analysis.json").read_text())
        assert "hello--world-" in analysis["root_cause_hypothesis"]
        assert analysis["confidence"] == "high"
        assert analysis["suggested_fix"]
        agent.turn(stage.turn("PLANNING", failed="EVALUATION"))
        assert (stage.outbox / "plan-fix-1.md").exists()
        assert len(planned(stage)) == 2
        execute(stage, agent)
    assert unittests(stage.worktree) == 0


def test_a_turn_has_the_first_and_last_lines_of_the_cli(stage: Stage) -> None:
    with stage.agent() as agent:
        events = agent.turn(stage.turn("ANALYSIS"))
    assert events[0] == SessionState(state=SessionActivity.RUNNING)
    assert isinstance(events[1], SessionOpened)
    assert events[1].session_id == "s-1"
    assert events[1].cwd == str(stage.worktree)
    assert isinstance(events[-2], TurnResult)
    assert events[-2].usage.cumulative
    assert [tool.id for tool in of(ToolStarted, events)] == [tool.id for tool in of(ToolFinished, events)]


def test_its_usage_is_summed_over_turns_and_over_a_resumed_session(stage: Stage) -> None:
    with stage.agent() as agent:
        first = of(TurnResult, agent.turn(stage.turn("ANALYSIS")))[0]
        second = of(TurnResult, agent.turn(stage.turn("PLANNING")))[0]
        assert agent.end() == 0
    with stage.agent(resume=True) as agent:
        third = of(TurnResult, agent.turn(stage.turn("DESIGN")))[0]
    assert 0 < first.cost_usd < second.cost_usd < third.cost_usd
    assert first.usage.input_tokens < second.usage.input_tokens < third.usage.input_tokens


def test_the_same_uuid_is_one_turn_also_across_a_resume(stage: Stage) -> None:
    with stage.agent() as agent:
        agent.turn("one", "uuid-1")
        agent.send(user_line("one", "uuid-1"))
        assert agent.end() == 0
        assert agent.rest() == []
    with stage.agent(resume=True) as agent:
        agent.send(user_line("one", "uuid-1"))
        agent.turn("two", "uuid-2")
        assert agent.output.count(b'"type": "result"') == 1


def test_a_session_can_neither_start_twice_nor_be_resumed_from_nothing(stage: Stage) -> None:
    with stage.agent(resume=True) as agent:
        assert agent.exit_code() == 1
        assert of(TurnResult, agent.rest())[0].error is ErrorClass.SESSION
    with stage.agent() as agent:
        agent.turn("hello")
    with stage.agent() as agent:
        assert agent.exit_code() == 1
        assert agent.rest() == []


def test_killed_after_its_commit_and_resumed_it_does_not_commit_twice(stage: Stage) -> None:
    stage.scenario = {"IMPLEMENTATION": [{"work": True, "die_mid_line": True}]}
    steps = (Step(step_id=1, description="Implement slugify in textkit"),)
    with stage.agent() as agent:
        events = agent.turn(stage.step(1, steps=steps))
        assert of(TurnResult, events) == []
        assert not agent.output.endswith(b"\n")
        assert agent.exit_code() == -signal.SIGKILL
    resumed = replace(
        stage.task.agent,
        attempt=2,
        session=Session(origin=SessionOrigin.RESUMED),
        turn=replace(stage.task.agent.turn, number=1, step=1),
    )
    with stage.agent(resume=True) as agent:
        events = agent.turn(stage.step(1, steps=steps, agent=resumed))
        assert of(TurnResult, events)[0].outcome is Outcome.OK
    assert git(stage.worktree, "rev-list", "--count", "HEAD") == "2"


def test_a_lock_left_by_a_killed_git_does_not_keep_it_from_committing(stage: Stage) -> None:
    (stage.worktree / ".git/index.lock").touch()
    with stage.agent() as agent:
        agent.turn(stage.step(1, steps=(Step(step_id=1, description="Implement slugify in textkit"),)))
    assert git(stage.worktree, "rev-list", "--count", "HEAD") == "2"


def test_asked_again_for_a_commit_it_makes_one(stage: Stage) -> None:
    steps = (Step(step_id=1, description="Implement slugify in textkit"),)
    with stage.agent() as agent:
        agent.turn(stage.step(1, steps=steps))
        agent.turn(stage.step(1, steps=steps, feedback=("no new commit was made for this step",)))
    assert git(stage.worktree, "rev-list", "--count", "HEAD") == "3"


def test_a_command_runs_in_its_own_session_and_group(stage: Stage) -> None:
    stage.scenario = {"*": {"run": "echo $$ > pid; ps -o pgid=,sid= -p $$ | tr -s ' ' > ids; sleep 30"}}
    with stage.agent() as agent:
        agent.send(user_line("go"))
        agent.until(lambda event: isinstance(event, ToolStarted))
        pid = int(appeared(stage.worktree / "pid"))
        group, session = map(int, (appeared(stage.worktree / "ids")).split())
        assert group == session == pid
        assert os.getpgid(agent.process.pid) != group
        agent.process.terminate()
        assert agent.exit_code() == 143
        assert not of(TurnResult, agent.rest())
    assert not psutil.pid_exists(pid)


def test_an_interrupt_ends_the_turn_and_the_next_one_is_accepted(stage: Stage) -> None:
    stage.scenario = {"*": {"run": "echo $$ > pid; sleep 30"}, "ANALYSIS": [None]}
    with stage.agent() as agent:
        agent.send(user_line("go"))
        pid = int(appeared(stage.worktree / "pid"))
        agent.interrupt()
        events = agent.until(lambda event: event == IDLE)
        assert of(Answered, events)[0].ok
        assert of(TurnResult, events)[0].outcome is Outcome.INTERRUPTED
        assert not psutil.pid_exists(pid)
        events = agent.turn(stage.turn("ANALYSIS"))
        assert of(TurnResult, events)[0].outcome is Outcome.OK


def test_an_interrupt_between_turns_is_answered_and_ends_nothing(stage: Stage) -> None:
    with stage.agent() as agent:
        agent.interrupt()
        assert of(Answered, agent.until(lambda event: isinstance(event, Answered)))[0].ok
        assert of(TurnResult, agent.turn("go"))[0].outcome is Outcome.OK


ASK = {"ask": {"tool": "Bash", "input": {"command": "ls"}, "file": "answer"}}


def allowed(request: Asked) -> bytes:
    """Return the line that allows the request."""
    decision = {"behavior": "allow", "updatedInput": request.input}
    response = {"subtype": "success", "request_id": request.request_id, "response": decision}
    return json.dumps({"type": "control_response", "response": response}).encode() + b"\n"


def test_it_asks_in_the_clis_protocol_and_waits_for_the_answer(stage: Stage) -> None:
    stage.scenario = {"*": ASK}
    with stage.agent() as agent:
        agent.send(user_line("go"))
        seen = agent.until(lambda event: isinstance(event, Asked))
        (request,) = of(Asked, seen)
        assert (request.tool, request.input) == ("Bash", {"command": "ls"})
        assert seen[-2] == SessionState(state=SessionActivity.REQUIRES_ACTION)
        agent.send(allowed(request) * 2)
        events = agent.until(lambda event: event == IDLE)
        assert of(TurnResult, events)[0].outcome is Outcome.OK
        assert of(ToolFinished, events)[0].ok
        answer = json.loads((stage.worktree / "answer").read_text())
        assert answer == {"behavior": "allow", "updatedInput": {"command": "ls"}}


def test_a_refusal_is_reported_as_an_error_of_the_tool(stage: Stage) -> None:
    stage.scenario = {"*": ASK}
    with stage.agent() as agent:
        agent.send(user_line("go"))
        (request,) = of(Asked, agent.until(lambda event: isinstance(event, Asked)))
        agent.send(StreamDriver().refuse(request.request_id, "nobody"))
        assert not of(ToolFinished, agent.until(lambda event: event == IDLE))[0].ok


def test_a_request_is_withdrawn_by_an_interrupt(stage: Stage) -> None:
    stage.scenario = {"*": ASK}
    with stage.agent() as agent:
        agent.send(user_line("go"))
        (request,) = of(Asked, agent.until(lambda event: isinstance(event, Asked)))
        agent.interrupt()
        events = agent.until(lambda event: event == IDLE)
        assert of(AskWithdrawn, events) == [AskWithdrawn(request_id=request.request_id)]
        finished = of(TurnResult, events)[0]
        assert (finished.outcome, finished.reason) == (Outcome.INTERRUPTED, "aborted_tools")


def test_it_asks_and_reports_errors_in_blocks_of_its_text(stage: Stage) -> None:
    question = {"category": "choice", "question": "Which?", "options": ["A", "B"], "default": "A", "required": False}
    needed = {"type": "api_key", "name": "STRIPE_KEY", "description": "For the tests.", "required": True}
    trouble = {"type": "recoverable", "message": "No build server.", "recovery": "pause_and_retry"}
    turn = [{"question": question}, {"dependency": needed}, {"trouble": trouble}, {"malformed": True}]
    words, said = Markers(), list[AgentMessage]()
    for text in of(Text, stage.playing({"*": turn})):
        said += words.push(f"{text.text}\n")
    assert said[:3] == [
        Question(category=Category.CHOICE, question="Which?", options=("A", "B"), default="A", required=False),
        DependencyRequest(
            type=DependencyType.API_KEY, name="STRIPE_KEY", description="For the tests.", required=True, default=None
        ),
        AgentError(fatal=False, recovery=Recovery.PAUSE_AND_RETRY, message="No build server.", details=""),
    ]
    assert [type(one) for one in said[3:]] == [Malformed]


def test_a_command_may_time_out(stage: Stage) -> None:
    events = stage.playing({"*": {"tool_times_out": {"command": "echo begun; exec sleep 60", "seconds": 2.0}}})
    tool = of(ToolFinished, events)[0]
    assert (tool.ok, tool.timed_out) == (False, True)
    assert "begun" in tool.summary


def test_the_tokens_of_a_turn_are_reported_during_the_turn(stage: Stage) -> None:
    events = stage.playing({"*": [{"say": "one"}, {"say": "two"}, {"no_work": True}]})
    assert [spent.tokens for spent in of(TokenUsage, events)] == [101, 101]
    assert of(TurnResult, events)[0].usage.input_tokens == 200


def test_turns_of_a_stage_are_counted_over_all_attempts(stage: Stage) -> None:
    stage.scenario = {"ANALYSIS": [{"exit": 7}, {"say": "second"}]}
    with stage.agent() as agent:
        agent.send(user_line(stage.turn("ANALYSIS")))
        assert agent.exit_code() == 7
    with stage.agent(session="s-2") as agent:
        assert of(Text, agent.turn(stage.turn("ANALYSIS")))[0].text == "second"


def test_a_turn_may_wait_for_a_file_and_then_continue(stage: Stage) -> None:
    stage.scenario = {"*": [{"say": "waiting"}, {"wait_for": "$ORCHESTRATOR_OUTBOX/go"}, {"say": "going"}]}
    with stage.agent() as agent:
        agent.send(user_line("hello"))
        agent.until(lambda event: isinstance(event, Text) and event.text == "waiting")
        (stage.outbox / "go").touch()
        assert of(Text, agent.until(lambda event: isinstance(event, TurnResult)))[0].text == "going"


def test_it_leaves_files_and_an_answer_under_the_names_of_its_turn(stage: Stage) -> None:
    child = replace(stage.task, ticket=replace(stage.task.ticket, key="WORK-07.TASK-01"))
    left = {"plan.md": "for {key} of {parent}", "works/{parent}/{key}.md": "at {head}"}
    scenario = {"ANALYSIS": [{"say": "no"}], "ANALYSIS of TASK-01": [[{"leave": left}, {"answer": "{key} is done"}]]}
    stage.task = child
    events = stage.playing(scenario, stage.turn("ANALYSIS"))
    assert of(TurnResult, events)[0].text == "TASK-01 is done"
    assert (stage.outbox / "plan.md").read_text() == "for TASK-01 of WORK-07"
    head = git(stage.worktree, "rev-parse", "--short", "HEAD")
    assert (stage.worktree / "works/WORK-07/TASK-01.md").read_text() == f"at {head}"


def test_it_prints_writes_and_commits_what_the_scenario_says(stage: Stage) -> None:
    write = {"file": "$ORCHESTRATOR_OUTBOX/x.md", "text": "x"}
    turn = {"say": "hi", "think_ms": 1, "run": "echo y > y", "commit": "Add y", "write": write, "no_work": True}
    events = stage.playing({"ANALYSIS": [turn]}, stage.turn("ANALYSIS"))
    assert [text.text for text in of(Text, events)] == ["hi"]
    assert [tool.name for tool in of(ToolStarted, events)] == ["Bash", "Bash", "Write"]
    assert git(stage.worktree, "log", "-1", "--format=%s") == "Add y"
    assert [file.name for file in stage.outbox.iterdir()] == ["x.md"]


def test_a_turn_without_work_succeeds_and_leaves_nothing(stage: Stage) -> None:
    events = stage.playing({"ANALYSIS": [{"no_work": True}]}, stage.turn("ANALYSIS"))
    assert of(TurnResult, events)[0].outcome is Outcome.OK
    assert of(ToolStarted, events) == []
    assert list(stage.outbox.iterdir()) == []


def test_a_ticker_stops_while_its_session_is_stopped(stage: Stage) -> None:
    stage.scenario = {"*": {"tick": {"file": "ticks", "seconds": 20}}}
    ticks = stage.worktree / "ticks"
    with stage.agent() as agent:
        agent.send(user_line("go"))
        appeared(ticks)
        (tool,) = psutil.Process(agent.process.pid).children()
        os.killpg(tool.pid, signal.SIGSTOP)
        eventually(lambda: state_of(tool.pid) in "TD")
        before = ticks.read_text()
        with pytest.raises(subprocess.TimeoutExpired):
            agent.process.wait(0.35)
        assert ticks.read_text() == before
        os.killpg(tool.pid, signal.SIGCONT)
        eventually(lambda: ticks.read_text() != before)
        agent.process.terminate()
        assert agent.exit_code() == 143


def test_a_grandchild_outlives_its_turn_and_its_agent(stage: Stage) -> None:
    stage.playing({"*": {"grandchild": "echo $$ > pid; exec sleep 30"}})
    pid = int(appeared(stage.worktree / "pid"))
    grandchild = psutil.Process(pid)
    assert os.getsid(pid) == pid
    grandchild.kill()


def test_an_agent_that_ignores_term_continues(stage: Stage) -> None:
    stage.scenario = {"*": [{"ignore_term": True}, {"say": "deaf"}, {"wait_for": "go"}]}
    with stage.agent() as agent:
        agent.send(user_line("go"))
        agent.until(lambda event: isinstance(event, Text))
        agent.process.terminate()
        (stage.worktree / "go").touch()
        assert of(TurnResult, agent.until(lambda event: isinstance(event, TurnResult)))
        assert agent.end() == 0


def test_garbage_is_noise_and_a_huge_line_is_one_line(stage: Stage) -> None:
    stage.scenario = {"*": {"garbage": 1000, "huge_line": 300_000}}
    with stage.agent() as agent:
        events = agent.turn("go")
    assert len(of(Noise, events)) == 84
    assert max(len(line) for line in agent.output.split(b"\n")) > 300_000
    assert of(TurnResult, events)[0].outcome is Outcome.OK


def test_a_limit_looks_like_the_clis_and_the_next_turn_works(stage: Stage) -> None:
    stage.scenario = {"ANALYSIS": [{"limit": {"resets_at": 1795224600}}]}
    with stage.agent() as agent:
        events = agent.turn(stage.turn("ANALYSIS"))
        assert of(Limit, events) == [
            Limit(
                status=LimitStatus.REJECTED, window="five_hour", resets_at=1795224600, utilization=None, overage=False
            )
        ]
        assert of(Text, events)[0].synthetic
        finished = of(TurnResult, events)[0]
        assert (finished.outcome, finished.error, finished.http_status) == (Outcome.FAILED, ErrorClass.USAGE_LIMIT, 429)
        assert finished.text == "You've hit your 5-hour limit \N{MIDDLE DOT} resets 1:30am (UTC)"
        assert of(TurnResult, agent.turn(stage.turn("ANALYSIS")))[0].outcome is Outcome.OK
        assert agent.end() == 0


def test_a_failed_call_ends_the_turn_with_the_configured_error(stage: Stage) -> None:
    stage.scenario = {"*": {"error": {"text": "API Error: Overloaded", "status": 529}}}
    with stage.agent() as agent:
        finished = of(TurnResult, agent.turn("go"))[0]
        assert (finished.outcome, finished.error) == (Outcome.FAILED, ErrorClass.OVERLOADED)
        assert agent.end() == 1


def test_a_turn_may_end_without_a_result(stage: Stage) -> None:
    events = stage.playing({"*": {"no_result": True}})
    assert of(TurnResult, events) == []
    assert events[-1] == IDLE


@pytest.mark.parametrize(("action", "lines"), [("hang_after_result", 4), ("silent", 0)])
def test_a_hanging_agent_reacts_neither_to_turns_nor_to_the_end_of_input(stage: Stage, action: str, lines: int) -> None:
    stage.scenario = {"*": {action: True, "no_work": True}}
    with stage.agent() as agent:
        agent.send(user_line("one"))
        agent.send(user_line("two"))
        agent.close_input()
        appeared(stage.home / "s-1.jsonl")  # it has accepted the turn
        if lines:
            agent.until(lambda event: isinstance(event, TurnResult))
        with pytest.raises(subprocess.TimeoutExpired):
            agent.process.wait(0.3)
        agent.process.terminate()
        assert agent.exit_code() == 143
        agent.rest()
        assert agent.output.count(b"\n") == lines


@pytest.mark.parametrize(
    ("scenario", "complaint"),
    [
        ('{"ANALYSIS": [{"sey": "hi"}]}', b"no such action: sey"),
        ('{"ANALYSIS": [{"say": 1}]}', b"say cannot take 1"),
        ('{"ANALYSIS": {"say": "hi"}}', b"a stage has a list of turns: ANALYSIS"),
        ("{", b"cannot be played"),
        ("/nowhere.json", b"No such file"),
    ],
)
def test_an_invalid_scenario_is_refused_before_the_first_turn(tmp_path: Path, scenario: str, complaint: bytes) -> None:
    env = {**os.environ, "ORCHESTRATOR_SCRIPTED_HOME": str(tmp_path), "ORCHESTRATOR_SCENARIO": scenario}
    ended = subprocess.run([sys.executable, AGENT], env=env, input=b"", capture_output=True, check=False)
    assert ended.returncode == 2
    assert complaint in ended.stderr


def test_a_line_that_is_not_json_ends_it_as_it_ends_the_cli(tmp_path: Path) -> None:
    env = {**os.environ, "ORCHESTRATOR_SCRIPTED_HOME": str(tmp_path)}
    ended = subprocess.run([sys.executable, AGENT], env=env, input=b'{"type": \n', capture_output=True, check=False)
    assert ended.returncode == 1
    assert b"Error parsing streaming input line" in ended.stderr
