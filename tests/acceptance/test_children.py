"""A task whose work is divided among children: tasks of their own, whose commits come home to its branch."""

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.task.agent import PauseReason
from orchestrator.core.task.task import TaskStatus
from tests.acceptance.harness import DaemonHarness, Json
from tests.documents import ROOT
from tests.fakes.repositories import git

PIPELINES = ROOT / "tests/data/pipelines_with_children"
PLAN_OF_PART = {
    "write": {"file": "$ORCHESTRATOR_OUTBOX/plan.md", "text": "## Step 1: Write the file\n"},
    "no_work": True,
}
BUILT = [{"write": {"file": "$ORCHESTRATOR_TASK.txt", "text": "done\n"}, "commit": "Write the file", "no_work": True}]


def divided(*children: Json, build: Any = None) -> Json:
    """A scenario in which the work is divided among these children, and each writes a file named after it."""
    plan = {"children": list(children)}
    division = {"write": {"file": "$ORCHESTRATOR_OUTBOX/children.json", "text": json.dumps(plan)}, "no_work": True}
    return {"DIVISION": [division], "PART_PLAN": [PLAN_OF_PART], "BUILD": [build or BUILT]}


def child(key: str, *after: str) -> Json:
    """A child of a plan."""
    return {"key": key, "title": f"Part {key}", "text": f"Write the part {key}.", "after": list(after)}


def with_children(root: Path, scenario: Json, places: int = 1, **settings: Any) -> DaemonHarness:
    """A daemon that knows the pipelines with children."""
    folders = {"pipelines": [str(PIPELINES)]}
    return DaemonHarness(root, scenario=scenario, max_agents=places, folders=folders, **settings)


def wait_until_built(harness: DaemonHarness, name: str) -> None:
    """Wait until a child's implementer is at work."""
    wait_for_child(harness, name)
    harness.wait_for("the turn of its implementer", lambda: len(harness.sent_turns(name)) > 1)
    harness.wait_until_it_works(name, "BUILD")


def wait_for_child(harness: DaemonHarness, name: str) -> None:
    """Wait until a child is a task."""
    harness.wait_for("a child", (harness.folder(name) / "state.json").exists)


@pytest.mark.parametrize("places", [1, 3])
def test_the_work_of_children_comes_home_to_one_branch(tmp_path: Path, places: int) -> None:
    scenario = divided(child("A"), child("B"), child("C", "A", "B"))
    with with_children(tmp_path, scenario, places) as harness:
        parent = harness.submit(pipeline="parts")
        harness.wait_for_end(parent)
        delivered = harness.state(parent)["branch"]
        assert harness.subjects(parent) == ["Write the file"] * 3
        files = git(harness.repo, "ls-tree", "--name-only", delivered).split()
        assert {f"{parent}.{key}.txt" for key in "ABC"} <= set(files)
        assert git(harness.repo, "branch", "--list", "--format=%(refname:short)").split() == [delivered, "main"]
        ended = {key: harness.state(f"{parent}.{key}") for key in "ABC"}
        assert {state["status"] for state in ended.values()} == {"completed"}
        assert ended["C"]["started_at"] >= max(ended[key]["completed_at"] for key in "AB")
        assert [one["status"] for one in harness.state(parent)["children"]] == ["completed"] * 3


def test_a_child_that_commits_step_by_step_brings_one_commit_home(tmp_path: Path) -> None:
    scenario = divided(child("A"), child("B"))
    scenario["PART_PLAN"] = [
        {
            "write": {"file": "$ORCHESTRATOR_OUTBOX/plan.md", "text": "## Step 1: Begin\n## Step 2: End\n"},
            "no_work": True,
        }
    ]
    scenario["BUILD"] = [
        {"run": f"echo {name} >> $ORCHESTRATOR_TASK.txt", "commit": f"{name} the file", "no_work": True}
        for name in ("Begin", "End")
    ]
    with with_children(tmp_path, scenario, places=2) as harness:
        parent = harness.submit(pipeline="parts")
        harness.wait_for_end(parent)
        assert harness.subjects(parent) == ["End the file"] * 2
        branch = harness.state(parent)["branch"]
        for key in "AB":
            assert git(harness.repo, "show", f"{branch}:{parent}.{key}.txt").split() == ["Begin", "End"]
            judged = harness.journal(f"{parent}.{key}", "CheckFinished")
            assert len(judged) >= 2, "what came home was judged as it is there"


def test_a_parent_says_which_children_it_waits_for_and_holds_no_slot(tmp_path: Path) -> None:
    go = tmp_path / "go"
    with with_children(
        tmp_path, divided(child("A"), child("B", "A"), build=[{"wait_for": str(go)}, *BUILT])
    ) as harness:
        parent = harness.submit(pipeline="parts")
        wait_for_child(harness, f"{parent}.A")
        harness.wait_until_it_works(f"{parent}.A", "BUILD")
        why = harness.client.why(parent)
        assert "2 of its 2 children have not ended: A, B" in why.facts
        assert f"orchestrator why {parent}.A" in why.next
        assert f"{parent}.A" in " ".join(harness.client.why(f"{parent}.B").facts)
        go.touch()
        harness.wait_for_end(parent)


def test_a_cancelled_parent_takes_its_children_with_it(tmp_path: Path) -> None:
    never = [{"wait_for": str(tmp_path / "never")}]
    with with_children(tmp_path, divided(child("A"), child("B"), build=never), places=2) as harness:
        parent = harness.submit(pipeline="parts")
        for key in "AB":
            wait_for_child(harness, f"{parent}.{key}")
            harness.wait_until_it_works(f"{parent}.{key}", "BUILD")
        harness.client.request(parent, "cancel")
        for name in (parent, f"{parent}.A", f"{parent}.B"):
            harness.wait_for_end(name, TaskStatus.CANCELLED)
        assert harness.nothing_is_left()


def test_children_that_depend_on_a_failed_one_are_skipped_and_the_others_come_home(tmp_path: Path) -> None:
    go = tmp_path / "go"
    scenario = divided(child("A"), child("B", "A"), child("C"), build=[{"wait_for": str(go)}, *BUILT])
    with with_children(tmp_path, scenario) as harness:
        parent = harness.submit(pipeline="parts")
        wait_for_child(harness, f"{parent}.A")
        harness.wait_until_it_works(f"{parent}.A", "BUILD")
        harness.client.request(f"{parent}.A", "cancel")
        go.touch()
        harness.wait_for_end(parent)
        outcomes = {one["plan"]["key"]: one["status"] for one in harness.state(parent)["children"]}
        assert outcomes == {"A": "failed", "B": "skipped", "C": "completed"}
        assert harness.subjects(parent) == ["Write the file"]


def test_children_of_a_killed_daemon_are_made_once_and_come_home_once(tmp_path: Path) -> None:
    keys = [f"P{number}" for number in range(4)]
    with with_children(tmp_path, divided(*map(child, keys)), places=2) as harness:
        parent = harness.submit(pipeline="parts")
        for key in keys:
            wait_for_child(harness, f"{parent}.{key}")
            harness.kill()
            harness.start()
        harness.wait_for_end(parent)
        assert harness.subjects(parent) == ["Write the file"] * 4
        assert len(list((harness.data / "tasks").glob(f"{parent}*"))) == 5


@pytest.mark.parametrize("is_known", [True, False])
def test_work_that_a_parents_branch_has_lost_is_brought_home_again(tmp_path: Path, is_known: bool) -> None:
    scenario, go = divided(child("A"), child("B")), tmp_path / "go"
    scenario["BUILD of B"] = [[{"wait_for": str(go)}, *BUILT]]
    with with_children(tmp_path, scenario, places=2) as harness:
        parent = harness.submit(pipeline="parts")
        harness.wait_for("the end of A", lambda: harness.journal(parent, "ChildEnded"))
        harness.wait_until_it_works(f"{parent}.B", "BUILD")
        harness.kill()
        work = harness.state(f"{parent}.A")
        lose(harness, parent, work["base_commit"])
        if not is_known:
            forget(harness, parent, "ChildEnded")
        go.touch()
        harness.start()
        harness.wait_for_end(parent)
        files = git(harness.repo, "ls-tree", "--name-only", harness.state(parent)["branch"]).split()
        assert {f"{parent}.A.txt", f"{parent}.B.txt"} <= set(files)
        assert len(harness.subjects(parent)) == 2
        restored = harness.journal(parent, "WorkspaceReady")[-1]["event"]["restored_from"]
        assert restored == f"{work['head']}, the work of {parent}.A, which it lacked"


def lose(harness: DaemonHarness, parent: str, commit: str) -> None:
    """Let a parent's branch be as it was at a commit, as a copy of the data folder may have it."""
    (clone,) = (harness.data / "repos").glob("repo-*")
    git(clone, "update-ref", f"refs/orchestrator/{parent}/joined", commit)


def forget(harness: DaemonHarness, task: str, trigger: str) -> None:
    """Let a task's journal end before the first decision of this kind."""
    folder = harness.folder(task)
    lines = (folder / "journal.jsonl").read_bytes().splitlines(keepends=True)
    first = next(number for number, line in enumerate(lines) if json.loads(line)["trigger"] == trigger)
    (folder / "journal.jsonl").write_bytes(b"".join(lines[:first]))
    (folder / "state.json").unlink()


def test_a_child_in_conflict_with_another_is_told_so_and_comes_home_when_that_is_resolved(tmp_path: Path) -> None:
    same_file = {"run": "echo of $ORCHESTRATOR_TASK > shared.txt", "commit": "Write the file", "no_work": True}
    own_file = {
        "run": "git reset -q --hard HEAD~1 && echo done > $ORCHESTRATOR_TASK.txt",
        "commit": "Write a file of its own",
        "no_work": True,
    }
    go = tmp_path / "go"
    scenario = divided(child("A"), child("B"))
    scenario["BUILD"] = [[{"wait_for": str(go)}, same_file], own_file]
    with with_children(tmp_path, scenario, places=2) as harness:
        parent = harness.submit(pipeline="parts")
        for key in "AB":
            wait_for_child(harness, f"{parent}.{key}")
            harness.wait_until_it_works(f"{parent}.{key}", "BUILD")
        go.touch()
        harness.wait_for_end(parent)
        assert sorted(harness.subjects(parent)) == ["Write a file of its own", "Write the file"]
        replayed, *_ = [
            line["event"]
            for key in "AB"
            for line in harness.journal(f"{parent}.{key}", "BranchReplayed")
            if line["event"]["conflicts"]
        ]
        assert replayed["conflicts"] == ["shared.txt"]
        told = [text for key in "AB" for attempt in (1, 2, 3) for text in turns(harness, f"{parent}.{key}", attempt)]
        assert any("shared.txt" in text and replayed["onto"] in text for text in told)


@pytest.mark.parametrize("places", [1, 3])
def test_a_parent_and_its_children_share_one_budget_which_a_raise_of_the_parents_frees(
    tmp_path: Path, places: int
) -> None:
    with with_children(tmp_path, divided(child("A"), child("B")), places, budget={"task": {"turns": 3}}) as harness:
        parent = harness.submit(pipeline="parts")
        wait_for_child(harness, f"{parent}.B")
        harness.wait_until(parent, lambda now: now.spent_by_all.turns == 3)
        over = f"the budget of {parent} and its children is used up: 3 of 3 turns are used"
        children = [f"{parent}.{key}" for key in "AB"]

        def held() -> list[str]:
            """The children that wait for the budget, once each does or has ended."""
            live = [name for name in children if harness.client.task(name).status is not TaskStatus.COMPLETED]
            return live if all(over in harness.client.why(name).facts for name in live) else []

        harness.wait_for("children that wait for the budget", held)
        harness.kill()
        harness.start()
        for name in harness.wait_for("children that still wait for it", held):
            assert f"orchestrator budget {parent} --turns NUMBER" in harness.client.why(name).next
        assert "3 of 3 turns, with its children" in harness.cli("show", parent).stdout
        assert "3 of 3 turns, with its children" in harness.cli("status").stdout
        assert len(set(harness.taken_turns())) == 3
        assert harness.cli("budget", parent, "--turns", "9").returncode == 0
        ended = harness.wait_for_end(parent)
        assert (ended.spent.turns, ended.spent_by_all.turns) == (1, 5)
        assert len(set(harness.taken_turns())) == 5


def turns(harness: DaemonHarness, task: str, attempt: int) -> list[str]:
    """The turns of one attempt of a task; none if there was no such attempt."""
    return (
        harness.turn_texts(task, attempt) if (harness.folder(task) / f"agents/{attempt}/stdin.jsonl").exists() else []
    )


def test_what_is_asked_of_a_parent_is_asked_of_its_children(tmp_path: Path) -> None:
    go = tmp_path / "go"
    scenario = divided(child("A"), child("B", "A"), build=[{"wait_for": str(go)}, *BUILT])
    with with_children(tmp_path, scenario) as harness:
        parent = harness.submit(pipeline="parts")
        wait_until_built(harness, f"{parent}.A")
        harness.client.request(parent, "pause")
        harness.wait_until_frozen(f"{parent}.A")
        assert {harness.client.task(name).agent.blocked_by for name in (parent, f"{parent}.A", f"{parent}.B")} == {
            PauseReason.USER
        }
        harness.client.request(parent, "resume")
        go.touch()
        harness.wait_for_end(parent)
        shown = harness.cli("show", parent).stdout
        assert f"{parent}.A" in shown
        assert "Part B" in shown
        harness.client.request(parent, "archive")
        assert {harness.state(f"{parent}.{key}")["status"] for key in "AB"} == {"archived"}
        assert harness.cli("delete", parent, "--yes").returncode == 0
        assert list((harness.data / "tasks").glob(f"{parent}*")) == []


def test_the_beginning_of_a_parents_id_means_the_parent(tmp_path: Path) -> None:
    with with_children(tmp_path, divided(child("A"), child("B"))) as harness:
        parent = harness.submit(pipeline="parts")
        harness.wait_for_end(parent)
        assert harness.client.task(parent[:-2]).id == parent
        assert harness.client.task(f"{parent}.A").parent == parent
