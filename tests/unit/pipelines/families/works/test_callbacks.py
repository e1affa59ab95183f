"""What a TASK of a WORK tells other programs, from what its agents left and from its own state."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import orjson
import pytest

from orchestrator.core.events.callback import CallbackKind
from orchestrator.core.task.progress import StageRecord, StageStatus
from orchestrator.core.task.task import Task, TaskStatus, Timing
from orchestrator.core.task.ticket import Ticket
from orchestrator.pipelines.families.works.callbacks import LONGEST_TEXT, compose_callbacks
from orchestrator.pipelines.families.works.documents.language import Language
from orchestrator.pipelines.families.works.documents.names import Mode
from orchestrator.pipelines.families.works.documents.progress import ChangedFile
from orchestrator.pipelines.families.works.documents.result import TaskReport, write_result
from orchestrator.pipelines.families.works.exchange.handoff import Handoff
from orchestrator.pipelines.families.works.exchange.task_result import Outcome, TaskResult, write_task_result
from tests.fakes.tasks import submitted
from tests.fakes.world import START

Told = tuple[CallbackKind, dict[str, Any]]
HEAD = "c0ffee" * 6 + "c0ff"
END = START + timedelta(minutes=5)
HANDOFF = Handoff(
    source="builder", what='Wrote "slugify"', why="It was asked for", caution="Not for URLs", incomplete="None"
)


@dataclass
class InMemory:
    """The files of a task."""

    artifacts: Mapping[str, str] = field(default_factory=dict)
    work: Mapping[str, str] = field(default_factory=dict)

    def artifact(self, name: str) -> str | None:
        return self.artifacts.get(name)

    def committed(self, path: str) -> str | None:
        return self.work.get(path)

    def names(self, folder: str) -> tuple[str, ...]:
        return tuple(path for path in self.work if path.startswith(folder))


def answer(handoff: Handoff | None = HANDOFF, **changes: object) -> str:
    """The builder's answer."""
    result = TaskResult(
        work="WORK-07", task="TASK-00", agent="builder", outcome=Outcome.PASS,
        files=(ChangedFile(path="textkit/__init__.py"),), handoff=handoff,
    )  # fmt: skip
    return write_task_result(replace(result, **changes))  # type: ignore[arg-type]  # any field


def work() -> Task:
    return submitted("WORK-07_20261122_080000", ticket=Ticket(key="WORK-07"))


def one_task(status: TaskStatus, **changes: object) -> Task:
    record = StageRecord(status=StageStatus.COMPLETED, artifacts=("build-result.xml",))
    stages = {"BUILD": record, "VERIFICATION": StageRecord()}
    done = Timing(created_at=START, completed_at=END if status is TaskStatus.COMPLETED else None)
    key = Ticket(key="WORK-07.TASK-00")
    given = {"ticket": key, "timing": done, "stages": stages, "stage": "VERIFICATION", "head": HEAD, **changes}
    return submitted("WORK-07_20261122_080000.TASK-00", status=status, parent=work().id, **given)


def told(task: Task, files: InMemory | None = None, note: str = "") -> list[Told]:
    return [(one.kind, dict(one.body)) for one in compose_callbacks(task, files or InMemory(), note)]


def test_a_finished_task_tells_what_its_builder_handed_on_and_the_files_of_its_result() -> None:
    report = TaskReport(
        task="TASK-00", title="Slugify", work="WORK-07", completed="2026-11-22 08:05", mode=Mode.PIPELINE,
        summary="Slugs", files=(ChangedFile(path="textkit/__init__.py"), ChangedFile(path="README.md")),
    )  # fmt: skip
    files = InMemory(
        artifacts={"build-result.xml": answer()},
        work={"works/WORK-07/TASK-00_result.md": write_result(report, Language.KO)},
    )
    ((kind, body),) = told(one_task(TaskStatus.COMPLETED), files)
    assert kind is CallbackKind.TASK
    assert body == {
        "workId": "WORK-07", "taskId": "TASK-00", "status": "SUCCESS", "commitHash": HEAD,
        "what": 'Wrote "slugify"', "why": "It was asked for", "caution": "Not for URLs", "incomplete": "",
        "filesChanged": ["textkit/__init__.py", "README.md"], "timestamp": body["timestamp"],
    }  # fmt: skip
    assert orjson.loads(orjson.dumps(body)) == body


def test_what_is_left_incomplete_makes_it_partial() -> None:
    left = answer(replace(HANDOFF, incomplete="Empty titles"))
    ((_, body),) = told(one_task(TaskStatus.COMPLETED), InMemory(artifacts={"build-result.xml": left}))
    assert (body["status"], body["incomplete"]) == ("PARTIAL", "Empty titles")


@pytest.mark.parametrize("status", [TaskStatus.FAILED, TaskStatus.CANCELLED])
def test_a_task_that_was_not_done_has_failed_with_the_reason_and_without_a_commit(status: TaskStatus) -> None:
    ((_, body),) = told(one_task(status, block_reason="the verifier failed it 3 times"))
    assert (body["status"], body["commitHash"]) == ("FAILED", None)
    assert body["why"] == "the verifier failed it 3 times"
    ((_, without),) = told(one_task(status))
    assert without["why"] == "it was not completed"


def test_a_task_under_way_tells_the_last_note_and_its_stages() -> None:
    ((kind, body),) = told(one_task(TaskStatus.IN_PROGRESS), note="The parser is next.")
    assert (kind, body["status"], body["currentReasoning"]) == (
        CallbackKind.PROGRESS, "IN_PROGRESS", "The parser is next.",
    )  # fmt: skip
    assert body["checklist"] == [{"item": "BUILD", "done": True}, {"item": "VERIFICATION", "done": False}]


def test_the_same_state_has_the_same_key_and_another_note_another_one() -> None:
    def key(note: str, seq: int) -> str:
        task = replace(one_task(TaskStatus.IN_PROGRESS), seq=seq, updated_at=START + timedelta(seconds=seq))
        (one,) = compose_callbacks(task, InMemory(), note)
        return one.key

    assert key("a", 1) == key("a", 2) != key("b", 2)


def test_the_key_of_an_end_stays_when_the_task_is_archived() -> None:
    ended = one_task(TaskStatus.COMPLETED)
    archived = replace(ended, status=TaskStatus.ARCHIVED, updated_at=END + timedelta(days=1))
    assert compose_callbacks(archived, InMemory(), "") == compose_callbacks(ended, InMemory(), "")


def test_nothing_is_told_about_a_work_itself_or_before_a_task_starts() -> None:
    assert told(work()) == []
    assert told(one_task(TaskStatus.PENDING)) == []
    assert told(one_task(TaskStatus.COMPLETED, ticket=Ticket(key="ABC-12.TASK-00"))) == []


@pytest.mark.parametrize(
    "hostile", ["<task-result" * 20_000, '<task-result agent="builder"><what>&boom;', "\x00" * 100]
)
def test_hostile_answers_and_results_are_left_out(hostile: str) -> None:
    files = InMemory(artifacts={"build-result.xml": hostile}, work={"works/WORK-07/TASK-00_result.md": hostile})
    ((_, body),) = told(one_task(TaskStatus.COMPLETED), files)
    assert body["status"] == "SUCCESS"
    assert len(orjson.dumps(body)) < 10_000


def test_long_texts_are_cut() -> None:
    ((_, body),) = told(one_task(TaskStatus.IN_PROGRESS), note="long " * LONGEST_TEXT)
    assert len(body["currentReasoning"]) == LONGEST_TEXT
