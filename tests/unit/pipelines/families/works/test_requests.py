"""What a person's words ask for, and how a work is carried out."""

import time

import pytest

from orchestrator.pipelines.families.works.documents.names import Mode
from orchestrator.pipelines.families.works.documents.requirement import Demand, Requirement
from orchestrator.pipelines.families.works.mode import is_small, mode_of, planner_mode
from orchestrator.pipelines.families.works.request import asks_for_autonomy, read_request, resumed_work


@pytest.mark.parametrize(
    "text",
    [
        "[new-feature] 로그인 추가. 자동으로 진행",
        "로그인을 추가하고 자동으로 진행해줘.",
        "로그인 추가. 자동으로 진행해 주세요",
        "Add a login. Proceed automatically.",
        "Add a login; run it automatically",
        "Add a login. auto",
        "Add a login (auto)",
        "Add a login\nauto",
        "Add a login, without asking.",
        "ログインを追加。自動で進めてください。",
    ],
)
def test_a_phrase_at_the_end_asks_for_autonomy(text: str) -> None:
    assert asks_for_autonomy(text)


@pytest.mark.parametrize(
    "text",
    [
        "Add automatic tests",
        "자동으로 진행되는 배포를 고쳐줘",
        "자동으로 진행하지 마세요",
        "Proceed automatically to the next page after login works",
        "Set the gearbox to auto",
        "Rename semiauto",
        "Do not proceed automatically",
        "It should never run automatically.",
        "Should it proceed automatically?",
        "",
    ],
)
def test_a_mention_or_a_refusal_does_not_ask_for_autonomy(text: str) -> None:
    assert not asks_for_autonomy(text)


@pytest.mark.parametrize(
    "text",
    [
        "WORK-03 파이프라인을 이어서 실행하라.",
        "WORK-03 재개",
        "work-3 이어서 진행해줘",
        "Resume WORK-03",
        "Please continue the pipeline of WORK-03.",
        "continue WORK-03 where it stopped, without asking",
        "WORK-03 を再開してください",
    ],
)
def test_a_phrase_resumes_a_work(text: str) -> None:
    assert resumed_work(text) == "WORK-03"
    assert read_request(f"[WORK] {text}").resumes == "WORK-03"


@pytest.mark.parametrize(
    "text",
    [
        "Resume the download that WORK-03 broke",
        "Resume WORK-03 and WORK-04",
        "WORK-03",
        "resume",
        "Resume NOWORK-03",
        "Continue WORK-03 " + "the " * 100,
    ],
)
def test_a_text_that_only_mentions_a_work_resumes_nothing(text: str) -> None:
    assert resumed_work(text) is None


def test_a_request_may_begin_with_a_tag_in_brackets() -> None:
    found = read_request("[WORK 시작] 로그인 추가\n자동으로 진행")
    assert (found.tag, found.text, found.is_auto) == ("WORK 시작", "로그인 추가\n자동으로 진행", True)
    assert read_request("[link](http://a) is broken").tag == ""
    assert read_request("[a]").text == "a"
    assert read_request("plain").tag == ""


@pytest.mark.parametrize(
    "unit", ["[", "[a] ", "WORK-1 ", "auto ", "자동으로 ", " ", "do not ", "\n", "resume ", "\0\ud800"]
)
def test_no_request_makes_its_reader_slow_or_fail(unit: str) -> None:
    begun = time.process_time()
    for end in ("", " auto", "WORK-01", "[x] resume WORK-01"):
        read_request(unit * 200_000 + end)
        read_request(f"[x] {unit * 30}{end}")
    assert time.process_time() - begun < 3


def requirement(functional: int, non_functional: int = 0, criteria: tuple[str, ...] = ("a",)) -> Requirement:
    """A requirement that demands so much."""
    return Requirement(
        work="WORK-01",
        request="x",
        functional=tuple(Demand(id=f"FR-{n:02}", text="x") for n in range(functional)),
        non_functional=tuple(Demand(id=f"NFR-{n:02}", text="x") for n in range(non_functional)),
        criteria=criteria,
    )


@pytest.mark.parametrize(
    ("demands", "tasks", "mode"),
    [
        (requirement(1), 1, Mode.DIRECT),
        (requirement(2), 1, Mode.DIRECT),
        (requirement(2, 1), 1, Mode.PIPELINE),
        (requirement(3), 1, Mode.PIPELINE),
        (requirement(1, criteria=("a",) * 6), 1, Mode.PIPELINE),
        (requirement(1, criteria=("a" * 201,)), 1, Mode.PIPELINE),
        (requirement(3), 2, Mode.FULL),
        (requirement(1), 2, Mode.FULL),
    ],
)
def test_the_mode_of_a_work_follows_from_its_requirement_and_its_tasks(
    demands: Requirement, tasks: int, mode: Mode
) -> None:
    assert mode_of(demands, tasks) is mode
    assert planner_mode(tasks) is (Mode.PIPELINE if tasks == 1 else Mode.FULL)
    assert is_small(demands) is (demands in (requirement(1), requirement(2)))
