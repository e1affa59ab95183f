"""How a finished change is published: proposed, reviewed in rounds, merged; or closed, refused, merged externally."""

from dataclasses import replace
from datetime import timedelta

import pytest

from orchestrator.core.decide import machine
from orchestrator.core.decide.obligations import obligations
from orchestrator.core.decide.prompt import turn_text
from orchestrator.core.decide.publishing import LOOK_AGAIN
from orchestrator.core.decide.transitions import allowed
from orchestrator.core.events.commands import OpenPullRequest
from orchestrator.core.events.forge import PullStatus
from orchestrator.core.task.agent import AgentStatus, PauseReason
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.progress import StageStatus
from orchestrator.core.task.publication import Publication, Reply
from orchestrator.core.task.task import NextAction, Task, TaskStatus
from orchestrator.core.task.task_policy import DEFAULT_POLICY, Autonomy
from orchestrator.core.task.user_requests import RequestStatus, Subject
from orchestrator.errors import InvalidTransition
from tests.fakes.tasks import bundled_pipeline
from tests.unit.playbook import (
    Happening,
    Playbook,
    a_task,
    admitted,
    alarm,
    answer,
    answered,
    archive,
    asking,
    at,
    cancel,
    daemon_started,
    delivered,
    failed,
    failing_again,
    full,
    held,
    later,
    looked,
    merged,
    pause,
    posted,
    prepared,
    proposed,
    question,
    refused,
    released,
    resume,
    retry,
    round_asked,
    seen,
    to_be_seen_in,
    told,
    with_budget,
)

APPROVED, CHANGES, WITHDRAWN = RequestStatus.APPROVED, RequestStatus.CHANGES_REQUESTED, RequestStatus.WITHDRAWN
MERGED, CLOSED = PullStatus.MERGED, PullStatus.CLOSED
FORGE = Publication(forge="https://forge.example/a/b.git")


def a_proposal(**terms: object) -> Task:
    """Return a task whose repository has a forge, polled every minute; reminders are off by default."""
    own = {"look_every": 60.0, "reminders": (), **terms}
    return replace(a_task(), publication=FORGE, policy=replace(DEFAULT_POLICY, **own))  # type: ignore[arg-type]  # any


def opened(**terms: object) -> Playbook:
    """Return the conversation of a pull request that waits for a user, who was notified."""
    play = Playbook(at("COMPLETION", NextAction.PUBLISH, a_proposal(**terms))) >> proposed
    return play << "wake in 60 s" << "tell review_asked" >> told


def opened_for_itself(**terms: object) -> Playbook:
    """Return the conversation of a pull request that merges automatically as soon as it may."""
    task = at("COMPLETION", NextAction.PUBLISH, a_proposal(auto_merge=True, **terms))
    return Playbook(task) >> proposed << "wake in 60 s"


def looking(play: Playbook) -> Playbook:
    """Return the same conversation at its next poll."""
    return play >> later(60) >> alarm << "look at pull request 7" << "wake in 60 s"


def again_proposed(play: Playbook) -> Playbook:
    """Return the same conversation after its current round succeeded and was pushed."""
    for _ in range(100):
        if play.task.next_action is NextAction.PUBLISH:
            after, _ = machine.decide(play.pipeline, play.task, proposed(play.task, play.now))
            return Playbook(after, play.pipeline)
        wanted: Happening = admitted if play.task.wants_slot else answer
        after, _ = machine.decide(play.pipeline, play.task, wanted(play.task, play.now))
        play = Playbook(after, play.pipeline)
    raise AssertionError("a round without trouble is never pushed")


# Proposals


def test_a_change_with_a_forge_is_delivered_and_proposed_and_waits_for_a_user() -> None:
    play = Playbook(at("COMPLETION", NextAction.DELIVERY, a_proposal())) >> delivered << "propose c2"
    play = play >> proposed << "wake in 60 s" << "tell review_asked"
    task = play.task
    assert (task.status, task.agent.status) == (TaskStatus.REVIEW, AgentStatus.WAITING_REVIEW)
    assert task.requests[0].draft.subject is Subject.MERGE
    assert task.requests[0].draft.text == (
        "pull request https://forge.example/pull/7 is open: merge it, or say what is to be changed"
    )
    assert allowed(task) == ("approve", "request-changes", "review", "pause", "cancel")
    assert not task.holds_slot


def test_a_text_with_masked_secrets_is_published_after_a_person_approved_it() -> None:
    attended = a_proposal(autonomy=Autonomy.INTERACTIVE)
    play = Playbook(at("COMPLETION", NextAction.PUBLISH, attended)) >> held() << "tell review_asked" >> told
    (request,) = play.task.requests
    assert (play.task.status, request.draft.subject) == (TaskStatus.REVIEW, Subject.PUBLISH)
    assert "review" not in allowed(play.task)
    play = play >> answered(1, APPROVED) >> admitted << "propose c2"
    (propose,) = (one for one in obligations(play.pipeline, play.task) if isinstance(one, OpenPullRequest))
    assert propose.confirmed == (request.digest,)


def test_instead_of_publishing_masked_secrets_a_person_may_have_their_source_changed() -> None:
    attended = a_proposal(autonomy=Autonomy.INTERACTIVE)
    play = Playbook(at("COMPLETION", NextAction.PUBLISH, attended)) >> held() << "tell review_asked" >> told
    play = play >> answered(1, CHANGES, "leave the address out") >> admitted << "start planner 3"
    assert (play.task.stage, play.task.publication.round) == ("ANALYSIS", 1)
    assert play.task.requested_changes == ("A person asks for changes: leave the address out",)


def test_a_report_that_may_not_be_posted_blocks_its_task_with_the_words_of_the_person() -> None:
    pipeline, attended = bundled_pipeline("review_only"), a_proposal(autonomy=Autonomy.INTERACTIVE)
    play = Playbook(at("COMPLETION", NextAction.PUBLISH, attended), pipeline) >> held() << "tell review_asked" >> told
    play = play >> answered(1, CHANGES, "not this one") << "tell blocked"
    assert "not this one; review_only has no way back" in (play.task.block_reason or "")
    play = play >> retry >> admitted << "post the report of COMPLETION"
    assert play.task.next_action is NextAction.PUBLISH


def test_a_change_without_a_forge_is_done_when_it_is_delivered() -> None:
    play = Playbook(at("COMPLETION", NextAction.DELIVERY)) >> delivered << "tell completed"
    assert play.task.status is TaskStatus.COMPLETED


def test_a_pull_request_that_is_not_polled_waits_for_a_user() -> None:
    play = Playbook(at("COMPLETION", NextAction.PUBLISH, a_proposal(look_every=0.0))) >> proposed
    play = play << "tell review_asked" >> told
    assert play.task.retry_at is None
    play = play >> round_asked << "look at pull request 7" >> seen(asked=True)
    assert play.task.retry_at is None


def test_late_publish_events_are_ignored() -> None:
    play = opened() >> answered(1, APPROVED) >> admitted << "merge 7" >> merged << "tell completed"
    done = play.task
    play = play >> seen() >> seen(CLOSED) >> seen(MERGED) >> seen(comments=("one",)) >> merged >> refused("a check")
    play = play >> proposed >> delivered >> prepared >> released >> posted()
    assert play.task is done


def test_a_poll_of_another_pull_request_is_ignored() -> None:
    play = opened()
    assert (play >> seen(CLOSED, number=6) >> seen(MERGED, number=8)).task is play.task


# Merges, automatic and manual


def test_a_users_approval_merges_it() -> None:
    play = opened() >> answered(1, APPROVED) >> admitted << "merge 7"
    assert (play.task.status, play.task.next_action, play.task.retry_at) == (
        TaskStatus.IN_PROGRESS,
        NextAction.MERGE,
        None,
    )
    task = (play >> later(5) >> merged << "tell completed").task
    assert (task.status, task.stages["COMPLETION"].status) == (TaskStatus.COMPLETED, StageStatus.COMPLETED)
    assert (task.publication.merged_at, task.publication.merge_commit) == (play.now, "m" * 40)


def test_a_refused_merge_is_retried_and_may_be_done_by_hand() -> None:
    play = opened() >> answered(1, APPROVED) >> admitted << "merge 7"
    play = play >> refused("it has 0 of 1 approvals") << "wake in 60 s" << "tell review_asked" >> told
    assert play.task.publication.hindrances == ("it has 0 of 1 approvals",)
    assert [ask.status for ask in play.task.requests] == [APPROVED, RequestStatus.PENDING]
    task = (looking(play) >> seen(MERGED) << "tell completed").task
    assert [ask.status for ask in task.requests] == [APPROVED, WITHDRAWN]
    assert (task.status, task.publication.merge_commit, task.publication.hindrances) == (
        TaskStatus.COMPLETED, "m" * 40, ()
    )  # fmt: skip


def test_it_merges_automatically_when_nothing_blocks_it_and_not_before() -> None:
    play = opened_for_itself()
    assert (play.task.agent.status, play.task.requests) == (AgentStatus.WAITING_REVIEW, ())
    play = looking(play) >> seen(hindrances=("checks have not finished: ci",))
    play = looking(play) >> seen() >> admitted << "merge 7" >> refused("a rule blocks it") << "wake in 60 s"
    assert play.task.publication.hindrances == ("a rule blocks it",)
    assert looking(play) >> seen() >> admitted << "merge 7" >> merged << "tell completed"


def test_a_change_that_was_just_pushed_is_polled_before_it_is_merged() -> None:
    assert opened_for_itself().task.publication.hindrances == ("it was just pushed",)


@pytest.mark.parametrize("play", [opened(), opened_for_itself()], ids=["asked", "auto"])
def test_a_closed_pull_request_halts_its_task_and_retry_proposes_it_again(play: Playbook) -> None:
    play = looking(play) >> seen(CLOSED) << "tell blocked"
    assert play.task.status is TaskStatus.BLOCKED
    assert "https://forge.example/pull/7 was closed without a merge" in (play.task.block_reason or "")
    assert not play.task.pending_requests
    reopened = play >> seen() >> seen(MERGED)
    assert reopened.task.status is TaskStatus.BLOCKED
    play = reopened >> retry >> admitted << "deliver c2" >> delivered << "propose c2"
    after, _ = machine.decide(play.pipeline, play.task, proposed(play.task, play.now))
    assert after.waits_for_merge


# Rounds of review


def test_comments_are_handled_when_a_user_requests_it() -> None:
    play = looking(opened()) >> seen(comments=("one",))
    assert play.task.publication.seen == ()
    play = play >> round_asked << "look at pull request 7" >> seen(comments=("one",), asked=True)
    assert play.task.requests[0].status is WITHDRAWN
    play = play >> admitted << "start planner 3"
    task = play.task
    assert (task.stage, task.publication.round, task.publication.asked_for_round) == ("ANALYSIS", 1, False)
    assert task.publication.seen == ("one",)
    assert task.publication.replies == (Reply(comment_id="id of one", mark="one"),)
    assert task.budgets["review_rounds"].used == 1
    text = turn_text(
        play.pipeline,
        replace(task, next_action=NextAction.TURN, agent=replace(task.agent, turn=replace(task.agent.turn, number=1))),
    )
    assert "mode: review_cycle\n\nwhy: The change is proposed, and reviewers ask for changes." in text
    assert "What you have to change now:\n- Reviewers ask for changes: read review-feedback-1.md" in text


def test_a_policy_that_follows_reviews_needs_no_user() -> None:
    play = looking(opened_for_itself(follow_reviews=True)) >> seen(comments=("one", "two"))
    assert play >> admitted << "start planner 3"
    assert [reply.mark for reply in play.task.publication.replies] == ["one", "two"]


def test_a_round_is_pushed_and_answered_once_and_waits_for_its_merge_again() -> None:
    first = looking(opened(follow_reviews=True)) >> seen(comments=("one",)) >> admitted << "start planner 3"
    play = first
    while play.task.next_action is not NextAction.PUBLISH:
        after, _ = machine.decide(play.pipeline, play.task, answer(play.task, play.now))
        play = Playbook(after)
    (command,) = obligations(play.pipeline, play.task)
    assert isinstance(command, OpenPullRequest)
    assert (command.round, [reply.mark for reply in command.replies]) == (1, ["one"])
    task = again_proposed(first).task
    assert task.waits_for_merge
    assert task.publication.replies == ()
    assert task.publication.seen == ("one",)
    assert [ask.status for ask in task.requests] == [WITHDRAWN, RequestStatus.PENDING]
    assert task.requests[0].digest != task.requests[1].digest


def test_what_happens_externally_during_a_round_is_seen_at_the_next_poll() -> None:
    play = looking(opened(follow_reviews=True)) >> seen(comments=("one",)) >> admitted << "start planner 3"
    assert (play >> seen(comments=("two",)) >> seen(CLOSED) >> seen(MERGED)).task is play.task
    with pytest.raises(InvalidTransition) as refused:
        machine.decide(play.pipeline, play.task, round_asked(play.task, play.now))
    assert refused.value.request == "review"
    play = looking(again_proposed(play)) >> seen(comments=("two",)) >> admitted << "start planner 5"
    assert play.task.publication.round == 2


def test_changes_requested_by_a_user_are_a_round_as_well() -> None:
    play = opened() >> answered(1, CHANGES, "smaller") >> admitted << "start planner 3"
    assert (play.task.publication.round, play.task.requested_changes) == (1, ("A person asks for changes: smaller",))
    assert play.task.publication.replies == ()


def test_rounds_end_with_their_budget_and_unhandled_comments_are_reported_again() -> None:
    spent = with_budget(opened(follow_reviews=True).task, "review_rounds", 10)
    play = looking(Playbook(spent)) >> seen(comments=("one",)) << "tell blocked"
    assert play.task.block_reason == "COMPLETION: changes were requested as often as the pipeline allows"
    assert (play.task.publication.seen, play.task.publication.replies, play.task.publication.round) == ((), (), 0)
    play = play >> retry >> admitted << "deliver c2" >> delivered << "propose c2" >> proposed << "wake in 60 s"
    play = looking(play << "tell review_asked" >> told) >> seen(comments=("one",)) >> admitted << "start planner 3"
    assert play.task.budgets["review_rounds"].used == 1


@pytest.mark.parametrize("by", ["a reviewer", "a person"])
def test_a_round_has_its_own_evaluations_however_many_failed_before_it(by: str) -> None:
    tried = with_budget(with_budget(opened(follow_reviews=True).task, "eval_cycles", 2), "design_revisions", 3)
    play = Playbook(with_budget(tried, "escalations", 1))
    sent_back = (
        looking(play) >> seen(comments=("ci failed",))
        if by == "a reviewer"
        else play >> answered(1, CHANGES, "smaller")
    )
    counted = {name: budget.used for name, budget in sent_back.task.budgets.items() if budget.used}
    assert counted == {"review_rounds": 1}
    assert (tried.cycle, sent_back.task.cycle) == (3, 1)


def test_the_third_failed_evaluation_of_a_round_halts_the_task() -> None:
    play = looking(Playbook(with_budget(opened(follow_reviews=True).task, "eval_cycles", 2))) >> seen(comments=("one",))
    for cycle in (1, 2, 3):
        play = failing_again(play.task)
        after, _ = machine.decide(play.pipeline, play.task, looked()(play.task, play.now))
        play = Playbook(after)
        assert play.task.budgets["eval_cycles"].used == cycle
    assert (play.task.status, play.task.block_reason) == (
        TaskStatus.BLOCKED, "EVALUATION failed, and no try is left: unit_test: FAIL (exit code)"
    )  # fmt: skip


def test_changes_requested_by_a_user_use_the_same_budget() -> None:
    play = Playbook(with_budget(opened().task, "review_rounds", 10)) >> answered(1, CHANGES, "more") << "tell blocked"
    assert play.task.status is TaskStatus.BLOCKED


def test_a_pipeline_without_comment_rounds_halts_when_comments_are_to_be_handled() -> None:
    last = replace(full().stage("COMPLETION"), on_fail=None, budget=None)
    plain = replace(full(), stages={**full().stages, "COMPLETION": last})
    task = at("COMPLETION", NextAction.PUBLISH, a_proposal(), plain)
    play = Playbook(task, plain) >> proposed << "wake in 60 s" << "tell review_asked" >> told
    assert (play >> answered(1, CHANGES, "more") << "tell blocked").task.status is TaskStatus.BLOCKED


def test_every_handled_comment_stays_recorded_with_its_latest_version() -> None:
    said = tuple(f"thread:{number}@aa" for number in range(2500))
    play = looking(opened(follow_reviews=True)) >> seen(comments=said)
    play = looking(again_proposed(play)) >> seen(comments=("thread:0@bb",))
    assert play.task.publication.seen == ("thread:0@bb", *said[1:])


def test_a_poll_time_set_by_the_forge_is_followed_exactly() -> None:
    play = looking(opened()) >> to_be_seen_in(1800, "it could not be looked at") << "wake in 1800 s"
    play = (
        play
        >> later(1800)
        >> alarm
        << "look at pull request 7"
        << "wake in 60 s"
        >> to_be_seen_in(10)
        << "wake in 10 s"
    )
    assert play >> later(10) >> alarm << "look at pull request 7" << "wake in 60 s" >> seen()


def test_earlier_reviewers_are_kept_when_the_last_poll_failed() -> None:
    play = looking(looking(opened()) >> seen())
    play = play >> to_be_seen_in(90, "it could not be looked at") << "wake in 90 s"
    assert play.task.publication.reviewers == ("grace",)


def refused_again(play: Playbook) -> Playbook:
    """Return the same conversation after a poll that shows no blocker and a merge that the forge then refuses."""
    return looking(play) >> seen() >> admitted << "merge 7" >> refused("use the merge queue") << "wake in 60 s"


def test_repeated_refusals_without_a_visible_blocker_go_to_a_user() -> None:
    play = refused_again(refused_again(refused_again(opened_for_itself()))) << "tell review_asked" >> told
    (ask,) = play.task.pending_requests
    assert (ask.draft.subject, play.task.publication.hindrances) == (Subject.MERGE, ("use the merge queue",))
    play = looking(play) >> seen()
    assert (play.task.status, play.task.next_action) == (TaskStatus.REVIEW, NextAction.NOTHING)
    assert play >> answered(1, APPROVED) >> admitted << "merge 7" >> merged << "tell completed"


def test_a_refusal_whose_reason_a_later_poll_shows_does_not_count() -> None:
    play = refused_again(refused_again(opened_for_itself()))
    play = looking(play) >> seen(hindrances=("checks have not finished: ci",))
    play = refused_again(refused_again(play))
    assert play.task.pending_requests == ()
    play = refused_again(play) << "tell review_asked" >> told
    play = looking(looking(play) >> seen(hindrances=("it conflicts with main",))) >> seen()
    assert play.task.requests[0].status is WITHDRAWN
    assert play >> admitted << "merge 7"


def test_a_failed_poll_that_a_user_requested_is_repeated() -> None:
    play = Playbook(at("COMPLETION", NextAction.PUBLISH, a_proposal(look_every=0.0))) >> proposed
    play = play << "tell review_asked" >> told >> round_asked << "look at pull request 7"
    play = play >> seen(hindrances=("the pull request could not be looked at",)) << f"wake in {LOOK_AGAIN:.0f} s"
    assert (
        play
        >> later(LOOK_AGAIN)
        >> alarm
        << "look at pull request 7"
        << f"wake in {LOOK_AGAIN:.0f} s"
        >> seen(comments=("one",), asked=True)
    )
    assert play.task.stage == "ANALYSIS"


# A later round with a review of its own


def reviewed(stage: str) -> Pipeline:
    """Return the bundled pipeline with a user review of one stage."""
    return replace(full(), stages={**full().stages, stage: replace(full().stage(stage), review=True)})


def in_a_second_plan() -> Playbook:
    """Return the conversation of a plan of the second round that waits for a user while the pull request is open."""
    pipeline = reviewed("PLANNING")
    begun = a_proposal(follow_reviews=True, auto_merge=True)
    task = at("COMPLETION", NextAction.PUBLISH, begun, pipeline)
    play = looking(Playbook(task, pipeline) >> proposed << "wake in 60 s") >> seen(comments=("one",))
    attended = replace(play.task.policy, autonomy=Autonomy.INTERACTIVE)
    task = replace(play.task, policy=attended)
    while task.status is not TaskStatus.REVIEW:
        event = (admitted if task.wants_slot else answer)(task, task.updated_at)
        task, _ = machine.decide(pipeline, task, event)
    return Playbook(task, pipeline)


def test_a_plan_under_review_in_a_later_round_is_not_a_pull_request_under_review() -> None:
    play = in_a_second_plan()
    task = play.task
    assert (task.stage, task.publication.number, task.waits_for_merge) == ("PLANNING", 7, False)
    assert "review" not in allowed(task)
    assert (play >> seen() >> seen(MERGED) >> seen(comments=("two",))).task is task
    assert not [one for one in obligations(play.pipeline, task) if "PullRequest" in type(one).__name__]
    assert (play >> answered(2, APPROVED)).task.stage == "DESIGN"


# Pauses and ends


@pytest.mark.parametrize("after", [proposed, merged, refused("a check"), seen(), seen(MERGED)])
def test_a_cancelled_task_stays_cancelled_whatever_happens_to_its_change(after: Happening) -> None:
    for play in (
        Playbook(at("COMPLETION", NextAction.PUBLISH, a_proposal())),
        opened(),
        opened() >> answered(1, APPROVED) >> admitted << "merge 7",
    ):
        cancelled = (play >> cancel).task
        assert (cancelled.status, obligations(full(), cancelled)) == (TaskStatus.CANCELLED, ())
        assert (play >> after).task is cancelled


def test_a_manual_merge_does_not_answer_other_open_requests() -> None:
    play = Playbook(at("COMPLETION", NextAction.PUBLISH, a_proposal(autonomy=Autonomy.INTERACTIVE)))
    play = play >> asking(question()) << "tell question_asked" >> told >> proposed << "wake in 60 s"
    play = looking(play << "tell review_asked" >> told) >> seen(MERGED) << "tell completed"
    assert [ask.status for ask in play.task.requests] == [RequestStatus.PENDING, WITHDRAWN]


def test_a_pause_during_the_proposal_lets_it_finish_and_keeps_it_waiting() -> None:
    play = Playbook(at("COMPLETION", NextAction.PUBLISH, a_proposal())) >> pause() >> proposed
    play = play << "wake in 60 s" << "tell review_asked" >> told
    assert (play.task.status, play.task.agent.blocked_by) == (TaskStatus.REVIEW, PauseReason.USER)
    play = play >> resume()
    assert (play.task.agent.status, play.task.waits_for_merge) == (AgentStatus.WAITING_REVIEW, True)
    assert looking(play) >> seen(MERGED) << "tell completed"


def test_a_paused_pull_request_is_polled_but_neither_merged_nor_changed_before_the_pause_ends() -> None:
    play = looking(opened_for_itself() >> pause()) >> seen()
    assert (play.task.next_action, play.task.agent.blocked_by) == (NextAction.MERGE, PauseReason.USER)
    assert play >> resume() >> admitted << "merge 7"
    play = looking(opened(follow_reviews=True) >> pause()) >> seen(comments=("one",))
    assert (play.task.stage, play.task.agent.blocked_by) == ("ANALYSIS", PauseReason.USER)
    assert play >> resume() >> admitted << "start planner 3"


def test_an_approval_given_during_a_pause_counts_after_the_pause() -> None:
    play = opened() >> pause() >> answered(1, APPROVED)
    assert (play.task.status, play.task.next_action) == (TaskStatus.IN_PROGRESS, NextAction.MERGE)
    assert play >> resume() >> admitted << "merge 7"


def test_a_merge_that_happened_as_a_user_paused_ends_the_task() -> None:
    play = opened() >> answered(1, APPROVED) >> admitted << "merge 7" >> pause() >> merged << "tell completed"
    assert play.task.status is TaskStatus.COMPLETED


@pytest.mark.parametrize(
    ("play", "command"),
    [
        (Playbook(at("COMPLETION", NextAction.DELIVERY, a_proposal())), "deliver c2"),
        (Playbook(at("COMPLETION", NextAction.PUBLISH, a_proposal())), "propose c2"),
        (looking(opened_for_itself()) >> seen() >> admitted << "merge 7", "merge 7"),
    ],
    ids=["delivery", "proposal", "merge"],
)
def test_a_restart_repeats_the_publishing_command_in_flight(play: Playbook, command: str) -> None:
    assert play >> daemon_started << command


def test_a_restart_repeats_the_look_in_flight() -> None:
    assert looking(opened_for_itself()) >> daemon_started << "look at pull request 7" << "wake in 60 s"


def test_a_look_without_news_is_one_event_and_the_next_one_comes_by_itself() -> None:
    play = looking(looking(opened()) >> seen(hindrances=("it has 0 of 1 approvals",)))
    before = play.task
    play = play >> seen(hindrances=("it has 0 of 1 approvals",))
    assert play.task is before
    play = looking(play) >> seen(hindrances=("it has 0 of 1 approvals",))
    assert play.task.seq == before.seq + 1
    assert (looking(play) >> seen(hindrances=("it conflicts with main",))).task.seq == before.seq + 3


def test_a_problem_that_a_user_has_to_fix_externally_halts_the_task_and_retry_continues() -> None:
    play = looking(opened_for_itself()) >> seen() >> admitted << "merge 7"
    (command,) = obligations(play.pipeline, play.task)
    play = play >> failed(command, "a text holds a secret") << "tell blocked"
    assert (play.task.status, play.task.block_reason) == (TaskStatus.BLOCKED, "a text holds a secret")
    assert play >> retry >> admitted << "deliver c2" >> delivered << "propose c2"


def test_an_ended_task_is_archived_and_an_active_one_is_not() -> None:
    play = looking(opened()) >> seen(MERGED) << "tell completed" >> archive
    assert (play.task.status, allowed(play.task)) == (TaskStatus.ARCHIVED, ("delete",))
    for task in (play.task, opened().task):
        with pytest.raises(InvalidTransition) as refused:
            machine.decide(full(), task, archive(task, task.updated_at))
        assert refused.value.request == "archive"


# Reports and releases


def of(pipeline: str, owed: NextAction, **terms: object) -> Playbook:
    """Return a task of another bundled pipeline at its last stage."""
    begun = replace(a_proposal(**terms), pipeline=pipeline)
    return Playbook(at("COMPLETION", owed, begun, bundled_pipeline(pipeline)), bundled_pipeline(pipeline))


@pytest.mark.parametrize("failure", ["", "the tracker cannot be reached"])
def test_a_report_is_posted_to_the_ticket_and_the_task_completes_even_if_that_fails(failure: str) -> None:
    task = (of("review_only", NextAction.PUBLISH) >> posted(failure) << "tell completed").task
    assert task.status is TaskStatus.COMPLETED
    assert task.publication.report_url == (None if failure else "https://tickets.example/1")
    assert task.publication.hindrances == ((failure,) if failure else ())
    assert task.stages["PLANNING"].artifacts == ("review-report.md",)


def test_a_release_is_tagged_when_a_user_has_confirmed_its_changelog() -> None:
    play = of("release", NextAction.PUBLISH) >> prepared << "tell review_asked" >> told
    (ask,) = play.task.requests
    assert (ask.draft.subject, ask.draft.name) == (Subject.RELEASE, "1.2.3")
    assert (ask.draft.text, play.task.source.head) == (
        "release 1.2.3: the changelog is commit a1a1a1a1a1a1; set and push the tag?", "a1" * 20
    )  # fmt: skip
    assert allowed(play.task) == ("approve", "request-changes", "pause", "cancel")
    play = play >> answered(1, APPROVED) >> admitted << "tag 1.2.3"
    assert (play >> released << "tell completed").task.publication.tag == "v1.2.3"


def test_a_release_that_needs_no_confirmation_is_tagged_at_once() -> None:
    assert of("release", NextAction.PUBLISH, auto_merge=True) >> prepared << "tag 1.2.3" >> released << "tell completed"


def test_a_release_is_prepared_again_after_a_restart_and_tagged_once_confirmed() -> None:
    play = of("release", NextAction.PUBLISH) >> daemon_started << "prepare the release" >> prepared
    play = play << "tell review_asked" >> told >> daemon_started
    play = play >> answered(1, APPROVED) >> admitted << "tag 1.2.3" >> daemon_started << "tag 1.2.3"
    assert play >> released << "tell completed" >> released


def test_changes_to_a_release_lead_back_to_its_summary_from_the_commit_before_the_changelog() -> None:
    before = of("release", NextAction.PUBLISH)
    commit = before.task.source.commit
    play = before >> prepared << "tell review_asked" >> told >> answered(1, CHANGES, "name the fix")
    task = (play >> admitted << "resume release-manager 2").task
    assert (task.stage, task.source.head, task.budgets["review_rounds"].used) == ("ANALYSIS", commit, 1)
    assert task.requested_changes == ("A person asks for changes: name the fix",)


def test_a_cancelled_release_sets_no_tag() -> None:
    play = of("release", NextAction.PUBLISH) >> prepared << "tell review_asked" >> told >> cancel
    assert (play >> prepared >> released).task.publication.tag is None


def test_a_reminder_of_a_pull_request_comes_between_two_polls() -> None:
    task = at("COMPLETION", NextAction.PUBLISH, a_proposal(look_every=3600.0, reminders=(1800.0,)))
    play = Playbook(task) >> proposed << "wake in 1800 s" << "tell review_asked" >> told
    play = play >> later(1800) >> alarm << "wake in 1800 s" << "tell reminder"
    assert play.task.retry_at == play.now + timedelta(seconds=1800)
