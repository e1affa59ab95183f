"""A session that was told of and never written down: the CLI knows nothing of it, and the work begins anew."""

from tests.unit.playbook import Playbook, alarm, at_work, exited, finished, later, started

GONE = "No conversation found with session ID: 7"


def test_a_session_that_is_gone_costs_no_try_and_a_new_one_begins_at_once() -> None:
    play = Playbook(at_work()) >> exited << "wake in 10 s" >> later(10) >> alarm << "resume planner 2"
    play = play >> started << "follow agents/2" << "turn 1 of 2" << "wake in 3600 s"
    tries = play.task.budgets["agent_retries"]
    play = play >> finished(GONE, error_class="session") << "stop agents/2" >> exited << "wake in 0 s"
    play = play >> alarm << "start planner 3"
    assert play.task.budgets["agent_retries"] == tries
    assert not play.task.agent.resumed


def test_a_new_session_that_is_not_found_is_a_failure_like_any_other() -> None:
    play = Playbook(at_work()) >> finished(GONE, error_class="session") << "stop agents/1"
    assert [entry.type for entry in play.task.failures.entries] == ["session"]
