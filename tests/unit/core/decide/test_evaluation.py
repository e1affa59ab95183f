"""Checks: the effects of their verdicts, who explains a failure, and how often the task goes back."""

from dataclasses import replace

from orchestrator.core.decide.lifecycle import ONCE_MORE
from orchestrator.core.decide.prompt import turn_text
from orchestrator.core.guards.results import ChecksAcceptable
from orchestrator.core.task.checks import NOT_EVALUATED, REPORT_FILE, CheckResult, Evaluation, Verdict
from orchestrator.core.task.guards import Evidence, FileFacts
from orchestrator.core.task.progress import StageStatus, Step, StepStatus
from orchestrator.core.task.task import NextAction, Task, TaskStatus
from orchestrator.core.task.task_policy import OnBlocked, TaskPolicy
from orchestrator.pipelines.pipeline_file import parse_pipeline
from tests.unit.playbook import (
    EXPLAINED,
    Playbook,
    a_task,
    admitted,
    alarm,
    at,
    at_work,
    evaluating,
    exited,
    failing_again,
    finished,
    full,
    judged,
    later,
    looked,
    ready,
    retry,
    started,
    with_budget,
)

FAIL, PASS, WARN = Verdict.FAIL, Verdict.PASS, Verdict.WARN
UNEXPLAINED = Evidence()


def explaining(task: Task | None = None) -> Playbook:
    """Return a conversation in which a check failed and the evaluator is looking for the cause."""
    play = Playbook(task or evaluating(FAIL)) >> judged(PASS) << "start evaluator 3"
    return play >> started << "follow agents/3" << "turn 1 of 3" << "wake in 3600 s"


def test_warnings_do_not_stop_a_change() -> None:
    assert Playbook(evaluating(WARN)) >> judged(PASS) << "deliver c2"


def test_a_task_without_checks_is_delivered_and_reported_as_unchecked() -> None:
    play = (
        Playbook(at("EVALUATION", NextAction.STOP, replace(a_task(), evaluation=NOT_EVALUATED)))
        >> exited
        << "deliver c2"
    )
    reason = "no check is configured or was found in the repository"
    assert play.task.evaluation.results == {"unit_test": CheckResult(verdict=Verdict.SKIPPED, reason=reason)}


def test_all_checks_run_even_if_the_first_one_fails() -> None:
    assert Playbook(evaluating()) >> judged(FAIL) << "check lint in logs/1-lint"


def test_a_failure_is_explained_and_goes_back_to_the_analysis() -> None:
    play = explaining() >> finished() << "look at EVALUATION" >> looked() << "stop agents/3"
    assert play.task.stages["EVALUATION"].status is StageStatus.FAILED
    play = play >> exited << "start planner 4"
    (entry,) = play.task.failures.entries
    assert (entry.type, entry.step, entry.command, entry.exit_code) == ("test_failure", "unit_test", "pytest", 1)
    assert (entry.action, entry.transitioned_to, entry.retry_count) == ("retry_cycle", "ANALYSIS", 1)
    assert (entry.attempted, entry.expected, entry.analysis) == ("evaluation 1 of c2", "unit_test passes", EXPLAINED)
    assert (play.task.stage, play.task.stages["ANALYSIS"].visits, play.task.cycle) == ("ANALYSIS", 2, 2)


def test_each_failed_check_is_recorded_under_its_kind() -> None:
    play = Playbook(evaluating(FAIL)) >> judged(FAIL) << "start evaluator 3"
    play = play >> started << "follow agents/3" << "turn 1 of 3" << "wake in 3600 s" >> finished()
    play = play << "look at EVALUATION" >> looked() << "stop agents/3"
    assert play.task.failures.by_type == {"test_failure": 1, "lint_failure": 1}


def test_a_missing_explanation_is_requested_and_then_skipped() -> None:
    play = explaining()
    for attempt in (4, 5):
        play = play >> finished() << "look at EVALUATION" >> looked(UNEXPLAINED) << f"stop agents/{attempt - 1}"
        assert play.task.feedback[0].startswith("failure-analysis.json with root_cause_hypothesis")
        play = play >> exited << f"start evaluator {attempt}"
        play = play >> started << f"follow agents/{attempt}" << f"turn 1 of {attempt}" << "wake in 3600 s"
    play = play >> finished() << "look at EVALUATION" >> looked(UNEXPLAINED) << "stop agents/5"
    (entry,) = play.task.failures.entries
    assert (play.task.stage, entry.analysis, play.task.feedback) == ("ANALYSIS", None, ())


def test_the_failure_of_a_check_says_what_was_changed_what_was_printed_and_what_it_is_related_to() -> None:
    failed = CheckResult(verdict=Verdict.FAIL, reason="exit code", details="E  boom", modified_files=("a.py",))
    task = evaluating(FAIL)
    design = replace(task.stages["DESIGN"], artifacts=("design-v9.md", "design-v10.md", "design-changelog.md"))
    results = dict.fromkeys(task.evaluation.results, failed)
    step = Step(step_id=1, description="Do it", status=StepStatus.COMPLETED, commits=("c1",))
    task = replace(task, stages={**task.stages, "DESIGN": design}, steps=(step,))
    play = explaining(replace(task, evaluation=replace(task.evaluation, results=results)))
    play = play >> finished() << "look at EVALUATION" >> looked() << "stop agents/3"
    (entry,) = play.task.failures.entries
    assert (entry.details, entry.modified_files) == ("E  boom", ("a.py",))
    assert (entry.related_plan_step, entry.related_design) == ("plan.md", "design-v10.md")


def test_a_failure_is_still_fixed_when_its_evaluator_is_lost_for_good() -> None:
    play = explaining(with_budget(evaluating(FAIL), "agent_retries", 2)) >> exited << "start planner 4"
    assert play.task.failures.by_type == {"agent_lost": 1, "test_failure": 1}


def test_a_lost_evaluator_is_asked_again() -> None:
    assert explaining() >> exited << "wake in 10 s" >> later(10) >> alarm << "start evaluator 4"


def test_the_third_failed_evaluation_blocks_the_task() -> None:
    play = explaining(with_budget(evaluating(FAIL), "eval_cycles", 1)) >> finished() << "look at EVALUATION"
    assert (play >> looked() << "stop agents/3").task.stage == "ANALYSIS"
    play = explaining(with_budget(evaluating(FAIL), "eval_cycles", 2)) >> finished() << "look at EVALUATION"
    play = play >> looked() << "stop agents/3" << "tell blocked"
    assert (play.task.status, play.task.budgets["eval_cycles"].left) == (TaskStatus.BLOCKED, 0)
    assert play.task.block_reason == "EVALUATION failed, and no try is left: unit_test: FAIL (exit code)"
    assert play.task.failures.entries[-1].action == "user_intervention"
    assert play.task.failures.entries[-1].transitioned_to is None


def test_an_escalated_task_gets_exactly_one_more_pass_of_the_smallest_scope_and_is_then_blocked() -> None:
    task = replace(evaluating(), policy=TaskPolicy(on_blocked=OnBlocked.ESCALATE))
    for cycle in (1, 2):
        play = failing_again(task) >> looked() << f"stop agents/{3 * cycle}"
        task = play.task
        assert (task.budgets["eval_cycles"].used, task.budgets["escalations"].used) == (cycle, 0)
    task = (failing_again(task) >> looked() << "stop agents/9").task
    assert (task.stage, task.requested_changes) == ("ANALYSIS", (ONCE_MORE,))
    told = turn_text(full(), replace(at_work("IMPLEMENTATION"), requested_changes=task.requested_changes))
    assert told.endswith(f"What all steps together have to achieve:\n- {ONCE_MORE}")
    assert (task.budgets["eval_cycles"].left, task.budgets["escalations"].left) == (0, 0)
    assert task.failures.entries[-1].transitioned_to == "ANALYSIS"
    task = (failing_again(task) >> looked() << "stop agents/12" << "tell blocked").task
    assert (task.status, task.stages["EVALUATION"].visits) == (TaskStatus.BLOCKED, 4)
    assert task.block_reason == "EVALUATION failed, and no try is left: unit_test: FAIL (exit code)"
    assert task.failures.entries[-1].transitioned_to is None


def test_a_task_that_waits_for_nobody_fails_when_no_try_is_left() -> None:
    failing = replace(with_budget(evaluating(), "eval_cycles", 2), policy=TaskPolicy(on_blocked=OnBlocked.FAIL))
    task = (failing_again(failing) >> looked() << "stop agents/3" << "tell failed").task
    assert (task.status, task.timing.failed_at is not None) == (TaskStatus.FAILED, True)
    assert task.block_reason == "EVALUATION failed, and no try is left: unit_test: FAIL (exit code)"


def test_a_task_that_halts_gets_no_further_pass() -> None:
    halting = with_budget(evaluating(), "eval_cycles", 2)
    play = failing_again(halting) >> looked() << "stop agents/3" << "tell blocked"
    assert play.task.budgets["escalations"].used == 0


def test_a_users_retry_restores_the_last_pass_with_all_other_retries() -> None:
    spent = with_budget(with_budget(evaluating(), "eval_cycles", 3), "escalations", 1)
    blocked = failing_again(replace(spent, policy=TaskPolicy(on_blocked=OnBlocked.ESCALATE))) >> looked()
    task = (blocked << "stop agents/3" << "tell blocked" >> exited >> retry).task
    assert (task.budgets["escalations"].used, task.budgets["eval_cycles"].used) == (0, 0)


def test_every_evaluation_writes_its_report() -> None:
    task = at("EVALUATION", NextAction.CHECKS)
    assert task.evaluation.report_path is None
    play = Playbook(evaluating(PASS)) >> judged(PASS) << "deliver c2"
    assert play.task.evaluation.report_path == REPORT_FILE
    assert explaining().task.evaluation.report_path == REPORT_FILE


def test_a_lost_check_is_run_again_in_another_folder() -> None:
    play = Playbook(evaluating(PASS)) >> judged(None) << "wake in 10 s"
    (entry,) = play.task.failures.entries
    assert (entry.type, entry.summary) == ("check_lost", "the check lint was lost")
    decision = play.task.seq
    play = play >> later(10) >> alarm << f"check lint in logs/1-lint-{decision}"
    assert play >> judged(PASS) << "deliver c2"


def test_a_check_that_is_lost_every_time_blocks_the_task() -> None:
    play = Playbook(with_budget(evaluating(PASS), "agent_retries", 2))
    for delay in (10, 20, 40, 80, 160, 300, 300, 300, 300, 300):
        play = play >> judged(None) << f"wake in {delay} s"
        lost_at = play.task.seq
        play = play >> later(delay) >> alarm << f"check lint in logs/1-lint-{lost_at}"
    play = play >> judged(None) << "tell blocked"
    assert play.task.block_reason == "EVALUATION: the check lint was lost; that happened 11 times in a row"


SMALL = """\
name = "small"
description = "Checks of its own, counted its own way, explained by nobody."
start = "BUILD"
branch = "{task}"

[budgets]
rounds = 2

[stages.BUILD]
work = "agent"
role = "builder"
artifacts = ["notes.md"]
guards = [{ guard = "file_exists", file = "notes.md" }]
next = "QUICK"

[stages.QUICK]
work = "checks"
guards = [{ guard = "checks_acceptable", accept = ["PASS"] }]
next = "THOROUGH"
on_fail = "BUILD"
budget = "rounds"

[stages.THOROUGH]
work = "checks"
guards = [{ guard = "checks_acceptable", accept = ["PASS"] }]
next = "END"
on_fail = "BUILD"
budget = "rounds"

[stages.END]
work = "deliver"
"""


def test_no_two_evaluations_share_a_folder_whatever_their_names_and_counters() -> None:
    notes = Evidence(files={"notes.md": FileFacts(chars=1)}, fresh=("notes.md",))
    task = replace(a_task(), evaluation=Evaluation(checks=a_task().evaluation.checks[:1]))
    play = (
        Playbook.submitted(task, parse_pipeline(SMALL, "small.toml"))
        >> admitted << "prepare the workspace"
        >> ready << "start builder 1"
        >> started << "follow agents/1" << "turn 1 of 1" << "wake in 3600 s"
        >> finished() << "look at BUILD"
        >> looked(notes) << "stop agents/1"
        >> exited << "check unit_test in logs/1-unit_test"
        >> judged(FAIL) << "start builder 2"
        >> started << "follow agents/2" << "turn 1 of 2" << "wake in 3600 s"
        >> finished() << "look at BUILD"
        >> looked(notes) << "stop agents/2"
        >> exited << "check unit_test in logs/2-unit_test"
        >> judged(PASS) << "check unit_test in logs/3-unit_test"
        >> judged(FAIL) << "tell blocked"
    )  # fmt: skip
    assert play.task.block_reason == "THOROUGH failed, and no try is left: unit_test: FAIL (exit code)"
    assert [entry.retry_count for entry in play.task.failures.entries] == [1, 1]


def test_an_unacceptable_verdict_is_named_even_if_it_is_not_a_failure() -> None:
    only_pass = replace(full().stage("EVALUATION"), guards=(ChecksAcceptable(accept=("PASS",)),), role=None)
    strict = replace(full(), stages={**full().stages, "EVALUATION": only_pass})
    play = Playbook(with_budget(evaluating(PASS), "eval_cycles", 2), strict) >> judged(WARN, "two warnings")
    play = play << "tell blocked"
    assert play.task.block_reason == "EVALUATION failed, and no try is left: lint: WARN (two warnings)"
    assert [(entry.step, entry.summary) for entry in play.task.failures.entries] == [("lint", "two warnings")]


def test_an_evaluation_that_cannot_go_back_blocks_the_task_at_once() -> None:
    final = replace(full().stage("EVALUATION"), on_fail=None, budget=None, role=None)
    strict = replace(full(), stages={**full().stages, "EVALUATION": final})
    play = Playbook(evaluating(PASS), strict) >> judged(FAIL) << "tell blocked"
    assert play.task.block_reason == "EVALUATION failed, and no try is left: lint: FAIL (exit code)"
