"""The real claude CLI in a specified work: from a requirement to one commit for each task, over two crashes."""

import re
from pathlib import Path

import pytest

from orchestrator.core.task.task import TaskStatus
from orchestrator.pipelines.families.works.documents.names import Mode
from orchestrator.pipelines.families.works.documents.work_list import WorkStatus, read_work_list
from tests.acceptance.claude_harness import ClaudeHarness, Ticker
from tests.acceptance.claude_roles import bash, write
from tests.acceptance.works_harness import KEY, built, committed, planned, requirement, verified
from tests.fakes.repositories import git
from tests.fakes.scripted_model import Reply, Say, Scene, ScriptedModel, in_order

pytestmark = pytest.mark.claude

TASKS = {"TASK-00": (), "TASK-01": ("TASK-00",)}


def agents(before: dict[tuple[str, str], str]) -> ScriptedModel:
    """Return a model that does every agent's part; `before` has the commands that run first, by stage and task."""

    def model(scene: Scene) -> Reply:
        stage, key = re.findall(r"# (\w+) of ([\w.-]+)", scene.prompt)[0]
        outbox = Path(re.findall(r"^outbox: (.+)$", scene.prompt, re.MULTILINE)[0])
        key = key.partition(".")[2]
        first = f"{before.get((stage, key), 'true')}; key={key}; "
        match stage:
            case "SPECIFICATION":
                return in_order(scene, write(outbox / "Requirement.md", requirement(demands=3)), Say("It is there."))
            case "PLANNING":
                files = planned(TASKS, Mode.FULL).items()
                return in_order(scene, *(write(outbox / name, text) for name, text in files), Say("It is planned."))
            case "BUILD":
                work, result = built()[:2]
                return in_order(scene, bash(work["run"].replace(KEY, first)), Say(result["say"]))
            case "VERIFICATION":
                return in_order(scene, bash(f"test -f {key}.txt"), Say(verified()[0]["say"]))
            case _:
                return in_order(scene, bash(committed()[0]["run"].replace(KEY, first)), Say("It is committed."))

    return model


def test_a_work_is_done_task_by_task_over_two_crashes(claude: Path, tmp_path: Path) -> None:
    (tmp_path / "first").mkdir()
    (tmp_path / "again").mkdir()
    first, again = Ticker(tmp_path / "first"), Ticker(tmp_path / "again")
    model = agents({("BUILD", "TASK-00"): first.command, ("COMMIT", "TASK-01"): again.command})
    with ClaudeHarness(claude, tmp_path, model) as harness:
        name = harness.submit("Write files. Proceed automatically.", pipeline="work")
        harness.crash_during(first, again)
        task = harness.end_of(name)
        assert (task.status, task.block_reason) == (TaskStatus.COMPLETED, None)
        log = git(harness.repository, "log", "--reverse", "--format=%s", f"main..{task.branch}").splitlines()
        assert log == [
            "docs(WORK-01): plan Files",
            "feat(TASK-00): write a file",
            "feat(TASK-01): write a file",
            "docs(WORK-01): record its outcome",
        ]
        row = read_work_list(git(harness.repository, "show", f"{task.branch}:works/WORK-LIST.md")).row("WORK-01")
        assert row is not None
        assert row.status is WorkStatus.DONE
        prompts = [
            scene.prompt for scene in harness.api.scenes if scene.prompt.startswith("# BUILD of WORK-01.TASK-01")
        ]
        assert prompts[0].count("REFERENCES_DIR=") == 1
        dispatch = (harness.data / "tasks" / f"{name}.TASK-01" / "dispatch.xml").read_text("utf-8")
        assert 'to="committer"' in dispatch
        assert harness.played_twice() == []
        assert harness.survivors() == []
