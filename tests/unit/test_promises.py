"""Every sentence of README that guarantees something names the tests that hold the program to it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.documents import ROOT, text_of

EVERYWHERE: Mapping[str, Sequence[str]] = {
    "Every decision is in the task's `journal.jsonl` before anything follows from it.": (
        "test_a_power_cut_at_any_byte_leaves_the_state_after_the_last_complete_line",
        "test_a_power_cut_at_any_step_does_not_change_the_outcome",
        "test_whatever_moment_the_daemon_is_killed_at_no_work_is_lost_and_none_done_twice",
    ),
    "Agents outlive the daemon.": (
        "test_a_daemon_killed_in_mid_turn_goes_on_with_the_same_agent",
        "test_a_daemon_that_is_told_to_end_leaves_its_agents_at_work",
        "test_a_turn_that_ends_while_the_daemon_is_away_counts",
    ),
    "No stage passes because an agent says so.": (
        "test_no_work_is_not_taken_for_work",
        "test_a_turn_without_work_fails_its_gate_and_is_told_so",
        "test_a_check_that_always_fails_blocks_the_task_after_the_third_evaluation_or_one_last_pass",
        "test_a_check_that_forges_its_own_pass_is_run_again_and_fails",
        "test_a_task_whose_pipeline_was_changed_between_two_starts_is_blocked",
    ),
    "Check commands are fixed at submit, from the base commit or by `--check`;": (
        "test_checks_come_from_the_base_commit_and_never_from_the_branch",
    ),
    "changes to them on the branch are shown, never obeyed.": (
        "test_a_check_that_the_branch_changes_is_shown_and_not_obeyed",
    ),
    "At the reset the same session continues.": (
        "test_a_usage_limit_is_waited_out_and_the_session_goes_on",
        "test_the_real_claude_waits_out_its_limit_in_the_same_session_over_a_kill",
    ),
    "While the CLI does not start or the account is refused, every task waits and one of them "
    "tries from time to time.": (
        "test_a_program_that_refuses_its_options_burns_no_task_and_all_go_on_when_it_works",
        "test_one_refusal_of_the_account_stops_all_tasks_until_a_person_resumes_them",
        "test_a_claude_that_is_too_old_is_given_no_task_until_a_fit_one_is_there",
    ),
    "It freezes the whole process tree, and verifies that.": (
        "test_a_frozen_command_stops_ticking_and_goes_on_where_it_was",
        "test_a_process_that_leaves_the_group_is_still_frozen_thawed_and_swept",
        "test_a_run_that_cannot_be_frozen_is_stopped_and_restarted_on_resume",
    ),
    "`orchestrator why TASK` names it,": (
        "test_the_overview_shows_which_tasks_work_which_wait_and_why",
        "test_a_blocked_task_states_why_and_what_a_user_can_do",
    ),
    "and the journal keeps every decision with its evidence.": (
        "test_the_journal_records_the_submitter_and_every_event_completely",
        "test_a_transition_is_allowed_by_the_daemons_evidence_or_forced_with_a_reason",
    ),
    "It gets a repository of its own and an outbox;": (
        "test_nothing_but_the_new_branch_appears_in_the_users_repository",
        "test_an_outbox_full_of_links_and_a_giant_is_refused_name_by_name",
    ),
    "its hooks and git configuration reach neither the daemon nor you.": (
        "test_no_program_of_a_hostile_repository_runs_when_it_is_inspected",
        "test_a_filter_with_an_unusual_name_is_disabled",
    ),
    "What its CLI remembers stays in its task.": (
        "test_what_an_agent_leaves_for_later_agents_stays_in_its_task",
        "test_what_a_task_left_in_its_folder_stays_and_the_users_changes_stay_out",
    ),
    "Secrets in tickets are masked before anything is stored.": (
        "test_a_jira_ticket_is_stored_without_secrets",
        "test_every_made_up_secret_of_every_kind_is_found",
    ),
    "Where it does not, an agent may do whatever the daemon's user may do; "
    "`orchestrator doctor` and `status` say which of the two holds.": (
        "test_the_daemon_says_how_runs_are_isolated",
        "test_without_sandboxes_the_daemon_works_and_says_what_is_not_held",
    ),
}
"""What holds in both modes of isolation: each sentence with the tests that would fail."""

IN_SANDBOXES: Mapping[str, Sequence[str]] = {
    "the machine is read-only, other tasks, credentials and every other process are out of sight.": (
        "test_an_agent_sees_its_own_task_alone_and_commands_nobody",
        "test_a_check_sees_its_checkout_alone",
        "test_a_sandbox_ends_with_its_holder_and_with_its_agent",
    ),
}
"""What holds only where bubblewrap works."""

NO_PROMISE = (
    "Agents and checks run in sandboxes where the kernel lets bubblewrap make them:",
    "Either way, give the daemon a user of its own: `orchestrator help service`.",
)


def guarantees() -> str:
    """Return README's chapter of guarantees on one line, without marks and without the headings of its items."""
    chapter = re.search(r"## Guarantees and security\n(.*?)\nDetails:", text_of("README.md"), re.DOTALL)
    assert chapter
    items = re.sub(r"^\* (\*\*[^*]+\.\*\*)?", "", chapter[1], flags=re.MULTILINE)
    return " ".join(items.replace("**", "").split())


def test_every_sentence_of_the_guarantees_has_tests() -> None:
    left = guarantees()
    for sentence in (*EVERYWHERE, *IN_SANDBOXES, *NO_PROMISE):
        assert sentence in left, "README no longer says this"
        left = left.replace(sentence, "")
    assert not left.strip(), "no test is named for this"


def test_every_test_that_a_promise_names_exists() -> None:
    known = set(names_of_tests())
    promises = {**EVERYWHERE, **IN_SANDBOXES}
    assert [name for tests in promises.values() for name in tests if name not in known] == []
    assert [sentence for sentence, tests in promises.items() if not tests] == []


def names_of_tests() -> Iterator[str]:
    """Yield the name of every test function."""
    for path in sorted(Path(ROOT / "tests").rglob("test_*.py")):
        yield from re.findall(r"^(?:    )?(?:async )?def (test_\w+)", path.read_text("utf-8"), re.MULTILINE)
