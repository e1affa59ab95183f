"""Specified works: a requirement, a plan, tasks as children, and one commit for each of them."""

from pathlib import Path

import pytest

from orchestrator.pipelines.families.works.documents.names import Mode
from orchestrator.pipelines.families.works.documents.overview import TaskState, read_overview
from orchestrator.pipelines.families.works.documents.work_list import WorkStatus, read_work_list
from tests.acceptance.harness import DaemonHarness
from tests.acceptance.works_harness import planned, requirement, scenario
from tests.fakes.repositories import git

TEXT = "[WORK] Write files. Proceed automatically."
ONE = {"TASK-00": ()}
DIAMOND = {"TASK-00": (), "TASK-01": ("TASK-00",), "TASK-02": ("TASK-00",), "TASK-03": ("TASK-01", "TASK-02")}


def shown(harness: DaemonHarness, task: str, path: str) -> str:
    """A file of the delivered branch."""
    return git(harness.repo, "show", f"{harness.state(task)['branch']}:{path}")


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
        assert "_COMMIT_TASK-03" in shown(harness, task, "works/WORK-01/work_WORK-01.log")
