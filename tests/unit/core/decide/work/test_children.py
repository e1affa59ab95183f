"""A stage that is done by children: submitted once, followed, and judged when every one has ended."""

from dataclasses import replace
from datetime import datetime

import pytest

from orchestrator.core.decide.lifecycle import cap_reached
from orchestrator.core.decide.obligations import obligations
from orchestrator.core.decide.work.following import task_of
from orchestrator.core.events.child_events import ChildrenSubmitted
from orchestrator.core.events.commands import JoinParent
from orchestrator.core.events.events import ResumeRequested
from orchestrator.core.task.agent import PauseReason
from orchestrator.core.task.budget import Caps, Spending
from orchestrator.core.task.children import ChildPlan
from orchestrator.core.task.guards import Evidence, FileFacts
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.task import NextAction, Task, TaskStatus
from orchestrator.core.task.task_policy import DEFAULT_POLICY, OnBlocked
from orchestrator.pipelines.pipeline_file import parse_pipeline
from orchestrator.storage.records import summary_of
from tests.documents import ROOT
from tests.unit.playbook import (
    Playbook,
    a_task,
    admitted,
    cancel,
    caps,
    child_ended,
    children_submitted,
    daemon_started,
    exited,
    finished,
    looked,
    pause,
    ready,
    resume,
    session,
    started,
)

FOLDER = ROOT / "tests/data/pipelines_with_children"
CHAIN = (ChildPlan(key="A", title="A"), ChildPlan(key="B", title="B", after=("A",)), ChildPlan(key="C", title="C"))


def parts(on_child_failure: str = "skip_dependants") -> Pipeline:
    """Return the pipeline with children."""
    text = (FOLDER / "parts.toml").read_text().replace("skip_dependants", on_child_failure)
    return parse_pipeline(text, "parts.toml")


def left(*plans: ChildPlan) -> Evidence:
    """Return what an agent leaves that divides the work."""
    return Evidence(files={"children.json": FileFacts(chars=90, children=plans)}, fresh=("children.json",))


def divided(pipeline: Pipeline | None = None) -> Playbook:
    """Return a conversation about a task that waits for its children."""
    begun = replace(a_task(), id="T", pipeline="parts")
    play = Playbook.submitted(begun, pipeline or parts()) >> admitted << "prepare the workspace" >> ready
    play = play << "start planner 1" >> started << "follow agents/1" << "turn 1 of 1" << "wake in 3600 s" >> session
    play = play >> finished() << "look at DIVISION" >> looked(left(*CHAIN)) << "stop agents/1"
    play = play >> exited << "submit T.A T.B T.C"
    assert play
    return play


def all_submitted(task: Task, at: datetime) -> ChildrenSubmitted:
    """Every child is a task, also those that were skipped meanwhile."""
    return ChildrenSubmitted(at=at, tasks=tuple(child.task for child in task.children))


def statuses(task: Task) -> str:
    """Return how each child stands, in their order."""
    return " ".join(child.status.value for child in task.children)


def test_a_parent_waits_without_a_slot_until_every_child_has_ended() -> None:
    play = divided() >> children_submitted << "await T.A T.B T.C"
    assert (play.task.holds_slot, play.task.wants_slot) == (False, False)
    assert play.task.agent.blocked_by is PauseReason.CHILDREN
    play = play >> child_ended("T.A") << "await T.B T.C" >> child_ended("T.C") << "await T.B" >> child_ended("T.B")
    assert (play.task.wants_slot, play.task.next_action) == (True, NextAction.GATE)
    play = (
        play >> admitted << "look at PARTS" >> looked(Evidence(head="h" * 40)) << "check unit_test in logs/1-unit_test"
    )
    assert (play.task.stage, play.task.source.head) == ("EVALUATION", "h" * 40)


def test_a_child_that_ended_before_it_was_reported_as_submitted_counts_once() -> None:
    play = divided() >> child_ended("T.A") << "submit T.B T.C" >> child_ended("T.A", "late") >> children_submitted
    assert play << "await T.B T.C"
    assert statuses(play.task) == "completed submitted submitted"


def test_what_a_child_spent_is_added_to_its_parents_bill_once() -> None:
    cost = Spending(usd=0.5, tokens=7, turns=2, seconds=9.0)
    play = divided() >> children_submitted << "await T.A T.B T.C"
    before = play.task.spending.whole
    play = play >> child_ended("T.A", spent=cost) << "await T.B T.C" >> child_ended("T.A", spent=cost)
    assert play.task.spending.whole == before + cost
    play = play >> child_ended("T.B", "no way", spent=cost) << "await T.C"
    assert (play.task.spending.whole, play.task.spending.total) == (before + cost + cost, before)


def test_a_parent_whose_children_used_up_its_budget_begins_no_turn_until_it_is_raised() -> None:
    play = divided(parts("go_on")) >> caps(Caps(usd=1.0)) >> children_submitted << "await T.A T.B T.C"
    for name in ("T.A", "T.B"):
        play = play >> child_ended(name, "no", Spending(usd=0.4)) << f"await {'T.B ' * (name == 'T.A')}T.C"
    play = play >> child_ended("T.C", "no", Spending(usd=0.4))
    strict = parts("go_on").text.replace('accept = ["completed", "failed", "skipped"]', 'accept = ["completed"]')
    play = Playbook(play.task, parse_pipeline(strict, "parts.toml")) >> admitted << "look at PARTS"
    play = play >> looked(Evidence())
    assert (play.task.stage, play.task.agent.blocked_by) == ("DIVISION", PauseReason.BUDGET)
    assert "spent" in (cap_reached(play.task) or "")
    play = play >> caps(Caps(usd=2.0)) >> admitted << "resume planner 2"
    assert play


def test_a_child_has_no_caps_of_its_own() -> None:
    parent = replace(divided().task, policy=replace(DEFAULT_POLICY, caps=Caps(usd=1.0), park_after=9.0))
    child = task_of(parent, parts().stage("PARTS"), parent.children[0], parent.updated_at)
    assert child.policy == replace(DEFAULT_POLICY, park_after=9.0)


def test_after_a_restart_everything_is_owed_that_was_not_done() -> None:
    assert divided() >> daemon_started << "submit T.A T.B T.C"
    assert divided() >> children_submitted << "await T.A T.B T.C" >> daemon_started << "await T.A T.B T.C"


@pytest.mark.parametrize(
    ("then", "owed", "left_over"),
    [
        ("go_on", ["await T.B T.C"], "failed submitted submitted"),
        ("skip_dependants", ["cancel T.B", "await T.B T.C"], "failed stopping submitted"),
        ("stop", ["cancel T.B T.C", "await T.B T.C"], "failed stopping stopping"),
    ],
)
def test_what_a_failed_child_means_for_the_others_is_the_pipelines_choice(
    then: str, owed: list[str], left_over: str
) -> None:
    play = divided(parts(then)) >> children_submitted << "await T.A T.B T.C" >> child_ended("T.A", "no way")
    for command in owed:
        play = play << command
    assert statuses(play.task) == left_over
    assert play.task.children[0].reason == "no way"


@pytest.mark.parametrize(("then", "policy"), [("go_on", OnBlocked.FAIL), ("stop", OnBlocked.HALT)])
def test_where_the_others_go_on_a_child_that_is_stuck_fails_and_waits_for_nobody(then: str, policy: OnBlocked) -> None:
    play = divided(parts(then))
    child = task_of(play.task, parts(then).stage("PARTS"), play.task.children[0], play.task.updated_at)
    assert child.policy == replace(play.task.policy, on_blocked=policy)


def test_a_child_that_was_completed_before_it_could_be_cancelled_is_completed() -> None:
    play = divided(parts("stop")) >> children_submitted << "await T.A T.B T.C" >> child_ended("T.A", "no way")
    play = play << "cancel T.B T.C" << "await T.B T.C" >> child_ended("T.C") << "cancel T.B" << "await T.B"
    play = play >> child_ended("T.B", "cancelled")
    assert statuses(play.task) == "failed skipped completed"


def test_dependants_that_were_not_submitted_are_skipped_at_once_and_stopped_if_they_were() -> None:
    play = divided() >> child_ended("T.A", "no way") << "submit T.C"
    assert statuses(play.task) == "failed skipped planned"
    play = play >> all_submitted << "cancel T.B" << "await T.B T.C"
    assert statuses(play.task) == "failed stopping submitted"


def test_a_failed_stage_is_divided_anew_and_keeps_what_is_completed() -> None:
    play = divided(parts("go_on")) >> children_submitted << "await T.A T.B T.C"
    for name in ("T.A", "T.B"):
        play = play >> child_ended(name) << f"await {'T.B ' * (name == 'T.A')}T.C"
    play = play >> child_ended("T.C", "no way")
    strict = parts("go_on").text.replace('accept = ["completed", "failed", "skipped"]', 'accept = ["completed"]')
    play = Playbook(play.task, parse_pipeline(strict, "parts.toml")) >> admitted << "look at PARTS"
    play = play >> looked(Evidence()) << "resume planner 2" >> started << "follow agents/2" << "turn 1 of 2"
    play = play << "wake in 3600 s" >> session >> finished() << "look at DIVISION" >> looked(left(*CHAIN))
    play = play << "stop agents/2" >> exited << "submit T.C-2"
    assert statuses(play.task) == "completed completed planned"


def test_a_paused_parent_submits_no_more_children_and_goes_on_waiting_when_it_is_resumed() -> None:
    play = divided() >> pause() >> children_submitted << "await T.A T.B T.C" >> resume()
    assert play.task.agent.blocked_by is PauseReason.CHILDREN
    play = divided() >> pause()
    assert obligations(parts(), play.task) == ()
    assert play >> resume() << "submit T.A T.B T.C"


def test_a_parent_that_is_paused_when_its_last_child_ends_goes_on_when_it_is_resumed() -> None:
    play = divided() >> children_submitted << "await T.A T.B T.C" >> child_ended("T.A") << "await T.B T.C"
    play = play >> child_ended("T.B") << "await T.C" >> pause() >> child_ended("T.C")
    assert (play.task.agent.blocked_by, play.task.next_action) == (PauseReason.USER, NextAction.GATE)
    assert play >> resume() >> admitted << "look at PARTS"


def test_a_cancelled_parent_cancels_its_children_and_waits_for_their_end() -> None:
    play = divided() >> children_submitted << "await T.A T.B T.C" >> child_ended("T.A") << "await T.B T.C"
    play = play >> cancel << "cancel T.B T.C"
    assert play.task.status is TaskStatus.CANCELLED
    assert play.task.has_open_children
    play = play >> child_ended("T.B", "cancelled") << "cancel T.C" << "await T.C" >> child_ended("T.C", "cancelled")
    assert not play.task.has_open_children


def test_a_parent_that_is_cancelled_while_its_children_are_made_ends_those_that_were() -> None:
    play = divided() >> cancel << "cancel T.A T.B T.C" << "await T.A T.B T.C"
    assert summary_of(play.task).running
    play = play >> child_ended("T.A", "its task is gone") << "cancel T.B T.C" << "await T.B T.C"
    play = play >> child_ended("T.B", "its task is gone") << "cancel T.C" << "await T.C" >> child_ended("T.C", "gone")
    assert statuses(play.task) == "skipped skipped skipped"
    assert summary_of(play.task).ended


def test_a_plan_without_children_does_not_end_its_stage() -> None:
    begun = replace(a_task(), id="T", pipeline="parts")
    play = Playbook.submitted(begun, parts()) >> admitted << "prepare the workspace" >> ready << "start planner 1"
    play = play >> started << "follow agents/1" << "turn 1 of 1" << "wake in 3600 s" >> session >> finished()
    play = play << "look at DIVISION" >> looked(left(CHAIN[0])) << "turn 2 of 1" << "wake in 3600 s"
    assert play.task.feedback == ("children.json names 1 of at least 2 children",)


@pytest.mark.parametrize("squash", [True, False])
def test_a_child_says_whether_its_work_comes_home_as_one_commit(squash: bool) -> None:
    text = (FOLDER / "part.toml").read_text().replace("squash = true", f"squash = {str(squash).lower()}")
    pipeline = parse_pipeline(text, "part.toml")
    begun = replace(
        Playbook.submitted(a_task(), pipeline).task, status=TaskStatus.IN_PROGRESS, stage="HOME", parent="T"
    )
    (owed,) = obligations(pipeline, replace(begun, next_action=NextAction.DELIVERY))
    assert owed == JoinParent(parent="T", base=begun.source.base_commit, commit=begun.source.commit, squash=squash)


def let_run(task: Task, at: datetime) -> ResumeRequested:
    """A person lets the task run although its run windows are closed."""
    return ResumeRequested(at=at, by="ada", at_once=True)


def test_a_person_lets_a_family_run_outside_its_hours_also_the_children_to_come() -> None:
    play = divided() >> all_submitted << "await T.A T.B T.C"
    waiting, task = play.task, (play >> let_run).task
    assert (task.agent, task.next_action) == (waiting.agent, waiting.next_action), "it waits for its children"
    assert task.schedule.let_run_at == task.updated_at
    for parent in (task, waiting):
        made = task_of(parent, parts().stage("PARTS"), parent.children[0], parent.updated_at)
        assert made.schedule.let_run_at == parent.schedule.let_run_at
