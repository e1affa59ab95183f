"""The pages of a real task, used without scripts: read, answered, paused, resumed, cancelled, restored."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex

from orchestrator.core.task.checkpoint import Reason
from orchestrator.core.task.task import TaskStatus
from tests.acceptance.harness import DaemonHarness, Json
from tests.acceptance.test_asking import ASKING, QUESTION
from tests.acceptance.test_checkpoints import FOR_EVER, HALF_DONE, reasons
from tests.acceptance.test_provided import ASK
from tests.fakes.page_reader import Page, Reader, reader_of
from tests.fakes.repositories import git
from tests.folder_search import files_with


@contextmanager
def daemon_and_reader(root: Path, scenario: Json) -> Iterator[tuple[DaemonHarness, Reader]]:
    """A daemon, and somebody who reads its pages."""
    with DaemonHarness(root, scenario) as harness:
        reader = reader_of(harness.client.socket)
        with reader.http:
            yield harness, reader


def test_a_task_is_answered_paused_resumed_and_cancelled_by_forms_alone(tmp_path: Path) -> None:
    scenario = {"ANALYSIS": [[{"question": QUESTION}, {"no_work": True}], [FOR_EVER]]}
    with daemon_and_reader(tmp_path, scenario) as (harness, reader):
        task = harness.submit(**ASKING)
        harness.wait_until_it_asks(task)
        home = f"/tasks/{task}"
        page = reader.open(home)
        assert "Which alphabet?" in page.text
        assert {"Latin", "All"} <= {text for form in page.forms for text in form.buttons}
        answer = next(form for form in page.forms if "Latin" in form.buttons)
        assert reader.send(answer, "Latin").status_code == 200
        assert harness.client.task(task).requests[0].answer == "Latin"
        refused = reader.send(next(form for form in page.forms if "All" in form.buttons), "All")
        assert (refused.status_code, "answered" in refused.text) == (409, True)

        harness.wait_until_it_works(task, "ANALYSIS")
        page = reader.press(home, "/pause", "Pause")
        harness.wait_until_frozen(task)
        page = reader.open(home)
        assert "a person paused it" in page.text
        assert "/pause" not in "".join(form.action for form in page.forms)
        reader.press(home, "/resume", "Resume")
        harness.wait_until_it_works(task, "ANALYSIS")
        reader.press(home, "/cancel", "Cancel the task")
        harness.wait_for_end(task, TaskStatus.CANCELLED)
        page = reader.open(home)
        assert {form.action.rpartition("/")[2] for form in page.forms if form.action.startswith(home)} == {
            "archive",
            "delete",
        }
        gone = reader.send(page.form("/delete"), "Delete")
        assert gone.status_code == 200
        assert reader.http.get(home).status_code == 404


def test_what_is_provided_on_the_page_is_never_shown_again(tmp_path: Path) -> None:
    value = token_hex(20)
    with daemon_and_reader(tmp_path, {"PLANNING": [ASK, None]}) as (harness, reader):
        task = harness.submit()
        harness.wait_until_it_asks(task)
        form = reader.open(f"/tasks/{task}").form("/provide")
        assert form.kinds["value"] == "password"
        answer = reader.send(form, "Provide", value=value)
        assert answer.status_code == 200
        harness.wait_for_end(task)
        pages = ("", "/journal", "/timeline", "/checkpoints")
        shown = [answer.text, *(reader.open(f"/tasks/{task}{page}").source for page in pages)]
        assert not [text for text in shown if value in text]
        assert "provided" in reader.open(f"/tasks/{task}").text
        assert files_with(harness.data, value.encode()) == []


def test_a_plan_is_sent_back_and_then_approved_on_the_page(tmp_path: Path) -> None:
    asks = [{"ask": {"tool": "ExitPlanMode", "input": {"plan": plan}}} for plan in ("# A", "# B")]
    with daemon_and_reader(tmp_path, {"PLANNING": [asks]}) as (harness, reader):
        task = harness.submit(**ASKING)
        harness.wait_until_it_asks(task)
        home = f"/tasks/{task}"
        page = reader.press(home, "/request-changes", "Request changes", text="Name it <b>textkit</b>")
        first = harness.client.task(task).requests[0]
        assert (first.status, first.answer) == ("changes_requested", "Name it <b>textkit</b>")
        assert "Name it <b>textkit</b>" in page.text
        assert "<b>textkit</b>" not in page.source
        harness.wait_until(task, lambda now: now.waiting and now.waiting[0].text == "# B")
        reader.press(home, "/approve", "Approve")
        assert harness.client.task(task).requests[1].status == "approved"
        harness.wait_for_end(task)


def test_saved_work_is_restored_on_the_page_as_a_branch_and_kept_for_good(tmp_path: Path) -> None:
    with daemon_and_reader(tmp_path, {"IMPLEMENTATION": [[HALF_DONE, FOR_EVER]]}) as (harness, reader):
        task = harness.submit()
        worktree = Path(harness.wait_until(task, lambda now: now.stage == "IMPLEMENTATION").worktree or "")
        harness.wait_for("work that is not committed", (worktree / "half-done.txt").exists)
        home = f"/tasks/{task}/checkpoints"
        reader.press(f"/tasks/{task}", "/pause", "Pause")
        harness.wait_until_frozen(task)
        harness.wait_for("the checkpoint of the pause", lambda: Reason.USER in reasons(harness, task))
        number = harness.client.checkpoints(task).checkpoints[0].number
        page = reader.press(home, f"/{number}/pin", "Keep for good")
        assert "kept for good" in page.text
        assert harness.client.checkpoint(task, number).pinned
        page = reader.press(home, f"/{number}/restore", "Restore as a branch", branch="had-back")
        assert "had-back" in page.text
        assert git(harness.repo, "show", "had-back:half-done.txt") == "not lost"
        refused = reader.send(page.form(f"/{number}/restore"), "Restore as a branch", branch="..<b>bad</b>")
        assert refused.status_code >= 400
        assert "..<b>bad</b>" in Page(refused.text).text


def test_an_ended_task_shows_its_plan_its_checks_and_their_output(tmp_path: Path) -> None:
    with daemon_and_reader(tmp_path, {}) as (harness, reader):
        task = harness.submit()
        ended = harness.wait_for_end(task)
        page = reader.open(f"/tasks/{task}")
        for step in ended.steps:
            assert step.description in page.text
            assert step.commits[0][:8] in page.text
        assert (ended.closing or "").splitlines()[0] in page.text
        check = reader.open(next(link for link in page.links if "/checks/" in link))
        assert "Ran 1 test" in check.text or "Ran 3 tests" in check.text
        turn, line = (harness.journal(task, trigger)[0]["seq"] for trigger in ("RunStarted", "CheckFinished"))
        timeline = reader.open(f"/tasks/{task}/timeline")
        assert f"/tasks/{task}/journal?seq={turn}#seq-{turn}" in timeline.links
        assert "unit_test" in timeline.source
        assert f"seq-{line}" in reader.open(f"/tasks/{task}/journal?seq={line}").ids
        assert '"trigger": "CheckFinished"' in reader.open(f"/tasks/{task}/journal/{line}").text


def test_a_failed_task_is_tried_again_as_a_new_one_whose_page_is_shown(tmp_path: Path) -> None:
    with daemon_and_reader(tmp_path, {"ANALYSIS": [{"no_work": True}] * 9}) as (harness, reader):
        task = harness.submit(on_blocked="fail")
        failed = harness.wait_for_end(task, TaskStatus.FAILED)
        page = reader.open(f"/tasks/{task}")
        assert failed.block_reason
        assert page.text.count(failed.block_reason) <= 2, "once in the head, and in the final message"
        answer = reader.send(page.form("/retry"), "Try again")
        again = answer.url.path.rpartition("/")[2]
        assert (answer.status_code, again != task) == (200, True)
        assert harness.client.task(again).retry_of == task
        assert f"/tasks/{task}" in Page(answer.text).links


def test_the_output_of_a_check_is_shown_while_it_runs(tmp_path: Path) -> None:
    go = tmp_path / "go"
    command = f"echo begun; until [ -e '{go}' ]; do sleep 0.05; done; echo over"
    with daemon_and_reader(tmp_path, {}) as (harness, reader):
        task = harness.submit(repo=harness.make_repository("slow", command))
        home = f"/tasks/{task}/checks/unit_test"
        assert reader.http.get(home).status_code == 404
        harness.wait_until(task, lambda now: now.run and now.run.folder.startswith("logs/"))
        harness.wait_for("the first line", lambda: "begun" in reader.http.get(home).text)
        page = reader.open(home)
        assert "under way" in page.text
        assert "begun over" not in page.text
        go.touch()
        harness.wait_for_end(task)
        assert "exit code 0" in reader.open(home).text
        assert "begun over" in reader.open(home).text
