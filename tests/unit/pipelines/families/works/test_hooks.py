"""What the family of works does for the engine: it begins, reads, examines, prepares and records."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest

from orchestrator.core.family.family import Submitted
from orchestrator.core.family.verdict import Verdict
from orchestrator.core.records.projection import Projected
from orchestrator.core.task.children import Child, ChildStatus
from orchestrator.core.task.guards import Evidence, FileFacts
from orchestrator.core.task.task import Task
from orchestrator.core.task.task_policy import Autonomy
from orchestrator.pipelines.families.works.beginning import RESUMED, begin
from orchestrator.pipelines.families.works.dispatching import DISPATCH, VERIFIED, brief, prepare
from orchestrator.pipelines.families.works.documents.names import Mode
from orchestrator.pipelines.families.works.documents.overview import TaskState, read_overview
from orchestrator.pipelines.families.works.documents.requirement import read_requirement
from orchestrator.pipelines.families.works.documents.work_list import WorkStatus, read_work_list
from orchestrator.pipelines.families.works.exchange.dispatch import Dispatch, read_dispatches
from orchestrator.pipelines.families.works.exchange.handoff import Detail
from orchestrator.pipelines.families.works.exchange.task_result import Outcome
from orchestrator.pipelines.families.works.guards import CommitSubject, PlannedIfSmall, ProgressCompleted, WorkIsSmall
from orchestrator.pipelines.families.works.projection import WorkProjection
from orchestrator.pipelines.families.works.reading import BUILT, examine, read_children, read_verdict
from orchestrator.pipelines.families.works.recording import records
from orchestrator.pipelines.families.works.reference import FORMATS
from tests.acceptance.works_harness import built, plan, planned, report_of, requirement, task_file, verified
from tests.documents import ROOT
from tests.fakes.tasks import submitted

AT = datetime(2026, 2, 3, 4, 5, tzinfo=UTC)
CHAIN = {"TASK-00": (), "TASK-01": ("TASK-00",), "TASK-02": ("TASK-01",)}
DIAMOND = {"TASK-00": (), "TASK-01": ("TASK-00",), "TASK-02": ("TASK-00",), "TASK-03": ("TASK-01", "TASK-02")}


@dataclass(frozen=True)
class Given:
    """Files of a task in memory: its artifacts by name, and those of its branch by path."""

    artifacts: Mapping[str, str] = field(default_factory=dict)
    tree: Mapping[str, str] = field(default_factory=dict)

    def artifact(self, name: str) -> str | None:
        """Return an artifact."""
        return self.artifacts.get(name)

    def committed(self, path: str) -> str | None:
        """Return a file of the branch."""
        return self.tree.get(path)

    def names(self, folder: str) -> tuple[str, ...]:
        """Return the paths below a folder."""
        return tuple(sorted(path for path in self.tree if path.startswith(f"{folder}/")))


def folder(name: str) -> Given:
    """A repository with a work that the original tool left."""
    top = ROOT / "tests/data/works" / name
    paths = (path for path in top.rglob("*") if path.is_file())
    return Given(tree={str(path.relative_to(top)): path.read_text("utf-8") for path in paths})


def asked(text: str, **more: object) -> Submitted:
    """A submission to the pipeline `work`."""
    return replace(Submitted(text=text, title=text[:40], pipeline="work"), **more)  # type: ignore[arg-type]


def work(role: str = "work-planner", pipeline: str = "work", children: tuple[Child, ...] = ()) -> Task:
    """The task of a work, with an agent of that role."""
    task = submitted()
    ticket = replace(task.ticket, key="WORK-01")
    return replace(task, ticket=ticket, agent=replace(task.agent, role=role), pipeline=pipeline, children=children)


def part(key: str, role: str) -> Task:
    """The task of a part of a work, with an agent of that role."""
    task = work(role, "work-task")
    return replace(task, parent="WORK-01_x", ticket=replace(task.ticket, key=f"WORK-01.{key}"), title=f"Write {key}")


def on_branch(tasks: Mapping[str, tuple[str, ...]], done: tuple[str, ...] = ()) -> dict[str, str]:
    """The files of a work on its branch; the tasks in `done` have results."""
    files = planned(tasks, Mode.FULL) | {f"{key}_result.md": report_of(key) for key in done}
    return {f"works/WORK-01/{name}": text for name, text in files.items()}


def test_a_work_gets_the_number_after_the_highest_of_the_list_the_folders_and_the_live_tasks() -> None:
    assert begin(asked("x"), Given()).key == "WORK-01"
    listed = Given(tree={"works/WORK-LIST.md": "LAST_WORK_ID: WORK-07\n"})
    assert begin(asked("x"), listed).key == "WORK-08"
    assert begin(asked("x", keys=("WORK-09", "WORK-09.TASK-00", "ABC-3")), listed).key == "WORK-10"
    tree = {"works/WORK-08/PLAN.md": "", "works/_COMPLETED/WORK-09/PLAN.md": ""}
    assert begin(asked("x"), Given(tree={**listed.tree, **tree})).key == "WORK-10"


def test_a_phrase_at_the_end_decides_whether_anybody_is_asked() -> None:
    assert begin(asked("Write it. Proceed automatically."), Given()).autonomy is Autonomy.AUTO
    assert begin(asked("Write automatic tests"), Given()).autonomy is Autonomy.INTERACTIVE


def test_a_key_that_names_no_work_or_a_known_one_is_refused() -> None:
    with pytest.raises(ValueError, match="works are numbered WORK-NN"):
        begin(asked("x", ticket="ABC-1"), Given())
    with pytest.raises(ValueError, match="submit 'Resume WORK-12'"):
        begin(asked("x", ticket="WORK-12"), folder("older"))
    assert begin(asked("x", ticket="WORK-13"), folder("older")).key == "WORK-13"


def test_a_korean_work_continues_with_the_tasks_that_are_not_done() -> None:
    begun = begin(asked("WORK-03 파이프라인을 이어서 실행하라."), folder("korean"))
    assert (begun.key, begun.pipeline) == ("WORK-03", "work")
    drafts = read_children(begun.files["PLAN.md"], Given(artifacts=begun.files))
    assert [(one.key, one.title, one.after) for one in drafts] == [("TASK-01", "목록", ()), ("TASK-02", "삭제", ())]


def test_an_older_work_without_requirement_and_without_some_task_files_continues() -> None:
    begun = begin(asked("Resume WORK-12"), folder("older"))
    (draft,) = read_children(begun.files["PLAN.md"], Given(artifacts=begun.files))
    assert (draft.key, draft.after) == ("TASK-01", ())
    assert "the command line" in draft.text


def test_a_work_that_has_only_a_requirement_continues_with_its_planner() -> None:
    begun = begin(asked("Resume WORK-01"), folder("specified"))
    assert list(begun.files) == ["Requirement.md"]


def test_a_finished_work_is_recognised_and_an_unknown_one_is_refused() -> None:
    finished = Given(tree=on_branch({"TASK-00": (), "TASK-01": ()}, ("TASK-00", "TASK-01")))
    with pytest.raises(ValueError, match="every task of WORK-01 is done"):
        begin(asked("Resume WORK-01"), finished)
    with pytest.raises(ValueError, match="commit it first"):
        begin(asked("Resume WORK-44"), finished)


def test_the_dependencies_of_a_plan_become_those_of_its_children() -> None:
    drafts = read_children(plan(DIAMOND, Mode.FULL), Given(artifacts=planned(DIAMOND, Mode.FULL)))
    assert {one.key: one.after for one in drafts} == DIAMOND
    (only,) = read_children(plan({"TASK-00": ()}, Mode.DIRECT), Given(artifacts=planned({"TASK-00": ()}, Mode.DIRECT)))
    assert only.pipeline == "work-task-direct"


def test_a_plan_without_its_files_or_with_a_task_twice_is_refused() -> None:
    with pytest.raises(ValueError, match=r"without a file: TASK-00\.md"):
        read_children(plan({"TASK-00": ()}, Mode.FULL), Given())
    twice = plan({"TASK-00": ()}, Mode.FULL) + "\n### TASK-00: again\n"
    with pytest.raises(ValueError, match="more than one heading for TASK-00"):
        read_children(twice, Given(artifacts=planned({"TASK-00": ()}, Mode.FULL)))


def test_what_is_wrong_with_a_file_is_said_to_its_author() -> None:
    planner, given_plan = work(), plan(CHAIN, Mode.PIPELINE)
    wrong = examine(planner, "PLAN.md", given_plan, Given()).problems
    assert wrong == ("Execution-Mode must be full, because it has 3 tasks",)
    assert examine(planner, "PLAN.md", plan(CHAIN, Mode.FULL), Given()).problems == ()
    specifier = work("specifier")
    assert examine(specifier, "PLAN.md", given_plan, Given()).problems == (
        "Execution-Mode must be direct, not pipeline",
    )
    extra = examine(planner, "TASK-07.md", task_file("TASK-07"), Given(artifacts={"PLAN.md": given_plan})).problems
    assert extra == ("PLAN.md has no '### TASK-07: title' for it",)
    builder = part("TASK-00", "builder")
    assert examine(builder, "works/WORK-01/TASK-00_progress.md", "", Given()).problems == ("status not COMPLETED",)
    assert examine(builder, "works/WORK-01/TASK-00_result.md", "", Given()).problems
    assert examine(builder, BUILT, "all done", Given()).problems
    failed = next(str(one["say"]) for one in built(outcome=Outcome.FAIL) if "say" in one)
    assert examine(builder, BUILT, failed, Given()).problems == ("the builder says that it failed: built",)


def test_a_requirement_is_marked_small_by_its_size_or_by_a_direct_pipeline() -> None:
    def marks(pipeline: str, demands: int) -> tuple[str, ...]:
        return examine(work("specifier", pipeline), "Requirement.md", requirement(demands=demands), Given()).marks

    assert marks("work", 2) == ("small",)
    assert marks("work", 3) == ()
    assert marks("work-direct", 3) == ("small",)


def test_the_guards_of_the_family_name_what_is_missing() -> None:
    small, plain_facts = FileFacts(chars=9, marks=("small",)), FileFacts(chars=9)
    seen = Evidence(files={"Requirement.md": small})
    assert WorkIsSmall(file="Requirement.md").missing(work(), seen) == ()
    assert PlannedIfSmall(file="Requirement.md").missing(work(), seen) == (
        "the work is small, so you plan it: PLAN.md not found",
        "the work is small, so you plan it: TASK-00.md not found",
    )
    large = Evidence(files={"Requirement.md": plain_facts})
    assert PlannedIfSmall(file="Requirement.md").missing(work(), large) == ()
    assert WorkIsSmall(file="Requirement.md").missing(work(), large)
    progress = ProgressCompleted(file="works/{parent}/{key}_progress.md")
    builder = part("TASK-00", "builder")
    name = "works/WORK-01/TASK-00_progress.md"
    assert progress.missing(builder, Evidence()) == (f"{name}: progress.md not found",)
    bad = Evidence(files={name: FileFacts(chars=9, problems=("no files changed",))})
    assert progress.missing(builder, bad) == (f"{name}: no files changed",)
    subjects = ("feat(TASK-00): a", "feat(TASK-01): a", "feat: a", "wip(TASK-00): a", "feat(TASK-00):a")
    assert len(CommitSubject().missing(builder, Evidence(subjects=subjects))) == 4


def dispatch_for(key: str, role: str, files: Given) -> Dispatch:
    """The dispatch that an agent of that role is given."""
    given_files = prepare(part(key, role), "BUILD", files)
    assert "Requirement" in given_files[FORMATS]
    (dispatch,) = read_dispatches(given_files[DISPATCH])
    return dispatch


def test_a_builder_is_told_all_of_the_nearest_tasks_and_less_of_those_before() -> None:
    dispatch = dispatch_for("TASK-03", "builder", Given(tree=on_branch(DIAMOND, ("TASK-00", "TASK-01", "TASK-02"))))
    assert [(one.task, one.detail) for one in dispatch.handoffs] == [
        ("TASK-01", Detail.FULL),
        ("TASK-02", Detail.FULL),
        ("TASK-00", Detail.SUMMARY),
    ]
    assert [(one.task, one.status) for one in dispatch.results] == [("TASK-01", "PASS"), ("TASK-02", "PASS")]
    assert (dispatch.to, dispatch.work, dispatch.action) == ("builder", "WORK-01", "implement")
    assert dispatch.file == "works/WORK-01/TASK-03.md"
    far = {**CHAIN, "TASK-03": ("TASK-02",)}
    dropped = dispatch_for("TASK-03", "builder", Given(tree=on_branch(far, tuple(CHAIN))))
    assert [one.task for one in dropped.handoffs] == ["TASK-02", "TASK-01"]


def test_a_verifier_is_told_the_builders_handoff_and_a_committer_both() -> None:
    said = {BUILT: built(), VERIFIED: verified()}
    artifacts = {name: next(str(one["say"]) for one in turn if "say" in one) for name, turn in said.items()}
    files = Given(artifacts=artifacts, tree=on_branch(CHAIN))
    (first,) = dispatch_for("TASK-00", "verifier", files).handoffs
    assert (first.source, first.detail, first.why) == ("builder", Detail.FULL, "it was missing")
    found = dispatch_for("TASK-00", "committer", files).handoffs
    assert [(one.source, one.detail) for one in found] == [("verifier", Detail.FULL), ("builder", Detail.SUMMARY)]
    direct = Given(artifacts={BUILT: artifacts[BUILT]}, tree=on_branch(CHAIN))
    assert [one.detail for one in dispatch_for("TASK-00", "committer", direct).handoffs] == [Detail.FULL]


def test_every_agent_is_told_where_its_references_are() -> None:
    for task in (work("specifier", "work-direct"), work(), part("TASK-00", "builder"), part("TASK-00", "committer")):
        text = brief(task, "X")
        assert text.startswith(f"REFERENCES_DIR={task.folder}\n")
        assert "works/WORK-01/" in text
    assert "TASK-00.md as well" in brief(work("specifier", "work-direct"), "X")
    assert not brief(work("evaluator"), "X")


def test_hostile_files_of_a_branch_stop_no_preparation() -> None:
    tree = on_branch(CHAIN, ("TASK-00",))
    huge = dict.fromkeys(tree, "x" * 300000)
    other = {path: text.replace("TASK-00", "WORK-99-TASK-00") for path, text in tree.items()}
    for hostile in (huge, other, dict.fromkeys(tree, ""), {}):
        assert prepare(part("TASK-01", "builder"), "BUILD", Given(tree=hostile))[DISPATCH]


def test_a_verdict_is_read_from_a_task_result_or_from_json() -> None:
    passed, failed = (str(verified(passes=passes)[0]["say"]) for passes in (True, False))
    assert read_verdict(passed) == Verdict(passed=True)
    assert read_verdict(failed).failures == ("tests (a.txt): the file is empty; suggested: fill it",)
    assert read_verdict('{"criteria": [{"id": "C1", "status": "passed"}]}').passed
    for text in ("it passed", passed.replace('status="PASS"', 'status="YES"', 1)):
        with pytest.raises(ValueError, match="task-result"):
            read_verdict(text)


def test_a_failed_verdict_without_details_gives_its_reason() -> None:
    text = '<task-result agent="verifier" status="FAIL"><reason>no files changed</reason></task-result>'
    assert read_verdict(text).failures == ("no files changed",)


def child(key: str, status: ChildStatus) -> Child:
    """A child of a work."""
    (draft,) = read_children(plan({key: ()}, Mode.FULL), Given(artifacts={f"{key}.md": task_file(key)}))
    return Child(plan=draft.plan, task=f"x.{key}", status=status, commit="c" * 40, reason="it broke")


def test_the_plan_is_recorded_with_a_line_in_the_list_and_only_once() -> None:
    artifacts = {"Requirement.md": requirement(), **planned(CHAIN, Mode.FULL)}
    task = work(children=tuple(child(key, ChildStatus.PLANNED) for key in CHAIN))
    found = records(task, "RECORD", Given(artifacts=artifacts), AT)
    assert found.message == "docs(WORK-01): plan Files"
    assert set(found.files) == {
        "works/WORK-LIST.md",
        *(f"works/WORK-01/{name}" for name in ("Requirement.md", "PLAN.md", "work_WORK-01.log")),
        *(f"works/WORK-01/{key}{end}" for key in CHAIN for end in (".md", "_progress.md")),
    }
    row = read_work_list(found.files["works/WORK-LIST.md"]).row("WORK-01")
    assert row is not None
    assert (row.status, row.created, row.completed) == (WorkStatus.IN_PROGRESS, "2026-02-03", "")
    asked_for = Given(artifacts={**artifacts, "ticket.json": '{"description": "Word\\n## for word"}'})
    verbatim = records(task, "RECORD", asked_for, AT).files["works/WORK-01/Requirement.md"]
    assert read_requirement(verbatim).request == "Word\n## for word"
    assert read_requirement(verbatim).criteria == ("the files exist",)
    resumed = Given(artifacts={**artifacts, "ticket.json": '{"description": "Resume WORK-01"}'})
    assert records(task, "RECORD", resumed, AT).files["works/WORK-01/Requirement.md"] == requirement()
    again = records(task, "RECORD", Given(artifacts=artifacts, tree=found.files), AT)
    assert {path: text for path, text in again.files.items() if found.files[path] != text} == {}


def test_the_outcome_has_every_task_with_its_state_and_its_commit_and_the_date() -> None:
    before = {"works/WORK-LIST.md": "| WORK-01 | Files | IN_PROGRESS | 2026-01-01 | |\n"}
    artifacts = planned(CHAIN, Mode.FULL) | {RESUMED: '{"tasks": ["TASK-00"], "done": ["TASK-00"]}'}
    done = tuple(child(key, ChildStatus.COMPLETED) for key in ("TASK-01", "TASK-02"))
    found = records(work(children=done), "CLOSING", Given(artifacts=artifacts, tree=before), AT).files
    overview = read_overview(found["works/WORK-01/PROGRESS.md"])
    assert [(row.task, row.state, row.commit) for row in overview.tasks] == [
        ("TASK-00", TaskState.DONE, ""),
        ("TASK-01", TaskState.DONE, "c" * 12),
        ("TASK-02", TaskState.DONE, "c" * 12),
    ]
    assert "| WORK-01 | Files | DONE | 2026-01-01 | 2026-02-03 |" in found["works/WORK-LIST.md"]
    assert found["works/WORK-01/work_WORK-01.log"].endswith("_ORCHESTRATOR_DONE_WORK-01\n")
    again = records(work(children=done), "CLOSING", Given(artifacts=artifacts, tree={**before, **found}), AT).files
    assert again == found, "after a crash the same outcome is not recorded twice"


def test_a_work_that_goes_on_is_shown_with_its_states_times_and_commits() -> None:
    statuses = {"TASK-00": ChildStatus.COMPLETED, "TASK-01": ChildStatus.SUBMITTED, "TASK-02": ChildStatus.SUBMITTED}
    children = tuple(replace(child(key, status), task=f"x.{key}") for key, status in statuses.items())
    children += (
        replace(
            child("TASK-03", ChildStatus.PLANNED), plan=replace(children[0].plan, key="TASK-03", after=("TASK-01",))
        ),
    )
    begun = part("TASK-00", "committer")
    ended = replace(begun, timing=replace(begun.timing, started_at=AT, completed_at=AT + timedelta(minutes=75)))
    tasks = {"x.TASK-00": ended, "x.TASK-01": replace(begun, timing=replace(begun.timing, started_at=AT))}
    artifacts = planned(DIAMOND, Mode.FULL)
    task = work(children=children)
    shown = WorkProjection().files(
        Projected(task=task, children=tasks, artifact=lambda name: artifacts.get(name, ""), record=lambda _: "")
    )
    overview = read_overview(shown["PROGRESS.md"])
    assert [(row.task, row.state, row.duration) for row in overview.tasks] == [
        ("TASK-00", TaskState.DONE, "1h15m"),
        ("TASK-01", TaskState.IN_PROGRESS, ""),
        ("TASK-02", TaskState.READY, ""),
        ("TASK-03", TaskState.BLOCKED, ""),
    ]
    assert overview.log == ("[05:20] TASK-00 DONE",)
    log = shown["work_WORK-01.log"]
    assert f"_COMMITTER_COMMIT_TASK-00 {'c' * 40}\n" in log
    assert log.count("_ORCHESTRATOR_DISPATCH_") == 2
    given = Given(artifacts=artifacts | {f"records/{name}": text for name, text in shown.items()})
    done = replace(task, children=tuple(replace(one, status=ChildStatus.COMPLETED) for one in children))
    on_the_branch = records(done, "CLOSING", given, AT).files
    assert read_overview(on_the_branch["works/WORK-01/PROGRESS.md"]).tasks[0].duration == "1h15m"
    assert on_the_branch["works/WORK-01/work_WORK-01.log"].startswith(log)


def test_a_work_with_a_failed_task_is_not_done() -> None:
    before = {"works/WORK-LIST.md": "| WORK-01 | Files | IN_PROGRESS | 2026-01-01 | |\n"}
    ended = (child("TASK-00", ChildStatus.FAILED), child("TASK-01", ChildStatus.SKIPPED))
    found = records(work(children=ended), "CLOSING", Given(tree=before), AT).files
    assert [row.state for row in read_overview(found["works/WORK-01/PROGRESS.md"]).tasks] == [
        TaskState.FAILED,
        TaskState.SKIPPED,
    ]
    assert found["works/WORK-LIST.md"] == before["works/WORK-LIST.md"]


def test_an_empty_file_of_a_task_that_the_plan_does_not_name_is_refused_in_words() -> None:
    left = {**planned({"TASK-00": ()}, Mode.FULL), "TASK-01.md": "", RESUMED: '{"tasks": ["TASK-01"], "done": []}'}
    with pytest.raises(ValueError, match=r"TASK-01\.md is empty"):
        read_children(plan({"TASK-00": ()}, Mode.FULL), Given(artifacts=left))
