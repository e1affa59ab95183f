"""Specified works: a requirement, a plan, tasks as children, and one commit for each of them."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.task.task import TaskStatus
from orchestrator.pipelines.families.works.documents.names import Mode
from orchestrator.pipelines.families.works.documents.overview import TaskState, read_overview
from orchestrator.pipelines.families.works.documents.requirement import read_requirement
from orchestrator.pipelines.families.works.documents.work_list import WorkStatus, read_work_list
from tests.acceptance.harness import DaemonHarness, Json
from tests.acceptance.works_harness import built, committed, left, planned, requirement, scenario, verified
from tests.documents import ROOT
from tests.fakes.repositories import commit, git

TEXT = "[WORK] Write files. Proceed automatically."
ONE = {"TASK-00": ()}
DIAMOND = {"TASK-00": (), "TASK-01": ("TASK-00",), "TASK-02": ("TASK-00",), "TASK-03": ("TASK-01", "TASK-02")}


def shown(harness: DaemonHarness, task: str, path: str) -> str:
    """A file of the delivered branch."""
    return git(harness.repo, "show", f"{harness.state(task)['branch']}:{path}")


def one_task(**turns: list[Any]) -> Json:
    """A scenario of a work of one task."""
    return scenario({"Requirement.md": requirement(demands=3)}, planned(ONE, Mode.PIPELINE), **turns)


def failing_first() -> Json:
    """A scenario of three tasks; the first one's builder never finishes, and the second depends on it."""
    tasks = {"TASK-00": (), "TASK-01": ("TASK-00",), "TASK-02": ()}
    unfinished = [{"run": 'case "$ORCHESTRATOR_TASK" in *.TASK-00) touch stop;; esac'}, *built()]
    unfinished[1]["run"] = f"[ -e stop ] && rm stop || {{ {unfinished[1]['run']}; }}"
    return scenario(
        {"Requirement.md": requirement(demands=3)},
        planned(tasks, Mode.FULL),
        BUILD=[unfinished, unfinished, unfinished],
    )


def told(harness: DaemonHarness, task: str, attempt: int) -> list[str]:
    """The turns of one agent of a task; none if there was no such agent."""
    path = harness.folder(task) / f"agents/{attempt}/stdin.jsonl"
    return harness.turn_texts(task, attempt) if path.exists() else []


def test_a_small_work_is_planned_by_its_specifier_and_done_without_a_verifier(tmp_path: Path) -> None:
    small = {"Requirement.md": requirement(), **planned(ONE, Mode.DIRECT)}
    with DaemonHarness(tmp_path, scenario=scenario(small)) as harness:
        task = harness.submit(TEXT, pipeline="work")
        harness.wait_for_end(task)
        assert harness.state(task)["ticket_id"] == "WORK-01"
        assert harness.subjects(task) == [
            "docs(WORK-01): plan Files",
            "feat(TASK-00): write a file",
            "docs(WORK-01): record its outcome",
        ]
        assert harness.state(f"{task}.TASK-00")["pipeline_variant"] == "work-task-direct"
        assert harness.state(task)["states"]["PLANNING"]["status"] == "pending"
        row = read_work_list(shown(harness, task, "works/WORK-LIST.md")).row("WORK-01")
        assert row is not None
        assert row.status is WorkStatus.DONE
        assert row.completed


@pytest.mark.parametrize("places", [1, 3])
def test_a_large_work_is_divided_and_each_task_comes_home_as_one_commit(tmp_path: Path, places: int) -> None:
    large = scenario({"Requirement.md": requirement(demands=3)}, planned(DIAMOND, Mode.FULL))
    with DaemonHarness(tmp_path, scenario=large, max_agents=places) as harness:
        task = harness.submit(TEXT, pipeline="work")
        harness.wait_for_end(task)
        subjects = harness.subjects(task)
        assert sorted(subjects[1:-1]) == [f"feat({key}): write a file" for key in DIAMOND]
        assert {f"{key}.txt" for key in DIAMOND} <= set(
            git(harness.repo, "ls-tree", "--name-only", harness.state(task)["branch"]).split()
        )
        overview = read_overview(shown(harness, task, "works/WORK-01/PROGRESS.md"))
        assert [(row.task, row.state) for row in overview.tasks] == [(key, TaskState.DONE) for key in DIAMOND]
        commits = git(harness.repo, "log", "--format=%H", harness.state(task)["branch"])
        assert all(row.commit in commits for row in overview.tasks)
        assert all(row.duration for row in overview.tasks)
        log = shown(harness, task, "works/WORK-01/work_WORK-01.log")
        assert [log.count(f"_{word}_TASK-") for word in ("DISPATCH", "BUILD", "VERIFY", "COMMIT")] == [4] * 4
        assert log.count("_INIT_") == 1
        assert (harness.folder(task) / "records/PROGRESS.md").exists()
        request = read_requirement(shown(harness, task, "works/WORK-01/Requirement.md")).request
        assert request == "[WORK] Write files. Proceed automatically."


def test_a_failed_verification_goes_back_to_the_builder_and_one_commit_comes_home(tmp_path: Path) -> None:
    turns = {"VERIFICATION": [verified(passes=False), verified()], "BUILD": [built(), built()]}
    with DaemonHarness(tmp_path, scenario=one_task(**turns)) as harness:
        task = harness.submit(TEXT, pipeline="work-pipeline")
        harness.wait_for_end(task)
        part = f"{task}.TASK-00"
        second = [text for attempt in range(1, 6) for text in told(harness, part, attempt) if "BUILD" in text][-1]
        assert "tests (a.txt): the file is empty; suggested: fill it" in second
        assert "REFERENCES_DIR=" in second
        assert harness.subjects(task)[1:-1] == ["feat(TASK-00): write a file"]
        builder, verifier, again, *_ = [line["event"]["session_id"] for line in harness.journal(part, "SessionStarted")]
        assert builder == again != verifier


def test_the_fourth_failed_verification_halts_the_work_even_if_the_daemon_was_killed_in_between(tmp_path: Path) -> None:
    scene = one_task(VERIFICATION=[verified(passes=False)] * 9)
    with DaemonHarness(tmp_path, scenario=scene) as harness:
        task = harness.submit(TEXT, pipeline="work-pipeline")
        part = f"{task}.TASK-00"
        harness.wait_for("the task", (harness.folder(part) / "state.json").exists)
        harness.wait_until(part, lambda _: harness.state(part)["budgets"]["verifications"]["used"] >= 2)
        harness.kill()
        harness.start()
        ended = harness.wait_for_end(part, TaskStatus.BLOCKED)
        assert "VERIFICATION failed, and no try is left: tests (a.txt): the file is empty" in (ended.block_reason or "")
        assert harness.state(part)["budgets"]["verifications"] == {"limit": 4, "used": 4}
        assert harness.state(task)["children"][0]["status"] == "submitted"


def test_a_builder_without_progress_is_told_the_reason_twice_and_then_halted(tmp_path: Path) -> None:
    unfinished = [built(status="IN_PROGRESS")] * 9
    with DaemonHarness(tmp_path, scenario=one_task(BUILD=unfinished)) as harness:
        task = harness.submit(TEXT, pipeline="work-pipeline")
        part = f"{task}.TASK-00"
        harness.wait_for("the task", (harness.folder(part) / "state.json").exists)
        ended = harness.wait_for_end(part, TaskStatus.BLOCKED)
        assert "TASK-00_progress.md: status not COMPLETED" in (ended.block_reason or "")
        assert len(harness.sent_turns(part)) == 3


def test_a_task_that_was_repaired_after_its_checks_failed_comes_home_as_one_commit(tmp_path: Path) -> None:
    broken = built()
    broken[0]["run"] += " && echo broken > textkit/__init__.py"
    mended = built()
    mended[0]["run"] += " && git checkout -q HEAD~1 -- textkit && git reset -q"
    with DaemonHarness(tmp_path, scenario=one_task(BUILD=[broken, mended])) as harness:
        task = harness.submit(TEXT, pipeline="work-pipeline")
        harness.wait_for_end(task)
        part = f"{task}.TASK-00"
        assert harness.state(part)["budgets"]["repairs"]["used"] == 1
        assert harness.subjects(task)[1:-1] == ["feat(TASK-00): write a file"]
        assert "Result: works/WORK-01/TASK-00_result.md" in git(
            harness.repo, "log", "-1", "--format=%b", f"{harness.state(task)['branch']}~1"
        )


def test_a_task_in_conflict_with_another_is_resolved_by_its_builder_and_comes_home(tmp_path: Path) -> None:
    go, tasks = tmp_path / "go", {"TASK-00": (), "TASK-01": ()}
    same = built()
    same[0]["run"] += " && echo $key > shared.txt"
    own = {"run": f"git reset -q --hard HEAD~1; {built()[0]['run']}"}
    turns = {"BUILD": [[{"wait_for": str(go)}, *same]], "CONFLICTS": [[own, *committed()]]}
    scene = scenario({"Requirement.md": requirement(demands=3)}, planned(tasks, Mode.FULL), **turns)
    with DaemonHarness(tmp_path, scenario=scene, max_agents=2) as harness:
        task = harness.submit(TEXT, pipeline="work-full")
        for key in tasks:
            harness.wait_for("a task", (harness.folder(f"{task}.{key}") / "state.json").exists)
            harness.wait_until_it_works(f"{task}.{key}", "BUILD")
        go.touch()
        harness.wait_for_end(task)
        assert sorted(harness.subjects(task)[1:-1]) == [f"feat({key}): write a file" for key in tasks]
        used = [harness.state(f"{task}.{key}")["budgets"]["conflicts"]["used"] for key in tasks]
        assert sorted(used) == [0, 1]


def test_tasks_that_depend_on_a_failed_one_are_skipped_and_the_work_is_not_done(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path, scenario=failing_first()) as harness:
        task = harness.submit(TEXT, pipeline="work-full")
        part = f"{task}.TASK-00"
        harness.wait_for("the task", (harness.folder(part) / "state.json").exists)
        harness.wait_until(part, lambda now: now.status is TaskStatus.BLOCKED and now.run is None)
        harness.client.request(part, "cancel")
        ended = harness.wait_for_end(task, TaskStatus.BLOCKED)
        assert "TASK-00 is failed" in (ended.block_reason or "")
        outcomes = {one["plan"]["key"]: one["status"] for one in harness.state(task)["children"]}
        assert outcomes == {"TASK-00": "failed", "TASK-01": "skipped", "TASK-02": "completed"}
        harness.client.request(task, "retry")
        harness.wait_for_end(task)
        assert sorted(harness.subjects(task)[1:-1]) == [f"feat(TASK-{n:02}): write a file" for n in range(3)]


@pytest.mark.parametrize(("pipeline", "reviews"), [("work-direct", 1), ("work-full", 2)])
def test_a_person_approves_a_direct_work_once_and_any_other_twice(tmp_path: Path, pipeline: str, reviews: int) -> None:
    plan_of_one = planned(ONE, Mode.DIRECT if reviews == 1 else Mode.PIPELINE)
    specified = {"Requirement.md": requirement(), **(plan_of_one if reviews == 1 else {})}
    with DaemonHarness(tmp_path, scenario=scenario(specified, plan_of_one)) as harness:
        task = harness.submit("[WORK] Write files.", pipeline=pipeline)
        approved = []
        for _ in range(reviews):
            asked = harness.wait_until(task, lambda now: [one for one in now.waiting if one.id not in approved])
            approved.append(asked.waiting[0].id)
            harness.request("POST", f"/api/reviews/{approved[-1]}/approve")
        harness.wait_for_end(task)


def test_two_works_of_a_repository_get_numbers_of_their_own(tmp_path: Path) -> None:
    never = [{"wait_for": str(tmp_path / "never")}]
    with DaemonHarness(tmp_path, scenario={"SPECIFICATION": [never, never]}) as harness:
        tasks = [harness.submit(TEXT, pipeline=name) for name in ("work", "work-direct")]
        assert [harness.state(task)["ticket_id"] for task in tasks] == ["WORK-01", "WORK-02"]


@pytest.mark.parametrize(
    ("name", "work", "subjects"),
    [
        ("korean", "WORK-03", ["docs(WORK-03): record", "feat(TASK-01)", "feat(TASK-02)"]),
        ("older", "WORK-12", ["docs(WORK-12): plan Export", "docs(WORK-12): record", "feat(TASK-01)"]),
        ("specified", "WORK-01", ["docs(WORK-01): plan Files", "docs(WORK-01): record", "feat(TASK-00)"]),
    ],
)
def test_a_work_that_the_original_tool_left_is_resumed(
    tmp_path: Path, name: str, work: str, subjects: list[str]
) -> None:
    turns = {"BUILD": [built(work)] * 9, "COMMIT": [committed(work)] * 9}
    with DaemonHarness(tmp_path, scenario=scenario({}, planned(ONE, Mode.PIPELINE), **turns)) as harness:
        shutil.copytree(ROOT / "tests/data/works" / name / "works", harness.repo / "works")
        git(harness.repo, "add", "-A")
        commit(harness.repo, {})
        task = harness.submit(f"{work} 파이프라인을 이어서 실행하라. 자동으로 진행", pipeline="work-direct")
        harness.wait_for_end(task)
        assert harness.state(task)["ticket_id"] == work
        found = sorted(harness.subjects(task))
        assert [one.startswith(wanted) for one, wanted in zip(found, subjects, strict=True)] == [True] * len(subjects)
        row = read_work_list(shown(harness, task, "works/WORK-LIST.md")).row(work)
        assert row is not None
        assert row.status is WorkStatus.DONE
        overview = read_overview(shown(harness, task, f"works/{work}/PROGRESS.md"))
        assert {one.state for one in overview.tasks} == {TaskState.DONE}


@pytest.mark.parametrize("name", ["", "korean"])
def test_a_work_in_a_folder_without_git_leaves_its_files_there(tmp_path: Path, name: str) -> None:
    small = {"Requirement.md": requirement(), **planned(ONE, Mode.DIRECT)}
    turns: dict[str, list[Any]] = (
        {"BUILD": [built("WORK-03")] * 9, "COMMIT": [committed("WORK-03")] * 9} if name else {}
    )
    with DaemonHarness(tmp_path, scenario=scenario(small, None, **turns)) as harness:
        folder = tmp_path / "plain"
        shutil.copytree(harness.repo, folder, ignore=shutil.ignore_patterns(".git"))
        if name:
            shutil.copytree(ROOT / "tests/data/works" / name / "works", folder / "works")
        work, text = ("WORK-03", "Resume WORK-03, without asking") if name else ("WORK-01", TEXT)
        task = harness.submit(text, pipeline="work", repo=folder, no_git=True)
        harness.wait_for_end(task)
        row = read_work_list((folder / "works/WORK-LIST.md").read_text("utf-8")).row(work)
        assert row is not None
        assert row.status is WorkStatus.DONE
        assert (folder / f"works/{work}/TASK-00_result.md").exists()
        assert not (folder / ".git").exists()


def test_a_work_whose_result_fails_its_checks_is_planned_again_and_what_is_done_stays_done(tmp_path: Path) -> None:
    both = {"TASK-00": (), "TASK-01": ("TASK-00",)}
    plans = [left(planned(ONE, Mode.PIPELINE)), left(planned(both, Mode.FULL))]
    scene = scenario({"Requirement.md": requirement(demands=3)}, PLANNING=plans)
    late = "test ! -f works/WORK-01/PROGRESS.md || test -f TASK-01.txt"
    with DaemonHarness(tmp_path, scenario=scene) as harness:
        task = harness.submit(TEXT, pipeline="work-full", checks={"late": late})
        harness.wait_for_end(task)
        assert harness.state(task)["budgets"]["replans"]["used"] == 1
        assert [one for one in harness.subjects(task) if one.startswith("feat")] == [
            "feat(TASK-00): write a file",
            "feat(TASK-01): write a file",
        ]
        overview = read_overview(shown(harness, task, "works/WORK-01/PROGRESS.md"))
        assert [(row.task, row.state) for row in overview.tasks] == [(key, TaskState.DONE) for key in both]


def test_what_cannot_be_a_work_is_refused_with_a_way_on(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    with DaemonHarness(tmp_path) as harness:
        plain.mkdir()
        refusals = {
            "git init": harness.cli("submit", TEXT, "--pipeline", "work", "--repo", str(plain)),
            "commit it first": harness.cli("submit", "Resume WORK-09", "--pipeline", "work", "-C", str(harness.repo)),
            "works are numbered WORK-NN": harness.cli(
                "submit", TEXT, "--pipeline", "work", "--ticket", "ABC-1", "-C", str(harness.repo)
            ),
            "--mode needs --pipeline": harness.cli("submit", TEXT, "--mode", "direct", "-C", str(harness.repo)),
        }
        assert {
            words for words, answer in refusals.items() if words not in answer.stderr or not answer.returncode
        } == set()
        direct = ("--pipeline", "work", "--mode", "direct")
        made = harness.cli("submit", TEXT, *direct, "-C", str(harness.repo), "--json")
        assert harness.state(json.loads(made.stdout)["id"])["pipeline_variant"] == "work-direct"
