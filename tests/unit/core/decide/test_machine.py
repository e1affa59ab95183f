"""The way through the pipeline, the effects of a closed gate, and events that come too late."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from orchestrator.core.decide import machine
from orchestrator.core.decide.obligations import obligations
from orchestrator.core.events import commands as do
from orchestrator.core.events import events, run_events
from orchestrator.core.task.agent import AgentStatus
from orchestrator.core.task.guards import Evidence, FileFacts
from orchestrator.core.task.progress import StageStatus
from orchestrator.core.task.task import NextAction, Schedule, Task, TaskStatus
from orchestrator.core.task.ticket import SensitiveCheck
from orchestrator.core.task.user_requests import RequestStatus
from orchestrator.errors import InvalidTransition
from tests.fakes.tasks import submitted
from tests.fakes.world import START
from tests.unit.playbook import (
    Happening,
    Playbook,
    a_task,
    admitted,
    answered,
    at,
    at_work,
    cancel,
    checkpoint,
    committed,
    daemon_started,
    delivered,
    exited,
    failed,
    finished,
    full,
    interactive,
    judged,
    later,
    looked,
    pause,
    ready,
    resume,
    session,
    started,
)

SHORT = Evidence(files={"analysis.md": FileFacts(chars=200)}, fresh=("analysis.md",))
TOO_SHORT = "analysis.md has 200 characters, more than 200 needed"
NOT_FOUND = "related-code.json not found"


def test_a_ticket_without_errors_becomes_a_delivered_branch() -> None:
    play = (
        Playbook.submitted(a_task())
        >> admitted << "prepare the workspace"
        >> ready << "look at TICKET_INTAKE"
        >> looked() << "start planner 1"
        >> started << "follow agents/1" << "turn 1 of 1" << "wake in 3600 s"
        >> session
        >> finished() << "look at ANALYSIS"
        >> looked() << "turn 2 of 1" << "wake in 3600 s"
        >> finished() << "look at PLANNING"
        >> looked() << "turn 3 of 1" << "wake in 3600 s"
        >> finished() << "look at DESIGN"
        >> looked() << "stop agents/1"
        >> exited << "start implementer 2"
        >> started << "follow agents/2" << "turn 1 of 2" << "wake in 3600 s"
        >> session
        >> finished() << "look at IMPLEMENTATION"
        >> looked(committed("c1")) << "turn 2 of 2" << "wake in 3600 s"
        >> finished() << "look at IMPLEMENTATION"
        >> looked(committed("c2")) << "stop agents/2"
        >> exited << "check unit_test in logs/1-unit_test"
        >> started << "follow logs/1-unit_test"
        >> judged() << "check lint in logs/1-lint"
        >> started << "follow logs/1-lint"
        >> judged() << "deliver c2"
        >> delivered << "tell completed"
    )  # fmt: skip
    task = play.task
    assert (task.status, task.next_action, task.agent.status) == (
        TaskStatus.COMPLETED, NextAction.NOTHING, AgentStatus.COMPLETED
    )  # fmt: skip
    assert {record.status for record in task.stages.values()} == {StageStatus.COMPLETED}
    assert (task.progress, task.seq, task.timing.completed_at) == (100, 25, START)
    assert task.stages["ANALYSIS"].artifacts == ("analysis.md", "related-code.json")


def test_a_failed_playbook_prints_both_conversations() -> None:
    with pytest.raises(AssertionError) as caught:
        assert Playbook(at("TICKET_INTAKE", NextAction.GATE)) >> looked() << "deliver c2"
    rows = [line.split() for line in str(caught.value).splitlines()]
    assert rows[1:] == [
        ["expected", "said"],
        [">>", "GateLooked", ">>", "GateLooked"],
        ["<<", "deliver", "c2", "<<", "start", "planner", "1"],
    ]


def test_costs_are_summed_over_sessions_but_not_within_one() -> None:
    play = Playbook(at_work()) >> finished() << "look at ANALYSIS"
    play = play >> looked() << "turn 2 of 1" << "wake in 3600 s" >> finished() << "look at PLANNING"
    assert (play.task.agent.usage.tokens, play.task.agent.usage.cost_usd) == (1000, 0.25)
    work = at_work("IMPLEMENTATION")
    after = (Playbook(work) >> finished() << "look at IMPLEMENTATION").task
    assert (work.agent.usage.tokens, after.agent.usage.tokens, after.agent.usage.cost_usd) == (1000, 2000, 0.5)


def test_a_closed_gate_reports_what_is_missing_to_its_agent_and_then_blocks() -> None:
    play = Playbook(at_work())
    for turn in (2, 3):
        play = play >> finished() << "look at ANALYSIS" >> looked(SHORT) << f"turn {turn} of 1" << "wake in 3600 s"
        assert play.task.feedback == (TOO_SHORT, NOT_FOUND)
    assert play.task.budgets["gate_retries"].left == 0
    play = play >> finished() << "look at ANALYSIS" >> looked(SHORT) << "stop agents/1"
    play = play << "tell blocked" >> exited
    assert play.task.status is TaskStatus.BLOCKED
    assert play.task.block_reason == f"ANALYSIS is still incomplete after every try: {TOO_SHORT}; {NOT_FOUND}"
    assert play.task.stages["ANALYSIS"].status is StageStatus.IN_PROGRESS


def test_an_opened_gate_resets_the_retries_and_clears_the_feedback() -> None:
    play = Playbook(at_work()) >> finished() << "look at ANALYSIS"
    play = play >> looked(SHORT) << "turn 2 of 1" << "wake in 3600 s" >> finished() << "look at ANALYSIS"
    play = play >> looked() << "turn 3 of 1" << "wake in 3600 s"
    assert (play.task.stage, play.task.feedback, play.task.budgets["gate_retries"].used) == ("PLANNING", (), 0)


def test_a_gate_that_no_agent_can_open_blocks_at_once() -> None:
    ticket = replace(a_task().ticket, sensitive_check=SensitiveCheck(result="BLOCKED"))
    play = (
        Playbook(at("TICKET_INTAKE", NextAction.GATE, replace(a_task(), ticket=ticket))) >> looked() << "tell blocked"
    )
    assert play.task.block_reason == "TICKET_INTAKE: the check of the ticket for secrets says BLOCKED"


@pytest.mark.parametrize(("tool_uses", "fresh", "idle"), [(0, (), True), (1, (), False), (0, ("analysis.md",), False)])
def test_a_turn_without_any_work_is_reported_to_the_agent(tool_uses: int, fresh: tuple[str, ...], idle: bool) -> None:
    play = Playbook(at_work()) >> finished(tool_uses=tool_uses) << "look at ANALYSIS"
    play = play >> looked(Evidence(files=SHORT.files, fresh=fresh)) << "turn 2 of 1" << "wake in 3600 s"
    assert play.task.feedback[0].startswith("the turn ended without any work") is idle


def test_at_most_ten_refused_files_are_reported() -> None:
    evidence = Evidence(refused=tuple(f"{n}.bin: not text" for n in range(12)))
    play = Playbook(at_work()) >> finished() << "look at ANALYSIS"
    play = play >> looked(evidence) << "turn 2 of 1" << "wake in 3600 s"
    refusals = [item for item in play.task.feedback if item.startswith("refused: ")]
    assert (refusals[0], len(refusals)) == ("refused: 0.bin: not text", 10)


def old_turn(task: Task) -> Iterable[events.Event]:
    folder, visits = (task.run.folder if task.run else ""), task.stages[task.stage].visits
    late, seen = task.updated_at, Evidence(files={}, fresh=())
    attempt, turn = task.agent.attempt, task.agent.turn.number
    ok, result = events.TurnOutcome.OK, None
    yield events.WorkspaceReady(at=late, worktree="/elsewhere", branch="b", head="h")
    yield run_events.RunStarted(at=late, folder="agents/0", pid=1)
    yield run_events.RunStarted(at=late, folder=folder, pid=1)
    yield events.SessionStarted(at=late, attempt=attempt - 1, session_id="old")
    yield events.SessionStarted(at=late, attempt=attempt, session_id="second")
    yield events.TurnFinished(at=late, attempt=attempt - 1, outcome=ok, offset=9999)
    yield events.TurnFinished(at=late, attempt=attempt, outcome=ok, offset=task.agent.read_offset)
    yield events.AgentExited(at=late, attempt=attempt - 1)
    yield events.GateLooked(at=late, stage=task.stage, visit=visits, turn=turn - 1, evidence=seen)
    yield events.GateLooked(at=late, stage=task.stage, visit=visits - 1, turn=turn, evidence=seen)
    yield events.GateLooked(at=late, stage="TICKET_INTAKE", visit=visits, turn=turn, evidence=seen)
    yield run_events.CheckFinished(at=late, folder="logs/0-lint", name="lint", result=result)
    yield run_events.RunFrozen(at=late, folder="agents/0")
    yield run_events.FreezeFailed(at=late, folder="agents/0")
    yield run_events.RunThawed(at=late, folder="agents/0")
    yield run_events.RunThawed(at=late, folder=folder)
    yield events.AlarmRang(at=late)
    yield events.TaskAdmitted(at=late)
    yield events.CommandFailed(at=late, command=do.FreezeRun(folder=folder), reason="late")
    yield events.TaskSubmitted(at=late, task=task)


@pytest.mark.parametrize("owed", [NextAction.TURN, NextAction.GATE])
def test_late_events_return_the_unchanged_task(owed: NextAction) -> None:
    task = replace(at_work("PLANNING"), next_action=owed)
    assert task.run
    for event in old_turn(task):
        assert machine.decide(full(), task, event) == (task, ()), event
        assert machine.decide(full(), task, event)[0] is task, event


def test_an_unexpected_delivery_changes_nothing() -> None:
    task = at_work()
    assert machine.decide(full(), task, delivered(task, task.updated_at))[0] is task


def test_a_failure_of_a_desired_command_blocks_the_task_with_the_reason() -> None:
    play = Playbook(at("TICKET_INTAKE", NextAction.WORKSPACE))
    command = do.PrepareWorkspace(branch=play.task.source.branch)
    play = play >> failed(command, "the branch feature/LOCAL exists") << "tell blocked"
    assert (play.task.status, play.task.block_reason) == (TaskStatus.BLOCKED, "the branch feature/LOCAL exists")


def test_a_failure_of_a_command_that_is_no_longer_desired_changes_nothing() -> None:
    task = at_work()
    event = events.CommandFailed(at=START, command=do.PrepareWorkspace(branch=task.source.branch), reason="late")
    assert machine.decide(full(), task, event)[0] is task


@pytest.mark.parametrize("end", [TaskStatus.CANCELLED, TaskStatus.BLOCKED])
def test_a_failed_stop_leaves_an_ended_task_unchanged(end: TaskStatus) -> None:
    play = Playbook(at_work())
    reason: str | None = None
    if end is TaskStatus.CANCELLED:
        play = play >> cancel << "interrupt agents/1"
    else:
        turn = obligations(full(), play.task)[1]
        play, reason = play >> failed(turn, "no disk") << "interrupt agents/1" << "tell blocked", "no disk"
    play = play >> failed(do.StopRun(folder="agents/1", interrupt=True), "it would not end")
    assert (play.task.status, play.task.block_reason) == (end, reason)


def test_an_alarm_that_cannot_be_set_leaves_a_waiting_task_waiting() -> None:
    play = (
        Playbook.submitted(replace(a_task(), schedule=Schedule(start_at=START)))
        << "wake in 0 s"
        >> failed(do.WakeAt(at=START))
    )
    assert (play.task.status, play.task.block_reason) == (TaskStatus.PENDING, None)


def test_a_restart_repeats_all_desired_commands() -> None:
    assert (
        Playbook(at_work())
        >> daemon_started << "follow agents/1" << "turn 1 of 1" << "wake in 3600 s"
        >> finished() << "look at ANALYSIS"
        >> daemon_started << "follow agents/1" << "look at ANALYSIS"
    )  # fmt: skip


def test_an_agent_found_alive_that_was_never_reported_gets_its_turn() -> None:
    assert (
        Playbook(at("ANALYSIS", NextAction.AGENT))
        >> daemon_started << "follow agents/1" << "turn 1 of 1" << "wake in 3600 s"
    )  # fmt: skip


def designs(*numbers: int) -> Evidence:
    names = tuple(f"design-v{number}.md" for number in numbers)
    return Evidence(files={name: FileFacts(chars=900) for name in names}, fresh=names)


@pytest.mark.parametrize("numbers", [(1,), (1, 2, 3, 4), (9,), (5, 6, 7, 8)])
def test_a_design_may_be_revised_three_times_whatever_number_it_starts_with(numbers: tuple[int, ...]) -> None:
    play = Playbook(at("DESIGN", NextAction.GATE)) >> looked(designs(*numbers)) << "stop agents/1"
    assert play.task.budgets["design_revisions"].used == len(numbers) - 1
    assert (play.task.stage, play.task.failures.total) == ("IMPLEMENTATION", 0)


def test_designs_are_counted_over_all_turns_and_visits_except_one_of_each_visit() -> None:
    design = replace(at("DESIGN").stages["DESIGN"], visits=2, artifacts=("design-v1.md", "design-v2.md"))
    again = at("DESIGN", NextAction.GATE)
    again = replace(again, stages={**again.stages, "DESIGN": design})
    play = Playbook(again) >> looked(designs(2, 3, 4)) << "stop agents/1"
    assert play.task.budgets["design_revisions"].used == 2


def test_without_a_user_a_design_revised_too_often_is_accepted_and_its_risk_recorded() -> None:
    play = Playbook(at("DESIGN", NextAction.GATE)) >> looked(designs(1, 2, 3, 4, 5)) << "stop agents/1"
    (entry,) = play.task.failures.accepted
    assert (entry.state, entry.type) == ("DESIGN", "budget_exceeded")
    assert entry.summary == "the budget design_revisions is used up (4 of 3)"
    assert (play.task.stage, play.task.status) == ("IMPLEMENTATION", TaskStatus.IN_PROGRESS)


def test_a_user_decides_on_a_design_that_was_revised_too_often() -> None:
    attended = interactive("DESIGN")
    play = Playbook(attended) >> finished() << "look at DESIGN" >> looked(designs(1, 2, 3, 4, 5))
    play = play << "freeze agents/1" << "wake in 1800 s" << "tell review_asked"
    (ask,) = play.task.pending_requests
    assert ask.draft.text.endswith("design-v5.md; the budget design_revisions is used up (4 of 3)")
    assert [entry.action for entry in play.task.failures.entries] == ["user_intervention"]
    play = play >> answered(ask.number, RequestStatus.APPROVED)
    assert (play.task.stage, play.task.status) == ("IMPLEMENTATION", TaskStatus.IN_PROGRESS)


def test_a_checkpoint_and_a_foreign_edit_are_recorded_and_need_no_action() -> None:
    task = at_work()
    play = Playbook(task) >> later(60) >> checkpoint
    assert play.task.agent.last_saved == play.now
    play = play >> (lambda _, at: events.ForeignEditFound(at=at, kept_as="state.json.foreign-9"))
    assert play.task.seq == task.seq + 2


def test_a_start_of_the_daemon_is_no_decision_for_a_task_that_waits_for_a_slot() -> None:
    waiting = submitted("T-1")
    started = events.DaemonStarted(at=START, run_alive=False)
    assert machine.decide(full(), waiting, started) == (waiting, ())
    after, _ = machine.decide(full(), at_work(), started)
    assert after.seq == at_work().seq + 1


TROUBLE: tuple[Happening, ...] = (pause(), resume(), cancel)


@pytest.mark.parametrize("happening", TROUBLE)
def test_a_task_that_has_ended_refuses_all_requests(happening: Happening) -> None:
    task = at("COMPLETION", NextAction.NOTHING)
    with pytest.raises(InvalidTransition, match=r"that is completed in COMPLETION; allowed now: archive, delete"):
        machine.decide(full(), task, happening(task, START))
