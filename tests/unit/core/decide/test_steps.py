"""Steps of a plan, executed one by one, each with its own commits."""

from dataclasses import replace

import pytest

from orchestrator.core.decide import plan
from orchestrator.core.decide.obligations import obligations
from orchestrator.core.task.agent import AgentStatus, PauseReason
from orchestrator.core.task.checkpoint import Reason
from orchestrator.core.task.guards import Evidence, FileFacts
from orchestrator.core.task.progress import Step, StepCheckpoint, StepStatus
from orchestrator.core.task.task import Task, TaskStatus
from tests.fakes.world import START
from tests.unit.playbook import (
    Playbook,
    admitted,
    alarm,
    at,
    at_work,
    checkpoint_of,
    committed,
    exited,
    finished,
    full,
    later,
    looked,
    retry,
    session,
    started,
)

CLEAN_DONE = committed("c1")


def states(task: Task) -> list[tuple[int, StepStatus, tuple[str, ...]]]:
    return [(step.step_id, step.status, step.commits) for step in task.steps]


def after_a_turn() -> Playbook:
    return Playbook(at_work("IMPLEMENTATION")) >> finished() << "look at IMPLEMENTATION"


def since(task: Task) -> list[str]:
    """Return the commit from which the pending gate inspection counts."""
    return [command.since for command in obligations(full(), task) if hasattr(command, "since")]


def test_a_step_is_done_when_it_has_a_commit_and_the_tree_is_clean() -> None:
    play = after_a_turn() >> looked(committed("c1", "c2")) << "turn 2 of 2" << "wake in 3600 s"
    assert states(play.task) == [
        (1, StepStatus.COMPLETED, ("c1", "c2")),
        (2, StepStatus.IN_PROGRESS, ()),
    ]
    assert (play.task.source.head, play.task.agent.turn.step) == ("c2", 2)
    assert (play.task.steps[0].started_at, play.task.steps[0].completed_at) == (START, START)


def test_a_step_without_a_commit_is_not_done() -> None:
    play = after_a_turn() >> looked(Evidence()) << "turn 2 of 2" << "wake in 3600 s"
    assert play.task.feedback == ("no new commit was made for this step",)
    assert states(play.task)[0] == (1, StepStatus.IN_PROGRESS, ())


def test_a_step_that_leaves_changes_behind_is_not_done_and_keeps_its_commits() -> None:
    play = after_a_turn() >> looked(committed("c1", dirty=("a.py",))) << "turn 2 of 2" << "wake in 3600 s"
    assert play.task.feedback == ("uncommitted changes: a.py",)
    play = play >> finished() << "look at IMPLEMENTATION"
    assert since(play.task) == ["b" * 40]
    play = play >> looked(CLEAN_DONE) << "turn 3 of 2" << "wake in 3600 s"
    assert states(play.task)[0] == (1, StepStatus.COMPLETED, ("c1",))


def test_the_gate_of_the_next_step_counts_from_the_end_of_the_previous_one() -> None:
    play = after_a_turn() >> looked(CLEAN_DONE) << "turn 2 of 2" << "wake in 3600 s"
    assert since((play >> finished() << "look at IMPLEMENTATION").task) == ["c1"]


def test_a_step_that_never_gets_a_commit_blocks_the_task() -> None:
    play = after_a_turn()
    for turn in (2, 3):
        play = play >> looked(Evidence()) << f"turn {turn} of 2" << "wake in 3600 s"
        play = play >> finished() << "look at IMPLEMENTATION"
    play = play >> looked(Evidence()) << "stop agents/2" << "tell blocked"
    assert play.task.block_reason == (
        "IMPLEMENTATION is still incomplete after every try: no new commit was made for this step"
    )


def test_an_abandoned_step_is_recorded_as_failed_and_a_retry_continues_with_it() -> None:
    play = after_a_turn() >> looked(CLEAN_DONE) << "turn 2 of 2" << "wake in 3600 s"
    for turn in (3, 4):
        play = play >> finished() << "look at IMPLEMENTATION" >> looked(Evidence())
        play = play << f"turn {turn} of 2" << "wake in 3600 s"
    play = play >> finished() << "look at IMPLEMENTATION" >> looked(Evidence()) << "stop agents/2" << "tell blocked"
    (entry,) = play.task.failures.entries
    assert (entry.state, entry.step, entry.type, entry.action) == (
        "IMPLEMENTATION",
        "2",
        "step_failed",
        "user_intervention",
    )
    assert entry.summary == "still incomplete after every try: no new commit was made for this step"
    assert [step.status for step in play.task.steps] == [StepStatus.COMPLETED, StepStatus.FAILED]
    play = play >> exited >> retry >> admitted << "resume implementer 3" >> started
    play = play << "follow agents/3" << "turn 1 of 3" << "wake in 3600 s"
    assert play.task.agent.turn.step == 2
    assert [step.status for step in play.task.steps] == [StepStatus.COMPLETED, StepStatus.IN_PROGRESS]


def test_a_restarted_implementer_continues_with_its_step() -> None:
    play = after_a_turn() >> looked(CLEAN_DONE) << "turn 2 of 2" << "wake in 3600 s" >> exited << "wake in 10 s"
    assert play.task.failures.entries[0].step == "2"
    play = play >> later(10) >> alarm << "resume implementer 3"
    play = play >> started << "follow agents/3" << "turn 1 of 3" << "wake in 3600 s"
    assert (play.task.agent.turn.step, states(play.task)[0][1]) == (2, StepStatus.COMPLETED)
    assert play.task.steps[1].started_at == START


def planless() -> Task:
    """Return an active task in the stage of steps although its plan has none."""
    return replace(at_work("IMPLEMENTATION"), steps=())


def test_a_plan_without_steps_is_never_implemented() -> None:
    play = Playbook(planless()) >> finished() << "look at IMPLEMENTATION"
    play = play >> looked(CLEAN_DONE) << "turn 2 of 2" << "wake in 3600 s"
    assert play.task.feedback == ("the plan has no steps",)
    assert (play.task.agent.turn.step, play.task.status) == (None, TaskStatus.IN_PROGRESS)


def test_a_new_plan_restarts_its_steps() -> None:
    done = Step(step_id=1, description="Old", status=StepStatus.COMPLETED, commits=("c0",))
    play = Playbook(replace(at_work("PLANNING"), steps=(done,))) >> finished() << "look at PLANNING"
    play = play >> looked() << "turn 3 of 1" << "wake in 3600 s"
    assert states(play.task) == [(1, StepStatus.PENDING, ()), (2, StepStatus.PENDING, ())]


def test_a_plan_that_was_left_before_keeps_its_steps() -> None:
    done = Step(step_id=1, description="Old", status=StepStatus.COMPLETED, commits=("c0",))
    play = Playbook(replace(at_work("PLANNING"), steps=(done,))) >> finished() << "look at PLANNING"
    again = Evidence(files={"plan.md": FileFacts(chars=9, headings=("## Step 1",))}, fresh=())
    assert (play >> looked(again) << "turn 3 of 1" << "wake in 3600 s").task.steps == (done,)


def test_an_earlier_plan_that_cannot_be_read_is_ignored() -> None:
    play = Playbook(at_work("PLANNING")) >> finished() << "look at PLANNING"
    play = play >> looked(Evidence(fresh=("plan.md",))) << "turn 3 of 1" << "wake in 3600 s"
    assert (play.task.feedback, play.task.steps) == (("plan.md not found",), ())


def test_progress_counts_steps_only_while_they_are_executed() -> None:
    play = after_a_turn()
    before = play.task.progress
    play = play >> looked(CLEAN_DONE) << "turn 2 of 2" << "wake in 3600 s"
    assert (before, play.task.progress) == (57, 64)
    assert at("ANALYSIS").progress == 14
    assert replace(play.task, stages={}).progress == 0


def test_another_attempt_of_the_implementer_reports_its_own_session() -> None:
    play = after_a_turn() >> session
    assert play.task.seq == after_a_turn().task.seq


def test_endless_commits_do_not_reset_the_retries_when_all_steps_are_done() -> None:
    play = after_a_turn() >> looked(CLEAN_DONE) << "turn 2 of 2" << "wake in 3600 s" >> finished()
    play = play << "look at IMPLEMENTATION" >> looked(CLEAN_DONE) << "turn 3 of 2" << "wake in 3600 s"
    assert play.task.feedback == ("step 2 has no commit",)
    play = play >> finished() << "look at IMPLEMENTATION" >> looked(committed("c3")) << "turn 4 of 2"
    play = play << "wake in 3600 s" >> finished() << "look at IMPLEMENTATION" >> looked(committed("c4"))
    assert (play << "stop agents/2" << "tell blocked").task.status is TaskStatus.BLOCKED


def stopped() -> Task:
    """Return a task that is paused in its first step."""
    task = at_work("IMPLEMENTATION")
    agent = replace(task.agent, status=AgentStatus.PAUSED, blocked_by=PauseReason.USER)
    return replace(task, run=None, agent=agent)


@pytest.mark.parametrize(("reason", "word"), [(Reason.LIMIT, "token_limit"), (Reason.USER, "manual_stop")])
def test_a_step_that_a_limit_or_a_pause_stops_notes_what_was_not_committed(reason: Reason, word: str) -> None:
    play = Playbook(stopped()) >> checkpoint_of(reason, "a.py")
    first, *others = play.task.steps
    left = StepCheckpoint(at=play.now, reason=word, work_in_progress=plan.NOT_NOTED, uncommitted_files=("a.py",))
    assert (first.last_checkpoint, [step.last_checkpoint for step in others]) == (left, [None] * len(others))
    noted = replace(first, last_checkpoint=replace(left, work_in_progress="70 % of it"))
    again = Playbook(replace(play.task, steps=(noted, *others))) >> checkpoint_of(reason)
    kept = again.task.steps[0].last_checkpoint
    assert kept is not None
    assert (kept.work_in_progress, kept.uncommitted_files) == ("70 % of it", ())


def test_a_checkpoint_at_an_interval_or_after_the_pause_notes_nothing_at_the_step() -> None:
    play = Playbook(stopped()) >> checkpoint_of(Reason.INTERVAL, "a.py")
    assert play.task.steps[0].last_checkpoint is None
    play = Playbook(at_work("IMPLEMENTATION")) >> checkpoint_of(Reason.USER, "a.py")
    assert play.task.steps[0].last_checkpoint is None
