"""Works of any size, and hostile numbers, cost few looks at the repository."""

from dataclasses import dataclass, field

import pytest

from orchestrator.pipelines.families.works.beginning import begin
from orchestrator.pipelines.families.works.documents.work_list import WorkRow, with_work
from tests.acceptance.works_harness import task_file
from tests.unit.pipelines.families.works.test_hooks import CHAIN, Given, asked, dispatch_for, on_branch


@dataclass(frozen=True)
class Counted(Given):
    """Files of a task, of which a listing names at most 1,000; it counts what is asked of the repository."""

    questions: list[str] = field(default_factory=list)

    def committed(self, path: str) -> str | None:
        """Return a file of the branch."""
        self.questions.append(path)
        return super().committed(path)

    def names(self, folder: str) -> tuple[str, ...]:
        """Return the paths below a folder."""
        self.questions.append(folder)
        return super().names(folder)[:1000]


def test_the_next_number_is_found_with_few_questions_however_many_works_there_are() -> None:
    files = Counted(tree={f"works/WORK-{number:02}/PLAN.md": "" for number in range(1, 900)})
    assert begin(asked("x"), files).key == "WORK-900"
    assert len(files.questions) < 10


def test_a_listing_that_is_cut_short_never_leads_to_the_number_of_another_work() -> None:
    many = {f"works/WORK-01/{number}.md": "" for number in range(1000)}
    few = Counted(tree={**many, **{f"works/WORK-{number:02}/PLAN.md": "" for number in range(2, 100)}})
    assert begin(asked("x"), few).key == "WORK-100"
    full = Counted(tree={**many, **{f"works/WORK-{number:02}/PLAN.md": "" for number in range(2, 1000)}})
    with pytest.raises(ValueError, match="LAST_WORK_ID"):
        begin(asked("x"), full)
    assert len(full.questions) < 500
    listed = {**full.tree, "works/WORK-LIST.md": "LAST_WORK_ID: WORK-999\n"}
    assert begin(asked("x"), Counted(tree=listed)).key == "WORK-1000"


@pytest.mark.parametrize("digits", ["100000000", "999999999", "9999999999", "9" * 100_000])
def test_a_number_of_more_than_eight_digits_is_refused_in_words(digits: str) -> None:
    listed = Given(tree={"works/WORK-LIST.md": f"LAST_WORK_ID: WORK-{digits}\n"})
    with pytest.raises(ValueError, match="at most eight digits") as refused:
        begin(asked("x"), listed)
    assert len(str(refused.value)) < 200
    row_of_it = WorkRow(work="WORK-01", title="x", status=None)
    assert f"LAST_WORK_ID: WORK-{digits}\n" in with_work(listed.tree["works/WORK-LIST.md"], row_of_it)
    with pytest.raises(ValueError, match="WORK-NN, with at most eight digits"):
        begin(asked("x", ticket=f"WORK-{digits[:12]}"), Given())
    row = Given(tree={"works/WORK-LIST.md": f"| WORK-{digits} | x | DONE | | |\n", f"works/WORK-{digits}/PLAN.md": ""})
    assert begin(asked("x", keys=(f"WORK-{digits}",)), row).key == "WORK-01"
    last = Given(tree={"works/WORK-LIST.md": "LAST_WORK_ID: WORK-99999999\n"})
    with pytest.raises(ValueError, match="no number is left"):
        begin(asked("x"), last)


def test_few_files_are_read_for_a_task_that_names_thousands_before_it() -> None:
    named = [f"TASK-{number}" for number in range(100, 5000)]
    own = {"works/WORK-01/TASK-03.md": task_file("TASK-03", [*named, "TASK-02"])}
    files = Counted(tree={**on_branch({**CHAIN, "TASK-03": ()}, tuple(CHAIN)), **own})
    found = dispatch_for("TASK-03", "builder", files)
    assert [one.task for one in found.handoffs] == ["TASK-02", "TASK-01"]
    assert len(files.questions) < 20
    files = Counted(tree={**on_branch(dict.fromkeys(named, ())), **own})
    dispatch_for("TASK-03", "builder", files)
    assert len(files.questions) < 500
