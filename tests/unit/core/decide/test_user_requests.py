"""Questions and permissions: asked, answered once, delivered in the next turn or to the waiting process."""

from dataclasses import replace
from datetime import timedelta

import pytest

from orchestrator.core.decide import machine
from orchestrator.core.decide.obligations import obligations
from orchestrator.core.decide.pausing import DENY
from orchestrator.core.decide.prompt import turn_text
from orchestrator.core.decide.transitions import allowed
from orchestrator.core.decide.turns import MOST_REQUESTS
from orchestrator.core.events import events
from orchestrator.core.events.agent_messages import AgentError, Recovery
from orchestrator.core.task.agent import AgentStatus, PauseReason, ProcessState
from orchestrator.core.task.task import NextAction, Task, TaskStatus
from orchestrator.core.task.user_requests import (
    DECIDE_YOURSELF,
    LONGEST_ANSWER,
    POLICY,
    Answer,
    BadAnswer,
    RequestStatus,
    Subject,
)
from orchestrator.errors import AnswerRefused, InvalidTransition
from tests.unit.playbook import (
    Happening,
    Playbook,
    admitted,
    alarm,
    answer_sent,
    answered,
    asking,
    at,
    at_work,
    cancel,
    daemon_started,
    exited,
    finished,
    frozen,
    full,
    interactive,
    later,
    limit_hit,
    looked,
    pause,
    permission,
    question,
    resume,
    session,
    started,
    thawed,
    told,
    withdrawn,
)

ANSWERED, SKIPPED = RequestStatus.ANSWERED, RequestStatus.SKIPPED
FROZEN = ("freeze agents/1", "wake in 1800 s", "tell question_asked")
FREE = question("What is it for?", options=(), required=False)


def waiting() -> Playbook:
    """Return a paused task whose agent asked something in its text in the middle of its turn."""
    play = Playbook(interactive()) >> asking(question())
    return play << FROZEN[0] << FROZEN[1] << FROZEN[2] >> told >> frozen


def waiting_by_request() -> Playbook:
    """Return a task whose agent process waits for permission to use a tool."""
    play = Playbook(interactive()) >> asking(permission())
    return play << FROZEN[0] << FROZEN[1] << FROZEN[2] >> told >> frozen


def refused(play: Playbook, happening: Happening) -> str:
    """Return the message of a refusal that changed nothing."""
    task = play.task
    with pytest.raises((AnswerRefused, InvalidTransition)) as caught:
        machine.decide(full(), task, happening(task, play.now))
    return str(caught.value)


def statuses(task: Task) -> list[RequestStatus]:
    return [ask.status for ask in task.requests]


# In the agent's text


def test_a_question_pauses_the_task_at_once_and_its_answer_is_in_the_next_turn() -> None:
    play = waiting()
    assert (play.task.agent.status, play.task.agent.blocked_by) == (AgentStatus.WAITING_QUESTION, PauseReason.QUESTION)
    assert "answer" in allowed(play.task)
    play = play >> answered(1, ANSWERED, "left")
    assert play.task.wants_slot
    play = play >> admitted << "thaw agents/1" >> thawed << "turn 1 of 1" << "wake in 3600 s"
    assert "Answers" not in turn_text(full(), play.task), "the running turn reports the same"
    play = play >> finished() << "turn 2 of 1"
    assert "- Which one? — left" in turn_text(full(), play.task)
    assert "why: What you asked for was answered." in turn_text(full(), play.task)
    play = play >> finished() << "look at ANALYSIS"
    (ask,) = play.task.requests
    assert (ask.is_delivered, ask.status, ask.answer, ask.answered_by) == (True, ANSWERED, "left", "ada")


def test_a_turn_that_ends_with_an_open_question_is_followed_by_one_with_the_answer() -> None:
    play = Playbook(interactive()) >> asking(question()) << FROZEN[0] << FROZEN[1] << FROZEN[2] >> finished() >> frozen
    assert (play.task.next_action, play.task.agent.turn.number) == (NextAction.TURN, 2)
    play = play >> answered(1, ANSWERED, "right") >> admitted << "thaw agents/1" >> thawed << "turn 2 of 1"
    play = play << "wake in 3600 s"
    assert "- Which one? — right" in turn_text(full(), play.task)


def test_an_answer_that_comes_before_the_freeze_needs_no_other_process() -> None:
    play = Playbook(interactive()) >> asking(question()) << FROZEN[0] << FROZEN[1] << FROZEN[2]
    play = play >> answered(1, ANSWERED, "left") >> admitted << "turn 1 of 1" << "wake in 3600 s"
    assert play >> frozen << "thaw agents/1"


def test_two_questions_both_have_to_be_answered_and_the_first_is_named_first() -> None:
    play = Playbook(interactive()) >> asking(question(), question("And then?"))
    play = play << FROZEN[0] << FROZEN[1] << FROZEN[2] << FROZEN[2] >> frozen
    play = play >> answered(2, ANSWERED, "left")
    assert play.task.agent.status is AgentStatus.WAITING_QUESTION
    assert (play >> answered(1, ANSWERED, "right")).task.wants_slot


def test_the_first_answer_counts() -> None:
    play = waiting() >> answered(1, ANSWERED, "left")
    words = refused(play, answered(1, ANSWERED, "right"))
    assert words == "it was answered before, by ada with 'left'; the first answer counts"


@pytest.mark.parametrize(
    ("happening", "words"),
    [
        (answered(9, ANSWERED, "left"), "asked nothing under the number 9"),
        (answered(1, ANSWERED, ""), "the answer is empty"),
        (answered(1, ANSWERED, "up"), "'up' is none of the options; the options are: left, right"),
        (answered(1, ANSWERED, "lefty"), "did you mean 'left'?"),
        (answered(1, ANSWERED, "LEFT"), "not in the spelling of the options"),
        (answered(1, ANSWERED, "x" * (LONGEST_ANSWER + 1)), "20000 are allowed"),
        (answered(1, ANSWERED, "left", digest="0" * 64), "is not what was seen"),
        (answered(1, SKIPPED), "has to be answered; it cannot be skipped"),
        (answered(1, RequestStatus.APPROVED), "this is a question; answer it"),
        (answered(1, RequestStatus.PROVIDED), "this is a question; answer it"),
        (answered(1, RequestStatus.WITHDRAWN), "this is a question; answer it"),
    ],
)
def test_an_answer_that_does_not_fit_is_refused_with_a_reason_and_changes_nothing(
    happening: Happening, words: str
) -> None:
    play = waiting()
    assert words in refused(play, happening)
    assert play.task.pending_requests


def test_an_answer_to_what_was_shown_is_accepted() -> None:
    play = waiting()
    assert (play >> answered(1, ANSWERED, "left", digest=play.task.requests[0].digest)).task.wants_slot


def test_an_optional_question_may_be_skipped_and_its_agent_decides() -> None:
    play = Playbook(interactive()) >> asking(FREE) << FROZEN[0] << FROZEN[1] << FROZEN[2] >> finished() >> frozen
    play = play >> answered(1, SKIPPED) >> admitted << "thaw agents/1" >> thawed << "turn 2 of 1" << "wake in 3600 s"
    assert "— no answer; decide yourself" in turn_text(full(), play.task)


@pytest.mark.parametrize(("default", "taken"), [("left", "left"), (None, DECIDE_YOURSELF)])
def test_an_optional_question_takes_its_default_when_its_time_is_over(default: str | None, taken: str) -> None:
    task = interactive(question_timeout=60.0)
    play = Playbook(task) >> asking(question(required=False, default=default))
    play = play << FROZEN[0] << "wake in 60 s" << FROZEN[2] >> frozen >> later(59) >> alarm
    assert play.task.pending_requests
    play = play >> later(1) >> alarm << "wake in 1740 s"
    (ask,) = play.task.requests
    assert (ask.answer, ask.answered_by, play.task.wants_slot) == (taken, POLICY, True)


def test_a_required_question_waits_forever_with_reminders() -> None:
    play = waiting()
    assert play.task.requests[0].deadline is None
    play = play >> later(1800) >> alarm << "stop agents/1" << "wake in 84600 s" << "tell reminder" >> told
    play = play >> exited >> later(9 * 86_400) >> alarm << "tell reminder"
    assert play.task.requests[0].reminded == 5, "missed reminders are combined into one"
    assert play.task.pending_requests
    assert not [one for one in obligations(full(), play.task) if "Wake" in type(one).__name__]


def test_a_question_repeated_in_the_same_stage_gets_the_recorded_answer() -> None:
    play = waiting() >> answered(1, ANSWERED, "left") >> admitted << "thaw agents/1" >> thawed
    play = play << "turn 1 of 1" << "wake in 3600 s" >> finished() << "turn 2 of 1"
    play = play >> asking(question()) >> finished() << "turn 3 of 1"
    assert [(ask.answer, ask.answered_by) for ask in play.task.requests] == [("left", "ada")] * 2


def test_a_different_question_in_the_same_words_is_asked() -> None:
    play = waiting() >> answered(1, ANSWERED, "left") >> admitted << "thaw agents/1" >> thawed
    play = play << "turn 1 of 1" << "wake in 3600 s"
    play = play >> asking(question(options=("left", "up"))) << "freeze agents/1" << "wake in 1800 s"
    assert len((play << FROZEN[2]).task.pending_requests) == 1


def test_an_agent_that_asks_endlessly_blocks_the_task() -> None:
    play = Playbook(at_work())
    for number in range(MOST_REQUESTS):
        play = play >> asking(question(f"Which one of {number}?", options=()))
    play = play >> asking(question("One more?"), question("And one?")) << "interrupt agents/1" << "tell blocked"
    assert (play.task.status, len(play.task.requests)) == (TaskStatus.BLOCKED, MOST_REQUESTS)


# Unattended tasks


@pytest.mark.parametrize(
    ("asked", "status", "answer"),
    [
        (question(default="right"), ANSWERED, "right"),
        (question(), ANSWERED, DECIDE_YOURSELF),
        (replace(permission(), request_id=None), ANSWERED, DENY),
        (replace(permission(), subject=Subject.PLAN, request_id=None, options=()), RequestStatus.APPROVED, ""),
    ],
)
def test_an_unattended_task_answers_by_its_policy_and_continues(
    asked: object, status: RequestStatus, answer: str
) -> None:
    play = Playbook(at_work()) >> asking(asked)  # type: ignore[arg-type]  # a parameter
    (ask,) = play.task.requests
    assert (ask.status, ask.answer, ask.answered_by, ask.deadline) == (status, answer, POLICY, None)
    assert play >> finished() << "turn 2 of 1"


def test_a_request_that_a_role_answers_is_not_asked() -> None:
    said = Answer(status=ANSWERED, text="allow", by="role planner")
    play = Playbook(interactive()) >> asking(permission(), answers=(said,)) << "answer r1 of 1"
    assert (play.task.requests[0].answered_by, play.task.is_paused) == ("role planner", False)


# By a request of the CLI


def test_a_request_is_answered_while_its_process_lives() -> None:
    play = waiting_by_request() >> answered(1, ANSWERED, "allow") >> admitted << "thaw agents/1" >> thawed
    play = play << "turn 1 of 1" << "answer r1 of 1" << "wake in 3600 s" >> answer_sent()
    assert play.task.requests[0].is_delivered
    assert play >> finished() << "look at ANALYSIS"


def test_an_answer_its_process_waited_for_counts_as_delivered_when_the_turn_succeeds() -> None:
    play = waiting_by_request() >> answered(1, ANSWERED, "allow") >> admitted << "thaw agents/1" >> thawed
    play = play << "turn 1 of 1" << "answer r1 of 1" << "wake in 3600 s"
    assert play >> finished() << "look at ANALYSIS" >> answer_sent()


def test_a_restart_repeats_the_answer_and_after_a_lost_process_it_is_in_the_next_turn() -> None:
    play = waiting_by_request() >> answered(1, ANSWERED, "deny") >> admitted << "thaw agents/1" >> thawed
    play = play << "turn 1 of 1" << "answer r1 of 1" << "wake in 3600 s"
    play = play >> daemon_started << "follow agents/1" << "turn 1 of 1" << "answer r1 of 1" << "wake in 3600 s"
    play = play >> exited << "wake in 10 s" >> later(10) >> alarm << "resume planner 2"
    play = play >> started << "follow agents/2" << "turn 1 of 2" << "wake in 3600 s"
    assert "- Bash: command: rm -r build — deny" in turn_text(full(), play.task)
    assert play >> answer_sent() >> finished() << "look at ANALYSIS"
    assert play.task.requests[0].is_delivered


def test_an_answer_confirmed_only_after_its_process_ended_is_given_to_the_next_one() -> None:
    play = waiting_by_request() >> answered(1, ANSWERED, "allow") >> admitted << "thaw agents/1" >> thawed
    play = play << "turn 1 of 1" << "answer r1 of 1" << "wake in 3600 s" >> exited << "wake in 10 s" >> answer_sent()
    play = play >> later(10) >> alarm << "resume planner 2" >> started << "follow agents/2" << "turn 1 of 2"
    play = play << "wake in 3600 s"
    assert "- Bash: command: rm -r build — allow" in turn_text(full(), play.task)


def test_several_questions_of_one_request_are_answered_together() -> None:
    two = (question(request_id="r1"), question("And then?", request_id="r1"))
    play = Playbook(interactive()) >> asking(*two) << FROZEN[0] << FROZEN[1] << FROZEN[2] << FROZEN[2] >> frozen
    play = play >> answered(1, ANSWERED, "left") >> answered(2, ANSWERED, "right") >> admitted << "thaw agents/1"
    assert play >> thawed << "turn 1 of 1" << "answer r1 of 1" << "wake in 3600 s"


def test_a_withdrawn_request_is_no_longer_open_and_never_answered() -> None:
    two = (question(request_id="r1"), question("And then?", request_id="r1"))
    play = Playbook(interactive()) >> asking(*two) << FROZEN[0] << FROZEN[1] << FROZEN[2] << FROZEN[2]
    play = play >> answered(1, ANSWERED, "left") >> withdrawn()
    assert statuses(play.task) == [ANSWERED, RequestStatus.WITHDRAWN]
    play = play >> admitted << "turn 1 of 1" << "wake in 3600 s"
    assert "it was withdrawn before, by planner" in refused(play, answered(2, ANSWERED, "left"))


@pytest.mark.parametrize("happening", [withdrawn("r9"), answer_sent("r9")])
def test_events_of_another_request_change_nothing(happening: Happening) -> None:
    task = waiting_by_request().task
    assert machine.decide(full(), task, happening(task, task.updated_at))[0] is task


def test_events_of_an_earlier_attempt_change_nothing() -> None:
    play = Playbook(interactive()) >> exited << "wake in 10 s" >> later(10) >> alarm << "resume planner 2"
    task = play.task
    for event in (
        events.AgentSaid(at=play.now, attempt=1, offset=10**9, asking=(question(),)),
        events.AnswerSent(at=play.now, attempt=1, request_id="r1"),
        events.RequestWithdrawn(at=play.now, attempt=1, request_id="r1"),
        events.StallSeen(at=play.now, attempt=1, turn=1, evidence="nothing"),
    ):
        assert machine.decide(full(), task, event)[0] is task


def test_a_line_that_is_read_twice_asks_once() -> None:
    play = waiting()
    again = events.AgentSaid(at=play.now, attempt=1, offset=play.task.agent.read_offset, asking=(question(),))
    assert machine.decide(full(), play.task, again)[0] is play.task


def test_a_permission_not_given_in_time_is_denied() -> None:
    play = Playbook(interactive(question_timeout=60.0)) >> asking(permission())
    play = play << FROZEN[0] << "wake in 60 s" << FROZEN[2] >> frozen >> later(60) >> alarm << "wake in 1740 s"
    (ask,) = play.task.requests
    assert (ask.answer, ask.answered_by) == (DENY, POLICY)
    play = play >> admitted << "thaw agents/1" >> thawed << "turn 1 of 1" << "answer r1 of 1" << "wake in 3600 s"


# What crosses a question


def test_a_waiting_task_that_a_user_pauses_is_still_waiting_after_the_pause() -> None:
    play = waiting() >> pause()
    assert (play.task.agent.status, play.task.agent.blocked_by) == (AgentStatus.PAUSED, PauseReason.USER)
    play = play >> resume()
    assert play.task.agent.status is AgentStatus.WAITING_QUESTION
    play = play >> pause() >> answered(1, ANSWERED, "left")
    assert (play.task.agent.blocked_by, play.task.pending_requests) == (PauseReason.USER, ())
    assert (play >> resume()).task.wants_slot


def test_a_question_asked_as_the_pause_comes_is_recorded_and_open_after_it() -> None:
    play = Playbook(interactive()) >> pause() << "freeze agents/1" >> asking(question())
    play = play << FROZEN[1] << FROZEN[2]
    assert play.task.agent.blocked_by is PauseReason.USER
    assert (play >> resume()).task.agent.status is AgentStatus.WAITING_QUESTION


def test_a_limit_pauses_a_waiting_task_which_then_waits_again() -> None:
    play = Playbook(interactive()) >> asking(question()) << FROZEN[0] << FROZEN[1] << FROZEN[2]
    play = play >> limit_hit(60) << "wake in 112 s" << "tell limit_reached" >> frozen
    assert play.task.agent.blocked_by is PauseReason.RATE_LIMIT
    play = play >> later(112) >> alarm << "wake in 1688 s"
    assert play.task.agent.status is AgentStatus.WAITING_QUESTION


@pytest.mark.parametrize("park", [False, True])
def test_a_cancelled_task_has_no_open_questions(park: bool) -> None:
    play = waiting()
    if park:
        play = play >> later(1800) >> alarm << "stop agents/1" << "wake in 84600 s" << "tell reminder"
    play = play >> cancel
    play = play << "interrupt agents/1"
    assert "allowed now: archive, delete" in refused(play, answered(1, ANSWERED, "left"))
    play = play >> asking(question("More?")) if park else play
    assert (play >> exited >> alarm).task.status is TaskStatus.CANCELLED


def test_an_agent_paused_for_long_is_ended_and_restarted_with_the_answer() -> None:
    play = waiting() >> later(1800) >> alarm << "stop agents/1" << "wake in 84600 s" << "tell reminder"
    assert play.task.run is not None
    assert play.task.run.process is ProcessState.PARKING
    play = play >> frozen >> thawed >> exited >> answered(1, ANSWERED, "left") >> admitted << "wake in 0 s"
    play = play >> alarm << "resume planner 2" >> started << "follow agents/2" << "turn 1 of 2" << "wake in 3600 s"
    assert "- Which one? — left" in turn_text(full(), play.task)
    assert play.task.failures.total == 0


def test_an_answer_that_crosses_the_parking_waits_for_its_end_and_uses_no_retry() -> None:
    play = waiting() >> later(7200) >> alarm << "stop agents/1" << "wake in 79200 s" << "tell reminder"
    play = play >> answered(1, ANSWERED, "left") >> admitted >> alarm >> finished("ended", error_class="aborted")
    play = play >> exited << "wake in 0 s" >> alarm << "resume planner 2"
    assert play.task.failures.total == 0
    assert play.task.budgets["agent_retries"].used == 0


# Reported errors


def trouble(recovery: Recovery, fatal: bool = False) -> Happening:
    return asking(trouble=AgentError(fatal=fatal, recovery=recovery, message="no network", details="dns"))


@pytest.mark.parametrize("fatal", [True, False])
def test_a_fatal_error_ends_the_task_and_records_its_reason(fatal: bool) -> None:
    recovery = Recovery.PAUSE_AND_RETRY if fatal else Recovery.CHECKPOINT_AND_FAIL
    play = Playbook(at_work()) >> trouble(recovery, fatal) << "interrupt agents/1" << "tell failed"
    assert (play.task.status, play.task.failures.by_type) == (TaskStatus.FAILED, {"fatal": 1})
    assert play.task.timing.failed_at == play.now
    assert (play >> trouble(recovery) >> exited).task.run is None


def test_an_agent_that_asks_for_a_retry_is_paused_for_a_minute() -> None:
    play = Playbook(at_work()) >> trouble(Recovery.PAUSE_AND_RETRY) << "freeze agents/1" << "wake in 60 s" >> frozen
    assert play.task.agent.blocked_by is PauseReason.SERVICE
    play = play >> trouble(Recovery.PAUSE_AND_RETRY)
    play = play >> later(60) >> alarm << "wake in 1740 s"
    assert play >> admitted << "thaw agents/1" >> thawed << "turn 1 of 1" << "wake in 3600 s"


def test_an_agent_that_wants_a_user_notified_asks_what_to_do() -> None:
    play = Playbook(interactive()) >> trouble(Recovery.NOTIFY_USER) << FROZEN[0] << FROZEN[1] << FROZEN[2]
    assert play.task.requests[0].draft.text == "The agent reports: no network\ndns\nWhat should it do?"


# Malformed blocks

BAD = ("QUESTION: it has no text; write QUESTION: and a text",)


def test_a_malformed_block_is_reported_to_the_agent_once_and_then_uses_a_retry() -> None:
    play = Playbook(at_work()) >> finished(malformed=BAD) << "turn 2 of 1"
    assert (play.task.feedback, play.task.budgets["gate_retries"].used) == (BAD, 0)
    play = play >> finished(malformed=BAD) << "turn 3 of 1"
    assert play.task.budgets["gate_retries"].used == 1
    play = play >> finished(malformed=BAD) << "turn 4 of 1" >> finished(malformed=BAD)
    assert (play << "stop agents/1" << "tell blocked").task.status is TaskStatus.BLOCKED


# A tool that timed out while it was frozen


def with_tool(task: Task, *timed_out: str) -> Task:
    return replace(task, agent=replace(task.agent, turn=replace(task.agent.turn, open_tools=1, timed_out=timed_out)))


def test_a_command_that_timed_out_while_frozen_is_run_once_more() -> None:
    still = (Playbook(with_tool(at_work())) >> pause() << "freeze agents/1" >> frozen << "wake in 1800 s").task
    play = Playbook(still) >> resume() >> admitted << "thaw agents/1" >> thawed << "turn 1 of 1" << "wake in 3600 s"
    assert play.task.agent.turn.was_frozen_in_tool
    play = Playbook(with_tool(play.task, "npm test")) >> finished() << "turn 2 of 1"
    assert play.task.feedback[0].startswith("the command 'npm test' ran out of time only because")
    assert play >> finished() << "look at ANALYSIS"


def test_a_command_that_timed_out_by_itself_is_left_to_the_agent() -> None:
    assert Playbook(with_tool(at_work(), "npm test")) >> finished() << "look at ANALYSIS"


# Notices


def test_each_notice_is_sent_until_it_is_confirmed_and_then_never_again() -> None:
    play = Playbook(interactive()) >> asking(question()) << FROZEN[0] << FROZEN[1] << FROZEN[2]
    play = play >> daemon_started << "follow agents/1" << FROZEN[0] << FROZEN[1] << FROZEN[2] >> told
    assert play.task.notices == ()
    assert play >> daemon_started << "follow agents/1" << FROZEN[0] << FROZEN[1]


def test_a_question_in_a_stage_without_a_turn_waits_for_the_next_one() -> None:
    play = Playbook(interactive()) >> finished() << "look at ANALYSIS" >> asking(question())
    play = play << FROZEN[0] << FROZEN[1] << FROZEN[2] >> looked() >> frozen
    assert (play.task.stage, play.task.agent.status) == ("PLANNING", AgentStatus.WAITING_QUESTION)
    play = play >> answered(1, ANSWERED, "left") >> admitted << "thaw agents/1" >> thawed << "turn 2 of 1"
    play = play << "wake in 3600 s"
    assert "- Which one? — left" in turn_text(full(), play.task)


def test_a_session_is_told_once() -> None:
    task = at_work()
    assert machine.decide(full(), task, session(task, task.updated_at + timedelta(seconds=1)))[0] is task


def test_an_answer_that_differs_in_case_is_refused_as_another_answer() -> None:
    with pytest.raises(BadAnswer):
        machine.decide(full(), waiting().task, answered(1, ANSWERED, "Left")(waiting().task, waiting().now))


def test_a_short_pause_that_an_agent_requested_ends_although_the_task_moved_on() -> None:
    play = Playbook(at("DESIGN", NextAction.TURN)) >> trouble(Recovery.PAUSE_AND_RETRY) << "freeze agents/1"
    play = play << "wake in 60 s" >> finished() >> exited >> looked()
    assert (play.task.stage, play.task.next_action, play.task.agent.blocked_by) == (
        "IMPLEMENTATION", NextAction.AGENT, PauseReason.SERVICE
    )  # fmt: skip
    assert play >> later(60) >> alarm >> admitted << "start implementer 2"


def test_a_request_withdrawn_by_a_process_that_is_being_ended_stays_open() -> None:
    play = waiting_by_request() >> pause(park=True)
    assert (play << "stop agents/1" >> withdrawn()).task.requests[0].is_pending
