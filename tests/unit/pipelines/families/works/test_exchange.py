"""What agents of a work pass on: XML that is read however carelessly it was written, and written strictly."""

import time
from contextlib import suppress

import pytest
from defusedxml.ElementTree import fromstring
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.pipelines.families.works.documents.names import Mode
from orchestrator.pipelines.families.works.documents.progress import ChangedFile
from orchestrator.pipelines.families.works.exchange.dispatch import (
    Dispatch,
    EarlierResult,
    read_dispatches,
    write_dispatch,
)
from orchestrator.pipelines.families.works.exchange.handoff import (
    Detail,
    Handoff,
    distances,
    read_handoff_text,
    reduced,
    window,
)
from orchestrator.pipelines.families.works.exchange.task_result import (
    CheckReport,
    FailureReport,
    Outcome,
    TaskResult,
    last_task_result,
    read_task_results,
    write_task_result,
)

AWKWARD = "a <b> & \"c\" 'd' ]]> é 한국어\nsecond line\t&amp; </what>"


def result(status: str = "PASS", body: str = "", agent: str = "verifier") -> str:
    """A task-result as an agent writes it."""
    return f'<task-result work="WORK-01" task="TASK-00" agent="{agent}" status="{status}">{body}</task-result>'


def test_a_dispatch_is_read_as_it_was_written_whatever_its_texts_hold() -> None:
    dispatch = Dispatch(
        to="builder",
        work="WORK-01",
        task="TASK-00",
        mode=Mode.PIPELINE,
        references="/a b/<c>",
        project=AWKWARD,
        language="ko",
        plan_file="works/WORK-01/PLAN.md",
        file="works/WORK-01/TASK-00.md",
        title=AWKWARD,
        action="implement",
        description=AWKWARD,
        results=(EarlierResult(task="TASK-00", status="PASS", text=AWKWARD),),
        handoffs=(Handoff(source="verifier", task="TASK-00", what=AWKWARD, why="b", detail=Detail.SUMMARY),),
    )
    text = write_dispatch(dispatch)
    assert fromstring(text).get("execution-mode") == "pipeline"
    assert read_dispatches(f"Here it is:\n```xml\n{text}```\nDone & <ready>.") == (dispatch,)


def test_a_result_is_read_as_it_was_written_whatever_its_texts_hold() -> None:
    written = TaskResult(
        work="WORK-01",
        task="TASK-00",
        agent="verifier",
        outcome=Outcome.FAIL,
        summary=AWKWARD,
        reason="no files changed",
        notes=AWKWARD,
        files=(ChangedFile(path='a "b".py', action="CREATE"), ChangedFile(path="c<d")),
        checks=(CheckReport(name="build", outcome=Outcome.PASS, text=AWKWARD),),
        failures=(FailureReport(check="tests", error=AWKWARD, file="a.py", fix="b"),),
        handoff=Handoff(source="verifier", what=AWKWARD, caution="c", incomplete="None"),
        commit="abc",
    )
    assert read_task_results(write_task_result(written)) == (written,)


@pytest.mark.parametrize(
    "summary",
    [
        "a & b",
        "a < b && c <d>",
        "<![CDATA[a < b & </task-result>]]>",
        "a&nbsp;b &eacute;",
        "&#65; &#0; &unknown;",
        "<b>x</b>",
    ],
)
def test_careless_xml_is_read(summary: str) -> None:
    found = read_task_results(result(body=f"<summary>{summary}</summary><notes>n</notes>"))
    assert [one.notes for one in found] == ["n"]
    assert found[0].summary


def test_several_results_among_prose_are_read_and_the_last_one_of_an_agent_counts() -> None:
    text = f"First {result('FAIL')} then <b> {result('PASS', agent='builder')} and {result('PASS')} bye"
    assert [one.agent for one in read_task_results(text)] == ["verifier", "builder", "verifier"]
    assert last_task_result(text, "verifier").outcome is Outcome.PASS
    with pytest.raises(ValueError, match="no readable <task-result"):
        last_task_result("It all passed.", "verifier")


def test_a_failed_lint_is_a_warning_and_any_other_failed_check_contradicts_a_pass() -> None:
    checks = '<verification><check name="{}" status="{}">x</check></verification>'
    assert read_task_results(result(body=checks.format("lint", "FAIL")))[0].is_passed
    assert read_task_results(result(body=checks.format("tests", "WARN")))[0].is_passed
    assert read_task_results(result(body=checks.format("tests", "N/A")))[0].is_passed
    assert not read_task_results(result(body=checks.format("tests", "FAIL")))[0].is_passed
    assert not read_task_results(result(body=checks.format("tests", "mostly")))[0].is_passed
    assert not read_task_results(result("SURE"))[0].is_passed


def test_a_reason_and_failure_details_are_read() -> None:
    body = (
        "<reason>status not COMPLETED</reason><failure-details><failure check='tests'><error>1 < 2</error>"
        "<file>a.py</file><suggested-fix>mend</suggested-fix></failure></failure-details>"
    )
    found = read_task_results(result("FAIL", body))[0]
    assert found.reason == "status not COMPLETED"
    assert found.failures == (FailureReport(check="tests", error="1 < 2", file="a.py", fix="mend"),)


@pytest.mark.parametrize("text", ['<dispatch to="root" work="WORK-01"/>', '<dispatch to="builder"/>'])
def test_a_dispatch_to_nobody_or_for_no_work_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must"):
        read_dispatches(text)


def test_entities_are_neither_declared_nor_expanded(tmp_path_factory: pytest.TempPathFactory) -> None:
    secret = tmp_path_factory.mktemp("secret") / "key"
    secret.write_text("made-up")
    declared = f'<!DOCTYPE task-result [<!ENTITY x SYSTEM "file://{secret}"><!ENTITY y "ha">]>'
    for text in (declared + result(body="<summary>&x;&y;</summary>"), result(body=f"{declared}<summary>&x;</summary>")):
        assert "made-up" not in str(read_task_results(text))
        assert "haha" not in str(read_task_results(text))


SIZE = 900_000
HOSTILE = {
    "opened": "<task-result " * (SIZE // 13),
    "begun": "<task-result>" * (SIZE // 13),
    "ended": "</task-result>" * (SIZE // 14),
    "blanks": "<task-result" + " " * SIZE,
    "data": "<![CDATA[" * (SIZE // 9),
    "comments": "<!--" * (SIZE // 4),
    "ampersands": result(body="<summary>" + "&" * 200_000 + "</summary>"),
    "entities": result(body="<summary>" + "&#65;" * 40_000 + "<</summary>"),
    "nested": result(body="<what>" * 20_000 + "</what>" * 20_000),
    "many": result() * 201,
    "controls": result(body="\0\x1b\ud800\ufffe"),
    "large": "x" * 2_000_000,
}


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_makes_the_reader_slow_or_raise_anything_but_value_errors(text: str) -> None:
    begun = time.process_time()
    for read in (read_task_results, read_dispatches):
        with suppress(ValueError):
            read(HOSTILE[text])
    assert time.process_time() - begun < 3


@given(st.text(st.sampled_from('<>&;!-[]"=/ abtask-result#x0'), max_size=300))
def test_no_mixture_of_marks_makes_the_reader_fail(text: str) -> None:
    read_task_results(f"<task-result>{text}</task-result>{text}")


def handoff(task: str) -> Handoff:
    """A handoff that says more than is passed on."""
    lines = "\n".join(f"{task} line {number}" for number in range(9))
    return Handoff(source="verifier", task=task, what=lines, why=lines, caution=lines)


def test_the_window_passes_on_all_then_a_summary_then_nothing_by_the_shortest_path() -> None:
    after = {
        "TASK-05": ("TASK-04", "TASK-01"),
        "TASK-04": ("TASK-03",),
        "TASK-03": ("TASK-02",),
        "TASK-02": ("TASK-00",),
        "TASK-01": ("TASK-00",),
        "TASK-00": (),
    }
    assert distances("TASK-05", after) == {"TASK-04": 1, "TASK-01": 1, "TASK-03": 2, "TASK-00": 2}
    found = window("TASK-05", after, {key: handoff(key) for key in after})
    assert [(one.task, one.detail) for one in found] == [
        ("TASK-01", Detail.FULL),
        ("TASK-04", Detail.FULL),
        ("TASK-00", Detail.SUMMARY),
        ("TASK-03", Detail.SUMMARY),
    ]
    full, summary = found[0], found[2]
    assert [len(part.splitlines()) for part in (full.what, full.why, full.caution)] == [5, 4, 3]
    assert full.incomplete == "None"
    assert len(summary.what.splitlines()) == 3
    assert (summary.why, summary.caution, summary.incomplete) == ("", "", "")
    assert reduced(handoff("TASK-00"), Detail.DROP) is None


def test_a_circle_of_dependencies_does_not_trap_the_window() -> None:
    assert distances("A", {"A": ("B",), "B": ("A",)}) == {"B": 1}


def test_a_handoff_in_a_file_is_read_as_it_was_written() -> None:
    given_to = Handoff(source="builder", task="TASK-00", what="a\nb", why="c", caution="d", incomplete="None")
    assert read_handoff_text(given_to.text, "builder", "TASK-00") == given_to
    found = read_handoff_text("Only prose.\n**why**: because", "builder", "TASK-00")
    assert found is not None
    assert (found.what, found.why) == ("Only prose.", "because")
    assert read_handoff_text("None", "builder", "TASK-00") is None
